// ModelStats as a value: it compares with ==, and says nothing of a day that is unused.

package ratelimit_test

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

func TestModelStatsCompareEqualAfterPersistAndLoad(t *testing.T) {
	for _, backend := range backends {
		for _, zone := range []string{"", "UTC", "America/New_York"} {
			t.Run(backend+" "+zone, func(t *testing.T) {
				cfg := ratelimit.Config{
					Backend: backend, FilePath: filepath.Join(t.TempDir(), "state"),
					Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPD: 9, DayZone: zone}},
				}
				synctest.Test(t, func(t *testing.T) {
					rl := newLimiterWith(t, cfg)
					defer rl.Close()
					time.Sleep(1234567891 * time.Nanosecond)
					rl.RecordUsage("m", 3, 4)
					rl.Cooldown("m", time.Now().Add(time.Hour))
					before := rl.Stats("m")
					if before.DayStart.IsZero() || before.CooldownUntil.IsZero() {
						t.Fatalf("stats are %+v", before)
					}
					if err := rl.Persist(); err != nil {
						t.Fatal(err)
					}
					other := newLimiterWith(t, cfg)
					defer other.Close()
					for name, limiter := range map[string]*ratelimit.RateLimiter{"the same": rl, "another": other} {
						if err := limiter.Load(); err != nil {
							t.Fatal(err)
						}
						if after := limiter.Stats("m"); after != before {
							t.Errorf("%s: stats are\n%#v after Load, before\n%#v", name, after, before)
						}
					}
				})
			})
		}
	}
}

func TestModelStatsDayStartOfAnUnusedDayIsZero(t *testing.T) {
	for _, zone := range []string{"", "America/New_York"} {
		for name, use := range map[string]func(rl *ratelimit.RateLimiter){
			"never used": func(*ratelimit.RateLimiter) {},
			"cancelled": func(rl *ratelimit.RateLimiter) {
				r, _ := rl.Reserve("m", 1, 1)
				r.Cancel()
			},
			"nothing since midnight": func(rl *ratelimit.RateLimiter) {
				time.Sleep(24*time.Hour - 10*time.Second) // the bubble begins at midnight, UTC
				rl.RecordUsage("m", 1, 1)
				time.Sleep(20 * time.Second)
			},
		} {
			t.Run(zone+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					if zone != "" {
						time.Sleep(5 * time.Hour) // midnight in New York
					}
					rl := newLimiter(t, ratelimit.ModelQuota{MaxRPD: 5, DayZone: zone})
					use(rl)
					s := rl.Stats("m")
					if s.DayStart.IsZero() != (s.RPD == 0 && s.TPD == 0) {
						t.Errorf("the day of %d requests began at %v", s.RPD, s.DayStart)
					}
					if d := rl.Decide("m", 1); d.Stats.DayStart != s.DayStart {
						t.Errorf("Decide says that the day began at %v", d.Stats.DayStart)
					}
				})
			})
		}
	}
}
