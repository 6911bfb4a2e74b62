package ratelimit

import (
	"math"
	"testing"
	"testing/synctest"
	"time"
)

// TestWallClockSteps cannot set the clock of the machine. It does the reverse:
// what the limiter remembers of the wall clock is shifted, as if it had been
// taken before a step.
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

				rl.clock.wall -= int64(by)
				w := rl.State["m"].window
				w.dayBegin, w.dayEnd = w.dayBegin-int64(by), w.dayEnd-int64(by)
				rl.State["m"].DayStart = rl.State["m"].DayStart.Add(-by)
				w.dayStart = rl.State["m"].DayStart
				rl.clock.next = 0

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
				if left := time.Duration(w.dayEnd - rl.clock.wall - rl.clock.now()); left > 24*time.Hour || left <= 0 {
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

func TestUnixNanoStaysInRange(t *testing.T) {
	for _, tt := range []struct {
		at   time.Time
		want int64
	}{
		{time.Time{}, math.MinInt64},
		{time.Date(1600, 1, 1, 0, 0, 0, 0, time.UTC), math.MinInt64},
		{time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), math.MaxInt64},
		{time.Unix(0, 0), 0},
		{time.Unix(0, math.MaxInt64), math.MaxInt64},
		{time.Unix(0, math.MinInt64), math.MinInt64},
	} {
		if got := unixNano(tt.at); got != tt.want {
			t.Errorf("unixNano(%v) = %d, want %d", tt.at, got, tt.want)
		}
	}
}
