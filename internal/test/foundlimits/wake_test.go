// Limits that are found, and changes that let waiters pass.

package foundlimits

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/limitertest"
)

// adaptiveCrowd has n calls wait, and returns where they say when they passed. They end at once.
func adaptiveCrowd(ctx context.Context, rl *ratelimit.RateLimiter, n int) <-chan time.Time {
	passed := make(chan time.Time, n)
	for range n {
		go func() {
			if r, err := rl.Acquire(ctx, "m", 0, 0); err == nil {
				passed <- time.Now()
				r.Commit(0, 0)
			}
		}()
	}
	return passed
}

// Headers that end the search for the rate let waiters go at once: as many as the provider says are
// left, also where the headers correct nothing.
func TestAdaptiveToldServesWaiters(t *testing.T) {
	for _, tt := range []struct {
		name      string
		max       int // MaxRPM of the quota
		remaining int
		want      int
	}{
		{"the limit is news", 0, 3, 3},
		{"the limit is known", 40, 3, 3},
		{"more is left than wait", 40, 39, 20},
	} {
		for _, group := range adaptiveGroups {
			t.Run(tt.name+", "+group, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					q := adaptiveFixed(1)
					q.MaxRPM = tt.max
					all, _ := adaptiveGroup(t, group, ratelimit.Config{LearnQuotas: true, Quotas: map[string]ratelimit.ModelQuota{"m": q}})
					limitertest.Reserve(t, all[0], "m", 0, 0).Commit(0, 0)
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					passed := adaptiveCrowd(ctx, all[0], 20)
					time.Sleep(time.Second)
					all[0].Observe("m", ratelimit.ProviderLimits{RPM: ratelimit.ProviderLimit{
						Limit: 40, Remaining: tt.remaining, HasRemaining: true, Reset: time.Minute,
					}})
					time.Sleep(time.Second)
					if got := len(passed); got != tt.want {
						t.Errorf("%d waiters pass at once, want %d", got, tt.want)
					}
				})
			})
		}
	}
}

// After Reset the next call starts at once, and those behind it are spaced, also in the same
// instant.
func TestAdaptiveAfterReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := limitertest.Of(t, adaptiveFixed(60))
		time.Sleep(time.Hour)
		for range 2 {
			limitertest.Reserve(t, rl, "m", 0, 0).Commit(0, 0)
			if d := rl.Decide("m", 0); d.RetryAfter != time.Second-adaptiveLate {
				t.Errorf("behind a call: %+v", d)
			}
			rl.Reset("m")
		}
	})
}

// A charge of RecordUsage may end a window, and so raise the calls in flight: waiters get the
// slots.
func TestAdaptiveRecordUsageServesWaiters(t *testing.T) {
	for _, group := range adaptiveGroups {
		t.Run(group, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all, _ := adaptiveGroup(t, group, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{
					"m": {AdaptiveFloorInFlight: 1, AdaptiveCeilingInFlight: 100},
				}})
				rl := all[0]
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				open := make(chan *ratelimit.Reservation, 20)
				for range 20 {
					go func() {
						if r, err := rl.Acquire(ctx, "m", 0, 0); err == nil {
							open <- r
						}
					}()
				}
				time.Sleep(time.Second)
				for range 10 { // the window is too short to raise anything
					(<-open).Commit(0, 0)
				}
				time.Sleep(100 * time.Millisecond)
				was := rl.Stats("m")
				time.Sleep(10 * time.Second)
				rl.RecordUsage("m", 0, 0)
				time.Sleep(time.Second)
				is := rl.Stats("m")
				if is.AdaptiveInFlight <= was.AdaptiveInFlight || is.InFlight != is.AdaptiveInFlight && is.Waiting > 0 {
					t.Errorf("%d slots were found, then %d, of which %d are used while %d wait", was.AdaptiveInFlight, is.AdaptiveInFlight, is.InFlight, is.Waiting)
				}
				cancel()
				synctest.Wait()
				for len(open) > 0 {
					(<-open).Commit(0, 0)
				}
			})
		})
	}
}
