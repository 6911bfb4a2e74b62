package ratelimit_test

import (
	"runtime"
	"testing"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/sharedlog/sharedlogtest"
	"dappco.re/go/core/go-ratelimit/money"
)

// aloneAndShared runs a test for a limiter alone, and for one over a shared log.
func aloneAndShared(t *testing.T, cfg ratelimit.Config, run func(t *testing.T, rl *ratelimit.RateLimiter)) {
	t.Run("alone", func(t *testing.T) { run(t, newLimiterWith(t, cfg)) })
	t.Run("shared", func(t *testing.T) {
		rl, _, err := ratelimit.NewOverFake(sharedlogtest.NewFake(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer rl.Close()
		run(t, rl)
	})
}

// A call that was made before its limiter had any price is settled at the price of its settlement,
// as SetPrice says.
func TestFirstPriceAppliesToOpenCalls(t *testing.T) {
	pool := ratelimit.Pool{Models: []string{"*"}, Quota: ratelimit.ModelQuota{MaxInFlight: 5}}
	for _, quota := range []ratelimit.ModelQuota{{MaxRPM: 10}, {MaxInFlight: 5}} {
		aloneAndShared(t, ratelimit.Config{
			Quotas: map[string]ratelimit.ModelQuota{"m": quota}, Pools: map[string]ratelimit.Pool{"p": pool},
		}, func(t *testing.T, rl *ratelimit.RateLimiter) {
			committed, _ := rl.Reserve("m", 80, 0)
			cancelled, _ := rl.Reserve("m", 80, 0)
			if err := rl.SetPrice("m", money.Price{Input: money.Dollar}); err != nil {
				t.Fatal(err)
			}
			committed.CommitUsage(80, 0, money.Usage{Input: 70})
			committed.Commit(1, 0)
			cancelled.Cancel()
			if m, p := rl.Stats("m").SpendDay, rl.PoolStats("p").SpendMonth; m != 70 || p != 70 {
				t.Errorf("spent %v, and %v of the pool, want 70 micro-dollars", m, p)
			}
			if a := rl.Audit(); a.Models["m"].Settled.Money != 70 || a.Pools["p"].Settled.Money != 70 || a.Models["m"].Open != (ratelimit.AuditSum{}) {
				t.Errorf("audit %s", jsonOf(t, a))
			}
			runtime.KeepAlive(cancelled)
		})
	}
}

// Calls of models without a place are in the sums of "other" if a pool counts them, so the classes
// add up to what the models do.
func TestAuditOfModelsWithoutPlace(t *testing.T) {
	aloneAndShared(t, ratelimit.Config{
		MaxModels: 1, Prices: microPrices, Classes: map[string]ratelimit.Class{"c": {}},
		Pools: map[string]ratelimit.Pool{
			"p": {Models: []string{"*"}, Quota: ratelimit.ModelQuota{MaxSpendPerDay: 1000}}, "q": {Models: []string{"b", "z"}},
		},
	}, func(t *testing.T, rl *ratelimit.RateLimiter) {
		var all []*ratelimit.Reservation
		for _, req := range []ratelimit.Request{{Model: "a", PromptTokens: 10}, {Model: "b", PromptTokens: 20, Class: "c"}, {Model: "z", PromptTokens: 30}} {
			r, d := rl.ReserveAny(req)
			if r == nil {
				t.Fatal(d.Code)
			}
			all = append(all, r)
		}
		check := func() {
			t.Helper()
			a := rl.Audit()
			entry := func(of func(ratelimit.AuditEntry) ratelimit.AuditSum) {
				t.Helper()
				var models, classes ratelimit.AuditSum
				add := func(to *ratelimit.AuditSum, s ratelimit.AuditSum) {
					to.Calls, to.InputTokens, to.Money = to.Calls+s.Calls, to.InputTokens+s.InputTokens, to.Money+s.Money
				}
				for _, e := range a.Models {
					add(&models, of(e))
				}
				for class, e := range a.Classes {
					if s := of(e); s.Calls < 0 || s.InputTokens < 0 || s.Money < 0 {
						t.Errorf("class %q: %+v", class, s)
					}
					add(&classes, of(e))
				}
				if pool := of(a.Pools["p"]); models != pool || classes != pool {
					t.Errorf("models %+v, classes %+v, the pool of all %+v", models, classes, pool)
				}
			}
			entry(func(e ratelimit.AuditEntry) ratelimit.AuditSum { return e.Reserved })
			entry(func(e ratelimit.AuditEntry) ratelimit.AuditSum { return e.Open })
			entry(func(e ratelimit.AuditEntry) ratelimit.AuditSum { return e.Released })
			entry(func(e ratelimit.AuditEntry) ratelimit.AuditSum { return e.Settled })
		}
		check()
		if other := rl.Audit().Models["other"].Open; other.Calls != 2 || other.InputTokens != 50 {
			t.Errorf(`open of "other": %+v`, other)
		}
		all[1].Commit(5, 0)
		check()
		all[2].Cancel()
		all[0].Commit(10, 0)
		check()
		if spent := rl.PoolStats("p").SpendDay; spent != 15 {
			t.Errorf("the pool has spent %v", spent)
		}
	})
}

// The account that models share for which there is no room is nobody's by its name: a tenant that
// chose that name would else have all further models share it.
func TestModelNamedAsTheSharedAccount(t *testing.T) {
	aloneAndShared(t, ratelimit.Config{
		Prices: microPrices, Quotas: map[string]ratelimit.ModelQuota{"*": {MaxSpendPerDay: 100}},
	}, func(t *testing.T, rl *ratelimit.RateLimiter) {
		rl.RecordUsage("\x1fother", 100, 0)
		if d := rl.Decide("another", 100); !d.Allowed {
			t.Errorf("another model: %+v", d)
		}
		if d := rl.Decide("\x1fother", 1); d.Code != ratelimit.DecisionSpendLimit {
			t.Errorf("the model itself: %+v", d)
		}
	})
}
