package debounce_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/debounce"
	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
)

// debouncerCase is a Debouncer, how long its action takes, and a script for it.
type debouncerCase struct {
	opts     debounce.Options
	throttle bool // NewThrottle, with opts.Delay as its interval
	slow     bool
	script   []step
}

// takes returns how long the action takes for a value. The nanosecond keeps an end
// from falling together with something else.
func (c debouncerCase) takes(value int) time.Duration {
	if !c.slow || value%3 == 0 {
		return 0
	}
	return time.Duration(value*7%23)*time.Millisecond + 1
}

// drawCase makes a case of bytes; any bytes make one. Durations are whole
// milliseconds, and step i is i microseconds past one, so that no timer rings when
// a step is due.
func drawCase(data []byte) (c debouncerCase) {
	next := func() int {
		if len(data) == 0 {
			return 0
		}
		b := data[0]
		data = data[1:]
		return int(b)
	}
	flags := next()
	c.opts.Leading = flags&1 != 0
	c.opts.Trailing = flags&2 != 0
	c.opts.DropOnStop = flags&4 != 0
	c.slow = flags&8 != 0
	c.throttle = flags&48 == 48
	c.opts.Delay = time.Duration(next()%12) * time.Millisecond
	if maxWait := next(); maxWait%3 > 0 {
		c.opts.MaxWait = c.opts.Delay + time.Duration(maxWait%16)*time.Millisecond
	}
	var at time.Duration
	for i := 1; len(data) > 0 && i <= 200; i++ {
		s := step{op: opTrigger, value: i}
		what := next()
		switch {
		case what >= 249:
			s.op, s.value = opStop, next()%13
		case what >= 232:
			s.op = opCancel
		case what >= 205:
			s.op = opFlush
		case what >= 180:
			s.op = opPending
		}
		at += time.Duration(what%6*(what%5)) * time.Millisecond
		s.at = at + time.Duration(i)*time.Microsecond
		c.script = append(c.script, s)
	}
	return c
}

// check compares what the case does with what the oracle says, and returns that. It
// returns nil when the oracle cannot tell.
func (c debouncerCase) check(t *testing.T) []note {
	t.Helper()
	opts := c.opts
	if c.throttle {
		opts = throttleOptions(c.opts.Delay, c.opts)
	}
	o := newOracle(opts, c.takes)
	want := o.play(c.script)
	if o.tied {
		return nil
	}
	got := playScript(t, c.takes, c.script, func(action func(int)) *debounce.Debouncer[int] {
		if c.throttle {
			return debounce.NewThrottle(c.opts.Delay, c.opts, action)
		}
		return debounce.New(c.opts, action)
	})
	if !slices.Equal(got, want) {
		t.Errorf("%+v\ngot  %v\nwant %v", c, formatNotes(got), formatNotes(want))
	}
	return want
}

func TestDebouncerFollowsOracle(t *testing.T) {
	n := 4000
	if testing.Short() || racetest.Factor > 1 {
		n = 400
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	seen := make(map[string]int)
	for range n {
		data := make([]byte, 3+rng.IntN(60))
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		c := drawCase(data)
		notes := c.check(t)
		if t.Failed() {
			t.Fatalf("seed %d, bytes %v", seed, data)
		}
		if notes != nil {
			seen["scripts"]++
		}
		for _, n := range notes {
			what, _, isRun := strings.Cut(n.what, "run ")
			if isRun {
				what = "run"
			}
			seen[what]++
		}
	}
	for what, atLeast := range map[string]int{
		"scripts":                n * 9 / 10,
		"run":                    n * 3,
		noteFlushed:              n,
		notePending(true):        n / 4,
		notePending(false):       n / 4,
		noteStopped(nil):         n / 20,
		noteStopped(errDeadline): n / 400,
	} {
		if seen[what] < atLeast {
			t.Errorf("%d times %q in %d scripts, want at least %d", seen[what], what, n, atLeast)
		}
	}
}

func FuzzDebouncer(f *testing.F) {
	f.Add([]byte{0, 10, 0, 1, 1, 1, 206, 1, 240, 1, 255, 5})
	f.Add([]byte{3, 0, 0, 1, 2, 3, 206, 1, 240, 1, 254, 0})
	f.Add([]byte{11, 5, 1, 1, 1, 1, 1, 206, 1, 1, 240, 1, 1, 182, 255, 5, 1, 255, 0})
	f.Add([]byte{48 | 8, 5, 1, 7, 7, 7, 7, 7, 7, 7, 7, 206, 7, 7, 254, 0})
	f.Add([]byte{48 | 1, 8, 1, 7, 8, 9, 10, 11, 12, 13})
	f.Add([]byte{48 | 2, 8, 1, 7, 8, 9, 10, 11, 12, 13})
	f.Fuzz(func(t *testing.T, data []byte) { drawCase(data).check(t) })
}
