package limit_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/limit"
)

// Every constructor refuses parameters out of range with ErrInvalid, and names the first of
// them and its value.
func TestRefusalsNameTheParameter(t *testing.T) {
	second := limit.PerSecond(1)
	for _, c := range []struct {
		err  error
		want string
	}{
		{errorOf(limit.NewGCRA(limit.Rate{}, 1)), "new GCRA: invalid parameter: rate.Count is 0, want 1 or more"},
		{errorOf(limit.NewGCRA(limit.Rate{Count: -3, Per: 1}, 1)), "rate.Count is -3"},
		{errorOf(limit.NewGCRA(limit.Rate{Count: 1}, 1)), "rate.Per is 0s, want more than 0"},
		{errorOf(limit.NewMeter(limit.Every(1<<60+1), 1)), "new meter: invalid parameter: rate.Per is 320255h58m24.606846977s, want at most"},
		{errorOf(limit.NewGCRA(limit.Rate{Count: 2, Per: 1}, 1)), "rate is 2/1ns, want at most one in a nanosecond"},
		{errorOf(limit.NewAtomicGCRA(second, 0)), "new atomic GCRA: invalid parameter: burst is 0, want 1 or more"},
		{errorOf(limit.NewQueue(second, -1)), "new queue: invalid parameter: capacity is -1, want 1 or more"},
		{errorOf(limit.NewGCRA(limit.Every(1<<60), 2)), "burst is 2, which takes longer than"},
		{errorOf(limit.NewSharded(limit.Rate{}, 1, 1)), "new sharded: invalid parameter: rate.Count is 0"},
		{errorOf(limit.NewSharded(second, 0, 1)), "burst is 0, want 1 or more"},
		{errorOf(limit.NewSharded(second, -2, 1)), "burst is -2, want 1 or more"},
		{errorOf(limit.NewSharded(second, 1, 0)), "shards is 0, want 1 or more"},
		{errorOf(limit.NewSharded(second, 2, 3)), "shards is 3, want at most burst, which is 2"},
		{errorOf(limit.NewSharded(second, math.MaxInt32, 1<<16+1)), "shards is 65537, want at most 65536"},
		{errorOf(limit.NewSharded(limit.Every(1<<59+1), 2, 2)), "rate.Per is 160127h59m12.303423489s, want at most 160127h59m12.303423488s with 2 shards"},
		{errorOf(limit.NewSharded(limit.Every(1<<59), 3, 2)), "burst of a shard is 2, which takes longer than"},
		{errorOf(limit.NewFixedWindow(0, time.Second)), "new fixed window: invalid parameter: limit is 0, want 1 or more"},
		{errorOf(limit.NewAnchoredWindow(1, 0)), "new anchored window: invalid parameter: window is 0s, want more than 0"},
		{errorOf(limit.NewSlidingLog(-1, time.Second)), "new sliding log: invalid parameter: limit is -1"},
		{errorOf(limit.NewSlidingCounter(1, 1<<60+1)), "new sliding counter: invalid parameter: window is 320255h58m24.606846977s, want at most"},
		{errorOf(limit.NewTree("", must(limit.NewGCRA(second, 1)))), `new tree: invalid parameter: name is "", want a name`},
		{errorOf(limit.NewTree("team", nil)), `new tree "team": invalid parameter: limiter is nil`},
		{errorOf(limit.NewKeyed[int](0, 1, nil)), "new keyed: invalid parameter: most is 0, want 1 or more"},
		{errorOf(limit.NewKeyed[int](1, 0, nil)), "idle is 0s, want more than 0"},
		{errorOf(limit.NewKeyed[int](1, 1, nil)), "make is nil"},
	} {
		if !errors.Is(c.err, limit.ErrInvalid) || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%v, want %q in it", c.err, c.want)
		}
	}
}

// A Rate becomes a Limit in units a second; one without a time is no limit.
func TestRateLimit(t *testing.T) {
	for _, c := range []struct {
		rate limit.Rate
		want limit.Limit
	}{
		{limit.PerSecond(10), 10},
		{limit.PerMinute(90), 1.5},
		{limit.Every(1), 1e9},
		{limit.Rate{Count: 1}, limit.Inf},
		{limit.Rate{Count: 1, Per: -1}, limit.Inf},
		{limit.Rate{}, limit.Inf},
	} {
		if got := c.rate.Limit(); math.Abs(float64(got/c.want)-1) > 1e-12 {
			t.Errorf("%v: %v, want %v", c.rate, got, c.want)
		}
	}
}
