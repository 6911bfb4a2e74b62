package ratelimit_test

import (
	"path/filepath"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/fakestore"
	"dappco.re/go/core/go-ratelimit/money"
)

// aloneAndSharedIn is aloneAndShared in a bubble, where there are no subtests.
func aloneAndSharedIn(t *testing.T, cfg ratelimit.Config, run func(rl *ratelimit.RateLimiter)) {
	run(newLimiterWith(t, cfg))
	rl, _, err := ratelimit.NewOverFake(fakestore.New(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer rl.Close()
	run(rl)
}

// aloneAndShared runs a test for a limiter alone, and for one over a shared log.
func aloneAndShared(t *testing.T, cfg ratelimit.Config, run func(t *testing.T, rl *ratelimit.RateLimiter)) {
	t.Run("alone", func(t *testing.T) { run(t, newLimiterWith(t, cfg)) })
	t.Run("shared", func(t *testing.T) {
		rl, _, err := ratelimit.NewOverFake(fakestore.New(), cfg)
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

// Zones that change to and fro where the month ends in one of them do not make a period that no
// file and no log takes: what was spent would be lost, and the file be damaged.
func TestSpendOfChangingZones(t *testing.T) {
	quota := func(zone string) ratelimit.ModelQuota {
		return ratelimit.ModelQuota{MaxSpendPerDay: 1000, MaxSpendPerMonth: 1000, DayZone: zone}
	}
	synctest.Test(t, func(t *testing.T) {
		aloneAndSharedIn(t, ratelimit.Config{
			FilePath: filepath.Join(t.TempDir(), "f"), Prices: microPrices, Quotas: map[string]ratelimit.ModelQuota{"m": quota("UTC")},
			Pools: map[string]ratelimit.Pool{"p": {Models: []string{"m"}, Quota: quota("UTC")}},
		}, func(rl *ratelimit.RateLimiter) {
			begin := time.Now()
			rl.RecordUsage("m", 10, 0)
			spent := money.Amount(10)
			for i, zone := range []string{"America/Los_Angeles", "UTC", "Asia/Tokyo", "America/Los_Angeles", "UTC", "", "Pacific/Kiritimati", "UTC"} {
				time.Sleep(time.Minute)
				rl.SetQuota("m", quota(zone))
				rl.SetPool("p", ratelimit.Pool{Models: []string{"m"}, Quota: quota(zone)})
				rl.RecordUsage("m", 10, 0)
				r, _ := rl.Reserve("m", 5, 0)
				r.Commit(1, 0)
				spent += 11
				if err := rl.Persist(); err != nil {
					t.Error(err)
				}
				if err := rl.Load(); err != nil {
					t.Error(err)
				}
				if m, p := rl.Stats("m").SpendMonth, rl.PoolStats("p").SpendMonth; m != spent || p != spent {
					t.Errorf("change %d, to %q, after %v: spent %v, and %v of the pool, want %v", i, zone, time.Since(begin), m, p, spent)
				}
			}
		})
	})
}
