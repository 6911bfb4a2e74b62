package redisstore

import (
	_ "embed"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// The scripts read the head of the log and its time in the same way; append tries the common case
// before that. What follows them makes its functions only where it needs them.
var (
	//go:embed lua/fast.lua
	fastLua string
	//go:embed lua/args.lua
	argsLua string
	//go:embed lua/common.lua
	commonLua string
	//go:embed lua/entries.lua
	entriesLua string
	//go:embed lua/turns.lua
	turnsLua string
	//go:embed lua/days.lua
	daysLua string
	//go:embed lua/effects.lua
	effectsLua string
	//go:embed lua/append.lua
	appendLua string
	//go:embed lua/look.lua
	lookLua string
	//go:embed lua/join.lua
	joinLua string
	//go:embed lua/drop.lua
	dropLua string
	//go:embed lua/sweep.lua
	sweepLua string

	appendScript = redis.NewScript(fastLua + commonLua + entriesLua + turnsLua + daysLua + effectsLua + appendLua)
	lookScript   = redis.NewScript(argsLua + commonLua + entriesLua + lookLua)
	joinScript   = redis.NewScript(argsLua + commonLua + joinLua)
	dropScript   = redis.NewScript(argsLua + commonLua + entriesLua + dropLua)
	sweepScript  = redis.NewScript(argsLua + commonLua + sweepLua)
)

// layout is the version of the keys and of what they hold. Stores of different layouts do not see
// each other.
const layout = "2"

// The keys, in the order in which the scripts know them.
const (
	keyLog = iota
	keyMeta
	keyDays
	keyQuotas
	keyCooldowns
	keyAnswers
	keyProcs
	keyHoles
	keyFound
	keySpend
	keyPools
)

// keysOf returns the keys of a prefix.
func keysOf(prefix string) []string {
	var keys []string
	for _, name := range []string{"log", "meta", "days", "quotas", "cooldowns", "answers", "procs", "holes", "found", "spend", "pools"} {
		keys = append(keys, "{"+prefix+"}:ratelimit:"+layout+":"+name)
	}
	return keys
}

// argExpected is the place of the argument that says what the time should be, of all scripts.
const argExpected = 4

// commonKeys is how many of the keys the common case of append needs.
const commonKeys = keyDays + 1

// The modes of the script append.
const (
	modeCompare = "c" // writes nothing where others came first,
	modeQueue   = "q" // and gets in line for a turn
	modeAppend  = "a" // writes behind what others have written
	modeNext    = "n" // compares, and the days go on from those of the part that was appended before
	modeJoin    = "j" // writes nothing, and gets in line
	modeLeave   = "l" // writes nothing, and gives up its place in line
)

// args returns the arguments that all scripts but append begin with, with room for more.
func (l *Log) args(at position, lease bool, more int) []any {
	var ms int64
	if lease {
		ms = l.options.LeaseTTL.Milliseconds()
	}
	return append(make([]any, 0, 6+more), at.log, at.seq, at.stamp, l.process, 0, ms)
}

func parseInt(text string) (int64, error) { return strconv.ParseInt(text, 10, 64) }

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
