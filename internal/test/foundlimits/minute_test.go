// Limits that are found of a provider that counts the minute.

package foundlimits

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	sim "dappco.re/go/core/go-ratelimit/internal/test/adaptivesim"
	"dappco.re/go/core/go-ratelimit/internal/test/limitertest"
	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
)

// However a provider counts the minute, at most 2 % of the calls are refused, and 95 % of what it
// allows is used. Beside a neighbour that comes and goes at most 3 % are refused, or 4.5 % by a
// bucket of one call.
func TestAdaptiveMinutes(t *testing.T) {
	if testing.Short() || racetest.Factor > 1 {
		t.Skip("takes seconds")
	}
	for _, shape := range sim.Shapes() {
		for _, retryAfter := range []bool{false, true} {
			for _, period := range []time.Duration{0, 5 * time.Minute} {
				t.Run(fmt.Sprintf("%v, Retry-After %v, neighbour every %v", shape.Name, retryAfter, period), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						rl := limitertest.Of(t, ratelimit.ModelQuota{AdaptiveFloorRPM: 6})
						s := adaptiveMeet(rl, shape.Run(5, retryAfter, period, 0).Provider, 10*time.Minute, 30*time.Minute)
						t.Logf("%.2f %% refused, %.2f %% used", 100*s.RefusedShare(), 100*s.Goodput())
						refused, used := 0.02, 0.95
						if period > 0 {
							refused, used = 0.03, 0.1
							if shape.Name == "a bucket of 1" {
								refused = 0.045 // docs/adaptive.md says why; under the Transport, too
							}
						}
						if s.RefusedShare() > refused || s.Goodput() < used {
							t.Errorf("%.2f %% refused, %.2f %% used", 100*s.RefusedShare(), 100*s.Goodput())
						}
					})
				})
			}
		}
	}
}

// adaptiveMeet has a limiter make as many calls as pass, and returns what they met from one time to
// another.
func adaptiveMeet(rl *ratelimit.RateLimiter, p sim.Provider, from, to time.Duration) (s sim.Sum) {
	door, began := sim.NewDoor(p, 3), time.Now()
	for time.Since(began) < to {
		r, d := rl.Reserve("m", 0, 0)
		if r == nil {
			time.Sleep(d.RetryAfter)
			continue
		}
		sent, arrived := time.Now(), door.Arrive(time.Since(began))
		counts := time.Since(began) >= from
		if counts {
			s.Sent++
		}
		r.Commit(0, 0)
		if arrived.Outcome == sim.Answered {
			door.Left()
			if counts {
				s.Answered++
			}
			continue
		}
		if counts {
			s.Refused++
		}
		go func() {
			time.Sleep(300 * time.Millisecond)
			if arrived.RetryAfter > 0 {
				rl.CooldownFor("m", arrived.RetryAfter, ratelimit.CauseRateLimited)
			}
			rl.ObserveRefusal(context.Background(), ratelimit.ProviderRefusal{
				Model: "m", Status: 429, Problem: "rate_limited", RetryAfter: arrived.RetryAfter, SentAt: sent,
			})
		}()
	}
	s.Capacity = p.Capacity(0) * (to - from).Seconds()
	time.Sleep(time.Second)
	return s
}
