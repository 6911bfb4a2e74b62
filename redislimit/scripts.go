package redislimit

import (
	"embed"
	"errors"
	"math"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

//go:embed lua
var lua embed.FS

// source returns the text of files of lua, one behind the other.
func source(names ...string) string {
	var all strings.Builder
	for _, name := range names {
		text, err := lua.ReadFile("lua/" + name + ".lua")
		if err != nil {
			panic(err) // the names are constants
		}
		all.Write(text)
	}
	return all.String()
}

// kind is one of the kinds of limiters.
type kind struct {
	name string // as scripts and keys have it
	take *redis.Script
}

func newKind(name, file, put string) kind {
	return kind{name, redis.NewScript(source("common", file) + "local look, put = look_" + name + ", " + put + "\n" + source("take"))}
}

var (
	fixedWindowKind    = newKind("w", "fixedwindow", "put")
	slidingCounterKind = newKind("c", "slidingcounter", "put")
	slidingLogKind     = newKind("l", "slidinglog", "put_l")
	tokenBucketKind    = newKind("b", "tokenbucket", "put")

	takeAllScript = redis.NewScript(source("common", "fixedwindow", "slidingcounter", "slidinglog", "tokenbucket", "takeall"))
	settleScript  = redis.NewScript(source("common", "slidinglog", "settle"))
)

// layout is the version of the keys and of what they hold. Limiters of different layouts do not see
// each other.
const layout = "1"

// The arithmetic of the scripts is exact below 2^53. With these bounds no sum or time of it gets
// there.
const (
	maxUnits = min(1<<50, math.MaxInt-1) // a limit
	maxParts = 1 << 50                   // of a microsecond, in a rate
	maxTime  = 1 << 51                   // microseconds; 71 years
)

var errReply = errors.New("a reply that the script does not give")

// answer is what a script tells of a decision: whether it admits, when it was, and the states
// before it.
type answer struct {
	ok     bool
	now    int64 // microseconds
	states string
}

func parseAnswer(text string) (a answer, err error) {
	head, states, found := strings.Cut(text, "\n")
	flag, clock, _ := strings.Cut(head, " ")
	var seconds, us int64
	err = numbers(clock, &seconds, &us)
	if err != nil || !found || clock == "" || flag != "0" && flag != "1" || seconds >= 1<<53/1_000_000 || us >= 1_000_000 {
		return a, errReply
	}
	return answer{flag == "1", seconds*1_000_000 + us, states}, nil
}

// numbers reads the numbers of a text. None is negative, nor 2^53 or more. Those of the empty text,
// which is the state of a limiter that was never used, are 0.
func numbers(text string, into ...*int64) error {
	if text == "" {
		return nil
	}
	for i, n := range into {
		field, rest, found := strings.Cut(text, " ")
		if found == (i == len(into)-1) {
			return errReply
		}
		value, err := strconv.ParseUint(field, 10, 53)
		if err != nil {
			return errReply
		}
		*n, text = int64(value), rest
	}
	return nil
}
