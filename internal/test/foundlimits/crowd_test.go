// Limits that are found, and many goroutines at a time whose calls one write to a store carries.

package foundlimits

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/fakestore"
)

// Together no more start than the limits that were found let, and nobody is kept from what they let
// by those that come at the same time.
func TestAdaptiveCrowdOfAStore(t *testing.T) {
	const trip, lasts = 5 * time.Millisecond, time.Second
	slots := func(floor, ceiling int) ratelimit.ModelQuota {
		return ratelimit.ModelQuota{AdaptiveFloorInFlight: floor, AdaptiveCeilingInFlight: ceiling}
	}
	for _, tt := range []struct {
		name        string
		quota       ratelimit.ModelQuota
		limiters    int
		least, most int32         // calls that pass
		together    int32         // that may be open at a time; 0 for any number
		takes       time.Duration // a call
	}{
		{"a slow rate", adaptiveFixed(600), 1, 10, 11, 0, 0},
		{"a slow rate of three", adaptiveFixed(600), 3, 8, 11, 0, 0},
		{"a gap is shorter than the way to the store", adaptiveFixed(60_000), 1, 300, 1006, 0, 0},
		{"a gap is shorter, of three", adaptiveFixed(60_000), 3, 200, 1006, 0, 0},
		{"many slots", slots(1000, 1000), 1, 800, 1 << 30, 0, 0},
		{"few slots", slots(5, 5), 1, 1, 1 << 30, 5, trip},
		{"few slots of three", slots(5, 5), 3, 1, 1 << 30, 5, trip},
		{"few slots were found, while there may be many", slots(1, 1000), 1, 2, 2, 2, time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fake := fakestore.New()
				fake.Before = func(int64) error { time.Sleep(trip); return nil }
				var passed, open atomic.Int32
				var callers sync.WaitGroup
				var all []*ratelimit.RateLimiter
				for range tt.limiters {
					all = append(all, adaptiveOpen(t, ratelimit.Config{Store: fake, Quotas: map[string]ratelimit.ModelQuota{"m": tt.quota}}))
				}
				end := time.Now().Add(lasts)
				for _, rl := range all {
					callers.Go(func() { rl.RecordUsage("other", 0, 0) }) // so that the others come together
					time.Sleep(trip / 2)
					for range 20 {
						callers.Go(func() {
							for time.Now().Before(end) {
								r, d := rl.Reserve("m", 1, 1)
								if r == nil {
									time.Sleep(max(d.RetryAfter, time.Millisecond))
									continue
								}
								passed.Add(1)
								if n := open.Add(1); tt.together > 0 && n > tt.together {
									t.Errorf("%d calls are open", n)
								}
								time.Sleep(tt.takes)
								open.Add(-1)
								r.Commit(1, 1)
							}
						})
					}
				}
				callers.Wait()
				if n := passed.Load(); n < tt.least || n > tt.most {
					t.Errorf("%d calls pass in a second, want %d to %d", n, tt.least, tt.most)
				}
			})
		})
	}
}

// What limiters let pass while they could not hear of each other keeps nobody waiting when the
// store is back: each had its part of the rate.
func TestAdaptiveAfterTheStoreWasDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const outage = 30 * time.Second
		fake := fakestore.New()
		var passed atomic.Int32
		var callers sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		for range 3 {
			rl := adaptiveOpen(t, ratelimit.Config{Store: fake, Quotas: map[string]ratelimit.ModelQuota{"m": adaptiveFixed(60)}})
			for range 3 {
				callers.Go(func() {
					for ctx.Err() == nil {
						r, d := rl.Reserve("m", 0, 0)
						if r != nil {
							passed.Add(1)
							r.Commit(0, 0)
						}
						time.Sleep(max(d.RetryAfter, time.Millisecond))
					}
				})
			}
		}
		count := func(during string, lasts time.Duration, least, most int32) {
			t.Helper()
			time.Sleep(lasts)
			if n := passed.Swap(0); n < least || n > most {
				t.Errorf("%s: %d calls pass in %v at one a second, want %d to %d", during, n, lasts, least, most)
			}
		}
		count("before", outage, 30, 31)
		fake.Fail(errors.New("down"))
		count("while the store is down", outage, 27, 36)
		fake.Fail(nil)
		count("when it is back", 2*outage, 55, 63)
		count("after that", outage, 29, 31)
		cancel()
		callers.Wait()
	})
}
