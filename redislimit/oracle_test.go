package redislimit_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/limit"
	"dappco.re/go/core/go-ratelimit/redislimit"
)

// pair is a limiter and the limiter in memory that decides the same.
type pair struct {
	name   string
	remote redislimit.Limiter
	oracle limit.Limiter
	most   int
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// pairs returns limiters of all kinds, with windows and rates of all sizes.
func pairs(s standing) (all []pair) {
	o := redislimit.Options{Timeout: patience}
	for _, w := range []struct {
		units  int
		window time.Duration
	}{
		{1, time.Microsecond}, {3, 7 * time.Microsecond}, {10, time.Second}, {100, time.Minute},
		{4096, time.Hour}, {min(1<<50, math.MaxInt), 400 * 24 * time.Hour}, {min(1<<50-1, math.MaxInt), 999_999_999_989 * time.Microsecond},
	} {
		name := fmt.Sprintf("%d in %v", w.units, w.window)
		all = append(all,
			pair{"fixed window " + name, must(redislimit.NewFixedWindow(s.client, w.units, w.window, o)),
				must(limit.NewFixedWindow(w.units, w.window)), w.units},
			pair{"sliding counter " + name, must(redislimit.NewSlidingCounter(s.client, w.units, w.window, o)),
				must(limit.NewSlidingCounter(w.units, w.window)), w.units})
		if w.units <= 4096 {
			all = append(all, pair{"sliding log " + name, must(redislimit.NewSlidingLog(s.client, w.units, w.window, o)),
				must(limit.NewSlidingLog(w.units, w.window)), w.units})
		}
	}
	for _, b := range []struct {
		rate  limit.Rate
		burst int
	}{
		{limit.PerSecond(10), 10}, {limit.PerSecond(3), 1}, {limit.PerMinute(7), 50}, {limit.PerSecond(1 << 30), 1 << 30},
		{limit.Rate{Count: 1_000_003, Per: 86_399_999_999_999}, 99}, {limit.Rate{Count: 1, Per: 365 * 24 * time.Hour}, 30},
		{limit.Rate{Count: min(1<<40, math.MaxInt), Per: time.Second}, min(1<<50, math.MaxInt)}, {limit.Rate{Count: 7, Per: 3}, 5},
	} {
		all = append(all, pair{fmt.Sprintf("token bucket %v burst %d", b.rate, b.burst),
			must(redislimit.NewTokenBucket(s.client, b.rate, b.burst, o)), must(limit.NewMeter(b.rate, b.burst)), b.burst})
	}
	return all
}

// Each limiter decides, to the microsecond and in all fields, as the exact one of package limit
// that sees the same instants.
func TestDecidesAsPackageLimit(t *testing.T) {
	onServers(t, func(t *testing.T, s standing) {
		steps := 150
		if testing.Short() {
			steps = 40
		}
		for seed, p := range pairs(s) {
			t.Run(p.name, func(t *testing.T) {
				r := rand.New(rand.NewPCG(uint64(seed), 18))
				now := epoch.Add(time.Duration(r.Int64N(int64(time.Hour)))).Truncate(time.Microsecond)
				key, last := p.name, limit.Decision{}
				for range steps {
					if now.Year() > 2200 { // microseconds are exact until 2255
						break
					}
					now = now.Add(stride(r, last)).Truncate(time.Microsecond)
					s.setTime(now)
					n := units(r, p.most, last)
					got, err := p.remote.Take(t.Context(), key, n)
					want := p.oracle.TakeAt(now, n)
					exact := want.RetryAfter
					want.RetryAfter, want.ResetAfter = up(want.RetryAfter), up(want.ResetAfter)
					if err != nil || got != want {
						t.Fatalf("%d at %v:\n got %+v, %v\nwant %+v (retry exactly after %v)", n, now, got, err, want, exact)
					}
					last = got
				}
			})
		}
	})
}

// stride returns how long it takes until the next request: nothing, very little, or just up to when
// the last decision says.
func stride(r *rand.Rand, last limit.Decision) time.Duration {
	switch r.IntN(6) {
	case 0:
		return 0
	case 1:
		return time.Duration(r.IntN(10)) * time.Microsecond
	case 2:
		return max(last.RetryAfter-time.Microsecond, 0)
	case 3:
		return last.RetryAfter
	case 4:
		return time.Duration(r.Int64N(int64(last.ResetAfter) + 1))
	}
	return max(last.ResetAfter-time.Duration(r.IntN(3))*time.Microsecond, 0)
}

func units(r *rand.Rand, most int, last limit.Decision) int {
	switch r.IntN(6) {
	case 0:
		return 1
	case 1:
		return min(last.Remaining+1, most)
	case 2:
		return last.Remaining
	case 3:
		return most
	case 4:
		return most + r.IntN(2)
	}
	return r.IntN(most + 1)
}

// up rounds up to whole microseconds, in which the server tells the time.
func up(d time.Duration) time.Duration {
	return (d + time.Microsecond - 1).Truncate(time.Microsecond)
}
