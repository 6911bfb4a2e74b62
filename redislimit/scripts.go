package redislimit

import (
	_ "embed"
	"errors"
	"math"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed lua/common.lua
	commonLua string
	//go:embed lua/fixedwindow.lua
	fixedWindowLua string
	//go:embed lua/slidingcounter.lua
	slidingCounterLua string
	//go:embed lua/slidinglog.lua
	slidingLogLua string
	//go:embed lua/tokenbucket.lua
	tokenBucketLua string
	//go:embed lua/take.lua
	takeLua string
	//go:embed lua/takeall.lua
	takeAllLua string
	//go:embed lua/settle.lua
	settleLua string

	fixedWindowScript    = single(fixedWindowLua, kindFixedWindow)
	slidingCounterScript = single(slidingCounterLua, kindSlidingCounter)
	slidingLogScript     = single(slidingLogLua, kindSlidingLog)
	tokenBucketScript    = single(tokenBucketLua, kindTokenBucket)
	takeAllScript        = redis.NewScript(commonLua + fixedWindowLua + slidingCounterLua + slidingLogLua +
		tokenBucketLua + takeAllLua)
	settleScript = redis.NewScript(commonLua + slidingLogLua + settleLua)
)

// single returns the script of one kind of limiter.
func single(lua, kind string) *redis.Script {
	return redis.NewScript(commonLua + lua + "\nlocal decide = decide_" + kind + "\n" + takeLua)
}

// layout is the version of the keys and of what they hold. Limiters of different layouts do not see
// each other.
const layout = "1"

// The kinds of limiters, as scripts and keys name them.
const (
	kindFixedWindow    = "w"
	kindSlidingCounter = "c"
	kindSlidingLog     = "l"
	kindTokenBucket    = "b"
)

// The arithmetic of the scripts is exact below 2^53. With these bounds no sum or time of it gets
// there.
const (
	maxUnits = min(1<<50, math.MaxInt-1) // a limit
	maxParts = 1 << 50                   // of a microsecond, in a rate
	maxTime  = 1 << 51                   // microseconds; 71 years
)

var errReply = errors.New("a reply that the script does not give")

// verdict splits the answer of a script into whether it admits, and its reports.
func verdict(answer string) (ok bool, reports []string, err error) {
	flag, rest, found := strings.Cut(answer, " ")
	if !found || flag != "0" && flag != "1" {
		return false, nil, errReply
	}
	return flag == "1", strings.Split(rest, "\n"), nil
}

// numbers reads the numbers of a report. None is negative, nor 2^53 or more.
func numbers(report string, into ...*int64) error {
	for i, n := range into {
		field, rest, found := strings.Cut(report, " ")
		if found == (i == len(into)-1) {
			return errReply
		}
		value, err := strconv.ParseUint(field, 10, 53)
		if err != nil {
			return errReply
		}
		*n, report = int64(value), rest
	}
	return nil
}
