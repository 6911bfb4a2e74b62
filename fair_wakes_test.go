// Wake-ups: whoever waits is served as soon as there is room, whatever denied it before.

package ratelimit_test

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/sharedlog/sharedlogtest"
)

// aloneAndTogether runs a test with one limiter, which is both, and with two limiters of a store
// and of a file. late is how much later than in memory a waiter may be served.
func aloneAndTogether(t *testing.T, cfg ratelimit.Config, run func(t *testing.T, waits, other *ratelimit.RateLimiter, late time.Duration)) {
	t.Run("memory", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			rl := newLimiterWith(t, cfg)
			run(t, rl, rl, 0)
		})
	})
	t.Run("store", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			fake := sharedlogtest.NewFake()
			var both [2]*ratelimit.RateLimiter
			for i := range both {
				rl, _, err := ratelimit.NewOverFake(fake, cfg)
				if err != nil {
					t.Fatal(err)
				}
				defer rl.Close()
				both[i] = rl
			}
			run(t, both[0], both[1], sharedHandOver)
		})
	})
	t.Run("file", func(t *testing.T) {
		needSQLite(t)
		path := filepath.Join(t.TempDir(), "shared")
		synctest.Test(t, func(t *testing.T) {
			cfg.Shared, cfg.LeaseTTL = true, time.Hour
			var both [2]*ratelimit.RateLimiter
			for i := range both {
				rl, err := ratelimit.NewWithSQLiteConfig(path, cfg)
				if err != nil {
					t.Fatal(err)
				}
				defer rl.Close()
				both[i] = rl
			}
			run(t, both[0], both[1], sharedHandOver)
		})
	})
}

// A waiter that both its model and its pool deny is served when its model lets it pass, if the pool
// has had room before: by the end of a cooldown, or when tokens of the model leave its minute.
func TestFairModelOpensAfterItsPool(t *testing.T) {
	cfg := ratelimit.Config{
		Quotas: map[string]ratelimit.ModelQuota{"m": {MaxTPM: 100}, "other": {}},
		Pools:  map[string]ratelimit.Pool{"p": {Models: []string{"*"}, Quota: ratelimit.ModelQuota{MaxTPM: 200}}},
	}
	for _, tt := range []struct {
		name string
		deny func(rl *ratelimit.RateLimiter) // 30 s before the model opens
	}{
		{"cooldown", func(rl *ratelimit.RateLimiter) { rl.Cooldown("m", time.Now().Add(30*time.Second)) }},
		{"tokens", func(rl *ratelimit.RateLimiter) {
			rl.RecordUsage("m", 60, 0)
			time.Sleep(30*time.Second + 1)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			aloneAndTogether(t, cfg, func(t *testing.T, waits, other *ratelimit.RateLimiter, late time.Duration) {
				tt.deny(other)
				open, _ := other.Reserve("other", 140, 0)
				time.AfterFunc(10*time.Second, open.Cancel)
				time.Sleep(late) // until the one that waits has heard of it
				began := time.Now().Add(-late)
				r, err := waits.Acquire(t.Context(), "m", 80, 0)
				if err != nil {
					t.Fatal(err)
				}
				if w := time.Since(began); w < 30*time.Second || w > 30*time.Second+late {
					t.Errorf("the model opens after 30 s, and the call was served after %v", w)
				}
				r.Commit(80, 0)
			})
		})
	}
}
