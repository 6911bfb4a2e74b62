// Wake-ups: whoever waits is served as soon as there is room, whatever denied it before.

package ratelimit_test

import (
	"context"
	"path/filepath"
	"runtime"
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

// A waiter that is denied for the day keeps nobody of another class waiting, neither in the line of
// its model nor in that of its pool, and neither who waits already nor who comes.
func TestFairHeadForTheDayHoldsUpNoOtherClass(t *testing.T) {
	day, none := ratelimit.ModelQuota{MaxTPD: 100}, ratelimit.ModelQuota{}
	minute := ratelimit.ModelQuota{MaxTPD: 100, MaxRPM: 1}
	for _, tt := range []struct {
		name        string
		quota, pool ratelimit.ModelQuota
		by          string // the model of the other class
		after       time.Duration
	}{
		{"quota", day, none, "m", 0},
		{"pool", none, day, "m", 0},
		{"pool, another model", none, day, "n", 0},
		{"quota, a minute", minute, none, "m", time.Minute + 1},
		{"pool, a minute", none, minute, "m", time.Minute + 1},
		{"pool, another model, a minute", none, minute, "n", time.Minute + 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			aloneAndTogether(t, ratelimit.Config{
				Classes: map[string]ratelimit.Class{"x": {}, "y": {}},
				Quotas:  map[string]ratelimit.ModelQuota{"m": tt.quota, "n": {}},
				Pools:   map[string]ratelimit.Pool{"p": {Models: []string{"*"}, Quota: tt.pool}},
			}, func(t *testing.T, waits, other *ratelimit.RateLimiter, late time.Duration) {
				other.RecordUsage("m", 50, 0)
				began := time.Now()
				x, y := &fairHall{T: t, rl: waits}, &fairHall{T: t, rl: other}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				first := x.come(ctx, ratelimit.Request{Model: "m", PromptTokens: 60, Class: "x"})
				time.Sleep(late)
				second := y.come(t.Context(), ratelimit.Request{Model: tt.by, PromptTokens: 10, Class: "y"})
				time.Sleep(max(tt.after-late, 0))
				same := x.come(ctx, ratelimit.Request{Model: "m", PromptTokens: 5, Class: "x"})
				time.Sleep(late)
				if c := y.now(second); c.real == nil || c.served.Sub(began) > tt.after+2*late {
					t.Errorf("a call of another class behind it is served after %v, want %v", c.served.Sub(began), tt.after)
				}
				time.Sleep(time.Minute)
				if x.now(first).returned || x.now(same).returned {
					t.Error("a call of its own class is served before it, or it is")
				}
				cancel()
				synctest.Wait()
				runtime.KeepAlive([]any{x, y})
			})
		})
	}
}
