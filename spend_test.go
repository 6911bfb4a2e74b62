// Prices, budgets, money of open calls, and waits for what may come back.

package ratelimit_test

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/fakestore"
	"dappco.re/go/core/go-ratelimit/money"
)

// dollarEach is a price at which a million tokens cost a dollar, whatever they are.
var dollarEach = money.Price{Input: money.Dollar, Output: money.Dollar}

func budget(t testing.TB, cfg ratelimit.Config) *ratelimit.RateLimiter {
	t.Helper()
	if cfg.FilePath == "" {
		cfg.FilePath = t.TempDir() + "/state.yaml"
	}
	rl, err := ratelimit.NewWithConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rl.Close() })
	return rl
}

// A price is found by the counted name, the requested one, the model of a version, the longest
// pattern, and "*".
func TestPriceOf(t *testing.T) {
	price := func(n int) money.Price { return money.Price{Input: money.Amount(n)} }
	rl := budget(t, ratelimit.Config{
		Quotas: map[string]ratelimit.ModelQuota{"counted": {}, "gpt-4o": {}}, MatchVersions: true,
		Aliases: map[string]string{"fast": "counted", "quick": "other", "named": "counted"},
		Prices: map[string]money.Price{
			"counted": price(1), "quick": price(2), "gpt-4o": price(3), "claude-3": price(4), "gpt-*": price(5), "gpt-4-*": price(6), "named": price(7),
		},
	})
	for model, want := range map[string]int{
		"counted": 1, "fast": 1, "named": 1, "quick": 2, "gpt-4o": 3, "gpt-4o-2024-08-06": 3, "claude-3-20240101": 4, "gpt-3": 5, "gpt-4-turbo": 6,
	} {
		if got, ok := rl.PriceOf(model); !ok || got != price(want) {
			t.Errorf("the price of %s is %+v, %v, want %d", model, got, ok, want)
		}
	}
	if got, ok := rl.PriceOf("unknown"); ok {
		t.Errorf("unknown costs %+v", got)
	}
	if err := rl.SetPrice("*", price(8)); err != nil {
		t.Fatal(err)
	}
	if got, ok := rl.PriceOf("unknown"); !ok || got != price(8) {
		t.Errorf("then it costs %+v, %v", got, ok)
	}
}

// Prices and limits that are out of range are refused by field and value, and change nothing.
func TestBadMoney(t *testing.T) {
	bad := money.Price{Output: -1}
	_, err := ratelimit.NewWithConfig(ratelimit.Config{FilePath: t.TempDir() + "/s", Prices: map[string]money.Price{"m": bad}})
	if !errors.Is(err, money.ErrInvalidPrice) || !strings.Contains(err.Error(), `model "m"`) || !strings.Contains(err.Error(), "Output (output) is negative: -$0.000001") {
		t.Errorf("Prices: %v", err)
	}
	rl := budget(t, ratelimit.Config{Prices: map[string]money.Price{"m": dollarEach}})
	if err := rl.SetPrice("m", bad); !errors.Is(err, money.ErrInvalidPrice) || !strings.Contains(err.Error(), "set price: ") {
		t.Errorf("SetPrice: %v", err)
	}
	if got, _ := rl.PriceOf("m"); got != dollarEach {
		t.Errorf("the price is %+v", got)
	}
	for _, q := range []ratelimit.ModelQuota{{MaxSpendPerDay: -1}, {MaxSpendPerMonth: money.Min}} {
		_, err := ratelimit.NewWithConfig(ratelimit.Config{FilePath: t.TempDir() + "/s", Quotas: map[string]ratelimit.ModelQuota{"m": q}})
		if !errors.Is(err, ratelimit.ErrInvalidQuota) || !strings.Contains(err.Error(), "max_spend_per_") {
			t.Errorf("%+v: %v", q, err)
		}
		rl.SetQuota("m", q)
		if d := rl.Decide("m", 1); d.Code != ratelimit.DecisionInvalidQuota || !strings.Contains(d.Reason, "MaxSpendPer") {
			t.Errorf("%+v: %+v", q, d)
		}
	}
	_, err = ratelimit.NewWithConfig(ratelimit.Config{FilePath: t.TempDir() + "/s", Unpriced: 7})
	if err == nil || !strings.Contains(err.Error(), "Unpriced: unpriced policy is 7") {
		t.Errorf("Unpriced: %v", err)
	}
}

