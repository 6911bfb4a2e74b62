// Limits that are found, on a wall clock that is set.

package ratelimit

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A step of the wall clock neither lets a call pass earlier nor later, and moves no limit by more
// than it would age in the time that has really passed.
func TestAdaptiveWallClockSteps(t *testing.T) {
	for _, by := range []time.Duration{
		time.Second, time.Hour, 24 * time.Hour, 40 * 365 * 24 * time.Hour,
		-time.Second, -time.Hour, -24 * time.Hour, -20 * 365 * 24 * time.Hour,
	} {
		t.Run(by.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rl := &RateLimiter{Quotas: map[string]ModelQuota{"m": {AdaptiveFloorRPM: 6, AdaptiveFloorInFlight: 10}}}
				refuse := func(ago time.Duration) {
					for _, problem := range []string{"rate_limited", "overloaded"} {
						rl.ObserveRefusal(context.Background(), ProviderRefusal{Model: "m", Problem: problem, SentAt: rl.clock.Wall().Add(-ago)})
					}
				}
				found := func(when string, rate, slots int) {
					t.Helper()
					if s := rl.Stats("m"); s.AdaptiveRPM != rate || s.AdaptiveInFlight != slots {
						t.Errorf("%s: %d a minute and %d slots, want %d and %d", when, s.AdaptiveRPM, s.AdaptiveInFlight, rate, slots)
					}
				}
				rl.clock.Wall = time.Now
				time.Sleep(time.Minute)
				found("at first", 12, 20)
				r, _ := rl.Reserve("m", 0, 0)
				time.Sleep(2 * time.Second)
				for i, ahead := range []time.Duration{by, 0, by, -by} { // forth and back
					rl.clock.Wall = wallAhead(ahead)
					if i == 1 {
						rl.clock.Compare()
					}
					if d := rl.Decide("m", 0); d.Allowed || d.RetryAfter != 3*time.Second {
						t.Errorf("set by %v, 2 s after a call: %+v, want 3 s more", ahead, d)
					}
					found("after the step", 12, 20)
				}
				rl.clock.Wall = wallAhead(by)
				rl.clock.Compare()
				refuse(time.Second)
				found("after a refusal", 11, 19)
				time.Sleep(10 * time.Second)
				refuse(11 * time.Second)
				found("after one of a call that was sent before", 11, 19)
				rl.clock.Wall = wallAhead(-by)
				rl.clock.Compare()
				refuse(15 * time.Second)
				found("after one more, on another clock", 11, 19)
				refuse(time.Second)
				found("after one of a call that was sent since", 10, 17)
				r.Commit(0, 0)
			})
		})
	}
}
