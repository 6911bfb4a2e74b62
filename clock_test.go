// The limiter on a wall clock that is set, and what it forgets meanwhile.

package ratelimit

import (
	"context"
	"path/filepath"
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
				if left := time.Duration(rl.State["m"].account.Day.End - rl.clock.UnixNano(rl.clock.Now())); left > 24*time.Hour || left <= 0 {
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

// External usage that is over takes no memory, also of models without calls.
func TestPruneDropsWhatIsNotHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl, err := NewWithConfig(Config{FilePath: filepath.Join(t.TempDir(), "f"), Quotas: map[string]ModelQuota{"m": {MaxRPM: 1}, "n": {MaxRPM: 1}}})
		if err != nil {
			t.Fatal(err)
		}
		stop := rl.BackgroundPrune(10 * time.Second)
		defer stop()
		rl.Observe("m", ProviderLimits{RPM: ProviderLimit{HasRemaining: true}})
		rl.Observe("n", ProviderLimits{RPM: ProviderLimit{HasRemaining: true, Reset: time.Second}})
		for after, want := range []int{2, 1, 1, 1, 1, 1, 0} {
			rl.mu.RLock()
			held := 0
			for a := range rl.engine.Accounts {
				if a.Reports != nil {
					held++
				}
			}
			rl.mu.RUnlock()
			if held != want {
				t.Errorf("after %d prunes something of %d models is held back, want %d", after, held, want)
			}
			time.Sleep(10 * time.Second)
			synctest.Wait()
		}
	})
}