// A model without a price inside a budget is refused for good, until it has one; or it is free.
func TestUnpriced(t *testing.T) {
	quotas := map[string]ratelimit.ModelQuota{"m": {MaxSpendPerDay: money.Dollar}, "free": {MaxRPD: 5}}
	rl := budget(t, ratelimit.Config{Quotas: quotas})
	_, d := rl.Reserve("m", 1, 1)
	if d.Allowed || !d.Never || d.Code != ratelimit.DecisionUnpriced || rl.CanSend("m", 1) {
		t.Errorf("%+v", d)
	}
	if _, d := rl.Reserve("free", 1, 1); !d.Allowed {
		t.Errorf("outside of budgets: %+v", d)
	}
	if err := rl.SetPrice("m", money.Price{}); err != nil {
		t.Fatal(err)
	}
	if _, d := rl.Reserve("m", 1, 1); !d.Allowed || !rl.CanSend("m", 1) {
		t.Errorf("at the price of a free model: %+v", d)
	}
	rl = budget(t, ratelimit.Config{Quotas: quotas, Unpriced: ratelimit.UnpricedFree})
	if r, d := rl.Reserve("m", math.MaxInt, math.MaxInt); !d.Allowed || rl.Stats("m").SpendDay != 0 {
		t.Errorf("free: %+v, %v", d, r)
	}
}

// The limits deny in their order, and the longest wait counts. A call that alone may cost more than
// a limit never passes.
func TestSpendDenies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(30*24*time.Hour + 12*time.Hour) // noon of the last day of January 2000
		q := ratelimit.ModelQuota{MaxSpendPerDay: 10 * money.Dollar, MaxSpendPerMonth: 12 * money.Dollar, MaxRPM: 100, DayZone: "UTC"}
		rl := budget(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": q}, Prices: map[string]money.Price{"m": dollarEach}})
		rl.RecordSpend("m", 1, 1, money.Usage{Input: 4_000_000, Output: 5_000_000})
		const hours = time.Hour
		for _, tt := range []struct {
			what   string
			tokens int
			code   ratelimit.DecisionCode
			wait   time.Duration
			never  bool
		}{
			{"what fits", 1_000_000, ratelimit.DecisionAllowed, 0, false},
			{"more than the day", 1_000_001, ratelimit.DecisionSpendLimit, 12 * hours, false},
			{"more than both", 4_000_000, ratelimit.DecisionSpendLimit, 12 * hours, false},
			{"more than a day has", 10_000_001, ratelimit.DecisionSpendLimit, 0, true},
		} {
			d := rl.Decide("m", tt.tokens)
			if d.Code != tt.code || d.RetryAfter != tt.wait || d.Never != tt.never || rl.CanSend("m", tt.tokens) != d.Allowed {
				t.Errorf("%s: %+v", tt.what, d)
			}
		}
		q.MaxTPD, q.MaxSpendPerDay = 1, 0
		rl.SetQuota("m", q)
		if d := rl.Decide("m", 3_000_001); d.Code != ratelimit.DecisionTPDLimit || !d.Never {
			t.Errorf("the tokens of the day come first: %+v", d)
		}
		q.MaxTPD, q.MaxRPM = 0, 1
		rl.SetQuota("m", q)
		if d := rl.Decide("m", 3_000_001); d.Code != ratelimit.DecisionSpendLimit || d.RetryAfter != 12*hours || !strings.Contains(d.Reason, "month") {
			t.Errorf("and the minute last: %+v", d)
		}
		if s := rl.Stats("m"); s.SpendMonth != 9*money.Dollar || s.MaxSpendPerMonth != 12*money.Dollar || s.SpendDay != 9*money.Dollar {
			t.Errorf("%+v", s)
		}
	})
}

// What is rounded up is one call, and the sum stops at the largest amount.
func TestSpendRoundsAndSaturates(t *testing.T) {
	rl := budget(t, ratelimit.Config{
		Quotas: map[string]ratelimit.ModelQuota{"m": {MaxSpendPerMonth: 3 * money.Micro}, "much": {MaxSpendPerMonth: money.Max}},
		Prices: map[string]money.Price{"m": {Input: 1, Output: 1}, "much": {Input: money.Max}},
	})
	for i := range 3 {
		r, d := rl.Reserve("m", 1, 1)
		if !d.Allowed {
			t.Fatalf("call %d: %+v", i, d)
		}
		r.Commit(1, 1)
	}
	if d := rl.Decide("m", 1); d.Allowed {
		t.Errorf("a fourth: %+v", d)
	}
	rl.RecordUsage("much", 999_999, 0)
	rl.RecordUsage("much", 2_000_000, 0)
	if s := rl.Stats("much"); s.SpendMonth != money.Max {
		t.Errorf("%v", s.SpendMonth)
	}
	if d := rl.Decide("much", 1); d.Allowed {
		t.Errorf("%+v", d)
	}
	if a := rl.Audit().Models["much"]; a.Recorded.Money != money.Max || a.Recorded.Calls != 2 {
		t.Errorf("%+v", a)
	}
}

