// The limiter on a wall clock that is set.

package ratelimit

import (
	"testing"
	"testing/synctest"
	"time"
)

// wallAhead returns the reading of a wall clock that is ahead of the machine's.
func wallAhead(by time.Duration) func() time.Time {
	return func() time.Time { return time.Now().Add(by) }
}

// A step of the wall clock neither creates minute capacity nor makes anyone wait longer.
func TestWallClockSteps(t *testing.T) {
	for _, by := range []time.Duration{
		time.Second, time.Minute, time.Hour, 24 * time.Hour, 40 * 365 * 24 * time.Hour,
		-time.Second, -time.Minute, -time.Hour, -24 * time.Hour, -30 * 365 * 24 * time.Hour,
	} {
		t.Run(by.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rl := &RateLimiter{Quotas: map[string]ModelQuota{"m": {MaxRPM: 1, MaxRPD: 100}}}
				rl.RecordUsage("m", 1, 1)
				time.Sleep(20 * time.Second)

				rl.clock.Wall = wallAhead(by)
				d := rl.Decide("m", 1)
				if d.Allowed || d.Code != DecisionRPMLimit || d.RetryAfter != 40*time.Second+1 {
					t.Errorf("after the step: %+v", d)
				}
				wantDay := 1
				if by >= 24*time.Hour {
					wantDay = 0
				}
				if d.Stats.RPD != wantDay {
					t.Errorf("the day counts %d, want %d", d.Stats.RPD, wantDay)
				}
				rl.Reserve("m", 1, 0) // denied, and brings the day in order
				if left := time.Duration(rl.clock.Instant(rl.State["m"].account.Day.End) - rl.clock.Now()); left > 24*time.Hour || left <= 0 {
					t.Errorf("the day lasts %v more", left)
				}
				time.Sleep(40*time.Second + 1)
				if !rl.CanSend("m", 1) {
					t.Errorf("a minute after the charge: %+v", rl.Decide("m", 1))
				}
			})
		})
	}
}
