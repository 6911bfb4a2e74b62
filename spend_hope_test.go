package ratelimit_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// A caller that a budget denies waits only for calls in flight that may give back enough.
func TestBudgetWaitsOnlyForWhatMayComeBack(t *testing.T) {
	for _, how := range []string{"model", "pool"} {
		for _, test := range []struct {
			recorded, open, open2, asks int
			waits                       bool
		}{
			{700, 200, 0, 300, true},  // all comes back
			{700, 200, 0, 301, false}, // even then there is not enough
			{700, 100, 100, 300, true},
			{700, 100, 100, 301, false},
			{1000, 0, 0, 1, false}, // an open call that costs nothing
		} {
			synctest.Test(t, func(t *testing.T) {
				cfg := ratelimit.Config{Prices: microPrices, Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 100}}}
				if budget := (ratelimit.ModelQuota{MaxSpendPerDay: 1000}); how == "model" {
					cfg.Quotas["m"] = budget
				} else {
					cfg.Pools = map[string]ratelimit.Pool{"p": {Models: []string{"m"}, Quota: budget}}
				}
				run := func(rl *ratelimit.RateLimiter) {
					rl.RecordUsage("m", test.recorded, 0)
					first, d := rl.Reserve("m", test.open, 0)
					if !d.Allowed {
						t.Fatal(d)
					}
					second, d := rl.Reserve("m", test.open2, 0)
					if !d.Allowed {
						t.Fatal(d)
					}
					ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
					defer cancel()
					time.AfterFunc(time.Second, func() { first.Cancel(); second.Cancel() })
					began := time.Now()
					r, err := rl.Acquire(ctx, "m", test.asks, 0)
					took := time.Since(began)
					switch {
					case test.waits && (err != nil || took < time.Second):
						t.Errorf("%s %+v: %v after %v", how, test, err, took)
					case !test.waits && (!errors.Is(err, ratelimit.ErrBudget) || took != 0):
						t.Errorf("%s %+v: %v after %v, want ErrBudget at once", how, test, err, took)
					}
					if err == nil {
						r.Cancel()
					}
					time.Sleep(2 * time.Second)
				}
				aloneAndSharedIn(t, cfg, run)
			})
		}
	}
}