// A budget of a pool is that of all its models, at the price of each.
func TestSpendOfPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := budget(t, ratelimit.Config{
			Pools:  map[string]ratelimit.Pool{"all": {Models: []string{"*"}, Quota: ratelimit.ModelQuota{MaxSpendPerDay: 10 * money.Dollar}}},
			Prices: map[string]money.Price{"a": dollarEach, "b": {Input: 2 * money.Dollar}},
		})
		r, d := rl.Reserve("a", 3_000_000, 3_000_000)
		if !d.Allowed || rl.PoolStats("all").SpendDay != 6*money.Dollar {
			t.Fatalf("%+v, %+v", d, rl.PoolStats("all"))
		}
		if _, d := rl.Reserve("b", 2_000_001, 0); d.Code != ratelimit.DecisionSpendLimit || d.Pool != "all" || d.RetryAfter != 24*time.Hour {
			t.Errorf("above the rest: %+v", d)
		}
		r.CommitUsage(1, 1, money.Usage{CachedInput: 1_000_000})
		if s := rl.PoolStats("all"); s.SpendDay != money.Dollar || rl.Stats("a").SpendDay != money.Dollar {
			t.Errorf("settled: %+v, %+v", s, rl.Stats("a"))
		}
		rl.RecordUsage("b", 1_000_000, 0)
		rs, d := rl.ReserveAll(ratelimit.Request{Model: "a", PromptTokens: 1_000_000}, ratelimit.Request{Model: "b", PromptTokens: 3_000_000})
		if !d.Allowed || rl.PoolStats("all").SpendDay != 10*money.Dollar || rl.CanSend("a", 1) {
			t.Errorf("all of the rest: %+v, %+v", d, rl.PoolStats("all"))
		}
		rs.Cancel()
		if s := rl.PoolStats("all"); s.SpendDay != 3*money.Dollar || !rl.CanSend("a", 1) {
			t.Errorf("given back: %+v", s)
		}
		if _, d := rl.Reserve("unpriced", 1, 1); d.Code != ratelimit.DecisionUnpriced || d.Pool != "all" {
			t.Errorf("without a price: %+v", d)
		}
		a := rl.Audit()
		sum := a.Models["a"].Settled.Money + a.Models["b"].Recorded.Money
		if p := a.Pools["all"]; p.Settled.Money+p.Recorded.Money != sum || sum != 3*money.Dollar || p.Open.Calls != 0 || p.Released.Calls != 2 {
			t.Errorf("the audit is %+v", a)
		}
		if all := a.Classes[""]; all.Reserved.Calls != 3 || all.Recorded.Calls != 1 {
			t.Errorf("a call counts once by class: %+v", all)
		}
	})
}

// A waiter passes when the day ends, or when a call costs less than it could; one whose deadline is
// before that is refused at once.
func TestSpendWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := budget(t, ratelimit.Config{
			Quotas: map[string]ratelimit.ModelQuota{"m": {MaxSpendPerDay: money.Dollar}}, Prices: map[string]money.Price{"m": dollarEach},
		})
		r, _ := rl.Reserve("m", 1_000_000, 0)
		began := time.Now()
		go func() { time.Sleep(time.Minute); r.Commit(500_000, 0) }()
		if _, err := rl.Acquire(t.Context(), "m", 500_000, 0); err != nil || time.Since(began) != time.Minute {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		rl.RecordUsage("m", 1, 0)
		if _, err := rl.Acquire(t.Context(), "m", 500_000, 0); err != nil || time.Since(began) != 24*time.Hour {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

// aloneAndSharedIn is aloneAndShared in a bubble, where there are no subtests.
func aloneAndSharedIn(t *testing.T, cfg ratelimit.Config, run func(rl *ratelimit.RateLimiter)) {
	run(newLimiterWith(t, cfg))
	cfg.FilePath = ""
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

// A caller that a budget denies waits only for calls in flight that may give back enough.
func TestBudgetWaitsOnlyForWhatMayComeBack(t *testing.T) {
	for _, how := range []string{"model", "pool", "ten minutes"} {
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
				switch budget := (ratelimit.ModelQuota{MaxSpendPerDay: 1000}); how {
				case "model":
					cfg.Quotas["m"] = budget
				case "ten minutes":
					cfg.Quotas["m"] = ratelimit.ModelQuota{MaxSpendPerTenMinutes: 1000}
				default:
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
