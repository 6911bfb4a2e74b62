// Prices, budgets, money of open calls, and waits for what may come back.

package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/money"
)

// dollarEach is a price at which a million tokens cost a dollar, whatever they are.
var dollarEach = money.Price{Input: money.Dollar, Output: money.Dollar}

// microPrices make a token of input cost a micro-dollar, and one of output two.
var microPrices = map[string]money.Price{"*": {Input: money.Dollar, Output: 2 * money.Dollar}}

// A price is found by the counted name, the requested one, the model of a version, the longest
// pattern, and "*".
func TestPriceOf(t *testing.T) {
	price := func(n int) money.Price { return money.Price{Input: money.Amount(n)} }
	rl := openLimiter(t, ratelimit.Config{
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
	rl := openLimiter(t, ratelimit.Config{Prices: map[string]money.Price{"m": dollarEach}})
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
	_, err = ratelimit.NewWithConfig(ratelimit.Config{FilePath: t.TempDir() + "/s", Pools: map[string]ratelimit.Pool{"bad": {Quota: ratelimit.ModelQuota{MaxSpendPerMonth: -1}}}})
	if err == nil || !strings.Contains(err.Error(), "bad") {
		t.Errorf("a pool: %v", err)
	}
	_, err = ratelimit.NewWithConfig(ratelimit.Config{FilePath: t.TempDir() + "/s", Unpriced: 7})
	if err == nil || !strings.Contains(err.Error(), "Unpriced: unpriced policy is 7") {
		t.Errorf("Unpriced: %v", err)
	}
}

// The limits deny in their order, and the longest wait counts. A call that alone may cost more than
// a limit never passes.
func TestSpendDenies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(30*24*time.Hour + 12*time.Hour) // noon of the last day of January 2000
		q := ratelimit.ModelQuota{MaxSpendPerDay: 10 * money.Dollar, MaxSpendPerMonth: 12 * money.Dollar, MaxRPM: 100, DayZone: "UTC"}
		rl := openLimiter(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": q}, Prices: map[string]money.Price{"m": dollarEach}})
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
	rl := openLimiter(t, ratelimit.Config{
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
	rl.RecordUsage("much", math.MaxInt, math.MaxInt)
	if s := rl.Stats("much"); s.SpendMonth != money.Max || s.SpendDay != money.Max {
		t.Errorf("%v a day, %v a month", s.SpendDay, s.SpendMonth)
	}
	if d := rl.Decide("much", 1); d.Allowed {
		t.Errorf("%+v", d)
	}
	if a := rl.Audit().Models["much"]; a.Recorded.Money != money.Max || a.Recorded.Calls != 2 {
		t.Errorf("%+v", a)
	}
}

// A budget of a pool is that of all its models, at the price of each, and of all limiters that
// share it.
func TestSpendOfPool(t *testing.T) {
	onPairs(t, ratelimit.Config{
		Pools:  map[string]ratelimit.Pool{"all": {Models: []string{"*"}, Quota: ratelimit.ModelQuota{MaxSpendPerDay: 10 * money.Dollar}}},
		Prices: map[string]money.Price{"a": dollarEach, "b": {Input: 2 * money.Dollar}},
	}, func(t *testing.T, rl, other *ratelimit.RateLimiter, late time.Duration) {
		began := time.Now()
		r, d := rl.Reserve("a", 3_000_000, 3_000_000)
		if !d.Allowed || rl.PoolStats("all").SpendDay != 6*money.Dollar {
			t.Fatalf("%+v, %+v", d, rl.PoolStats("all"))
		}
		time.Sleep(late)
		_, d = other.Reserve("b", 2_000_001, 0)
		if day := (time.Since(began) + d.RetryAfter).Round(time.Millisecond); d.Code != ratelimit.DecisionSpendLimit || d.Pool != "all" || !d.OverBudget || day != 24*time.Hour {
			t.Errorf("above the rest: %+v", d)
		}
		r.CommitUsage(1, 1, money.Usage{CachedInput: 1_000_000})
		time.Sleep(late)
		if s := other.PoolStats("all"); s.SpendDay != money.Dollar || other.Stats("a").SpendDay != money.Dollar {
			t.Errorf("settled: %+v, %+v", s, other.Stats("a"))
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

// A call that was made before its limiter had any price is settled at the price of its settlement,
// as SetPrice says.
func TestFirstPriceAppliesToOpenCalls(t *testing.T) {
	pool := ratelimit.Pool{Models: []string{"*"}, Quota: ratelimit.ModelQuota{MaxInFlight: 5}}
	for _, quota := range []ratelimit.ModelQuota{{MaxRPM: 10}, {MaxInFlight: 5}} {
		onKinds(t, func(t *testing.T, p *place) {
			rl := p.open(t, ratelimit.Config{
				Quotas: map[string]ratelimit.ModelQuota{"m": quota}, Pools: map[string]ratelimit.Pool{"p": pool},
			})
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
	onKinds(t, func(t *testing.T, p *place) {
		rl := p.open(t, ratelimit.Config{
			MaxModels: 1, Prices: microPrices, Classes: map[string]ratelimit.Class{"c": {}},
			Pools: map[string]ratelimit.Pool{
				"p": {Models: []string{"*"}, Quota: ratelimit.ModelQuota{MaxSpendPerDay: 1000}}, "q": {Models: []string{"b", "z"}},
			},
		})
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
	onKinds(t, func(t *testing.T, p *place) {
		rl := p.open(t, ratelimit.Config{
			Prices: microPrices, Quotas: map[string]ratelimit.ModelQuota{"*": {MaxSpendPerDay: 100}},
		})
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
	onKinds(t, func(t *testing.T, p *place) {
		rl := p.open(t, ratelimit.Config{
			Prices: microPrices, Quotas: map[string]ratelimit.ModelQuota{"m": quota("UTC")},
			Pools: map[string]ratelimit.Pool{"p": {Models: []string{"m"}, Quota: quota("UTC")}},
		})
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
			onKinds(t, func(t *testing.T, p *place) {
				cfg := ratelimit.Config{Prices: microPrices, Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 100}}}
				switch budget := (ratelimit.ModelQuota{MaxSpendPerDay: 1000}); how {
				case "model":
					cfg.Quotas["m"] = budget
				case "ten minutes":
					cfg.Quotas["m"] = ratelimit.ModelQuota{MaxSpendPerTenMinutes: 1000}
				default:
					cfg.Pools = map[string]ratelimit.Pool{"p": {Models: []string{"m"}, Quota: budget}}
				}
				rl := p.open(t, cfg)
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
			})
		}
	}
}

func newBudget(t *testing.T, q ratelimit.ModelQuota) *ratelimit.RateLimiter {
	t.Helper()
	return newLimiterWith(t, ratelimit.Config{Prices: microPrices, Quotas: map[string]ratelimit.ModelQuota{"m": q}})
}

// A denial says when all limits pass, and names the first that denies.
func TestSpendBesideOtherLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newBudget(t, ratelimit.ModelQuota{MaxRPM: 1, MaxSpendPerDay: 100, DayZone: "UTC"})
		time.Sleep(20 * time.Hour)
		rl.RecordUsage("m", 10, 10)
		if d := rl.Decide("m", 1); d.Code != ratelimit.DecisionRPMLimit || d.RetryAfter != time.Minute+1 {
			t.Errorf("the minute alone: %+v", d)
		}
		if d := rl.Decide("m", 71); d.Code != ratelimit.DecisionSpendLimit || d.RetryAfter != 4*time.Hour {
			t.Errorf("the minute and the day: %+v", d)
		}
		if d := rl.Decide("m", 101); !d.Never || d.RetryAfter != 0 {
			t.Errorf("more than a day has: %+v", d)
		}
		time.Sleep(3*time.Hour + 59*time.Minute + 30*time.Second)
		rl.RecordUsage("m", 0, 0)
		if d := rl.Decide("m", 71); d.Code != ratelimit.DecisionSpendLimit || d.RetryAfter != time.Minute+1 {
			t.Errorf("just before midnight: %+v", d)
		}
	})
}

// Whoever waits for money gets it when it comes back, when there is more of it, and when the day
// ends, and is refused at once where that is too late.
func TestWaitsForMoney(t *testing.T) {
	budget := ratelimit.ModelQuota{MaxSpendPerDay: 100, DayZone: "UTC"}
	for _, tt := range []struct {
		name string
		free func(rl *ratelimit.RateLimiter, open *ratelimit.Reservation)
		wait time.Duration
	}{
		{"Commit of less", func(_ *ratelimit.RateLimiter, open *ratelimit.Reservation) { open.Commit(10, 0) }, time.Hour},
		{"CommitUsage of less", func(_ *ratelimit.RateLimiter, open *ratelimit.Reservation) {
			open.CommitUsage(80, 0, money.Usage{Input: 10})
		}, time.Hour},
		{"Cancel", func(_ *ratelimit.RateLimiter, open *ratelimit.Reservation) { open.Cancel() }, time.Hour},
		{"SetQuota", func(rl *ratelimit.RateLimiter, _ *ratelimit.Reservation) {
			rl.SetQuota("m", ratelimit.ModelQuota{MaxSpendPerDay: 200, DayZone: "UTC"})
		}, time.Hour},
		{"SetPrice", func(rl *ratelimit.RateLimiter, _ *ratelimit.Reservation) {
			rl.SetPrice("m", money.Price{Input: money.Cent})
		}, time.Hour},
		{"a free model", func(rl *ratelimit.RateLimiter, _ *ratelimit.Reservation) { rl.SetPrice("m", money.Price{}) }, time.Hour},
		{"midnight", func(*ratelimit.RateLimiter, *ratelimit.Reservation) {}, 24 * time.Hour},
		{"Commit of more", func(_ *ratelimit.RateLimiter, open *ratelimit.Reservation) { open.Commit(1000, 0) }, 24 * time.Hour},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rl := newBudget(t, budget)
				open, _ := rl.Reserve("m", 80, 0)
				time.AfterFunc(time.Hour, func() { tt.free(rl, open) })
				soon, cancel := context.WithTimeout(t.Context(), tt.wait-1)
				defer cancel()
				if r, err := rl.Acquire(soon, "m", 50, 0); tt.wait == 24*time.Hour && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("too late by a nanosecond: %v, %v", r, err)
				}
				begin := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
				r, err := rl.Acquire(t.Context(), "m", 50, 0)
				if err != nil || time.Since(begin) != tt.wait {
					t.Errorf("%v after %v, want it after %v", err, time.Since(begin), tt.wait)
				}
				r.Commit(50, 0)
				runtime.KeepAlive(open)
			})
		})
	}
}

// A model without a price inside a budget is refused for good, until it has one, or is free.
func TestUnpricedModels(t *testing.T) {
	for _, free := range []bool{false, true} {
		cfg := ratelimit.Config{
			FilePath: filepath.Join(t.TempDir(), "f"), Prices: map[string]money.Price{"other": {Input: money.Dollar}},
			Quotas: map[string]ratelimit.ModelQuota{"m": {MaxSpendPerDay: 10}, "n": {}},
			Pools:  map[string]ratelimit.Pool{"p": {Models: []string{"n"}, Quota: ratelimit.ModelQuota{MaxSpendPerMonth: 10}}},
		}
		if free {
			cfg.Unpriced = ratelimit.UnpricedFree
		}
		rl := newLimiterWith(t, cfg)
		for _, model := range []string{"m", "n"} {
			_, err := rl.Acquire(t.Context(), model, 5, 5)
			if d := rl.Decide(model, 5); free != d.Allowed || free != rl.CanSend(model, 5) || !free && (d.Code != ratelimit.DecisionUnpriced || !d.Never) || free != (err == nil) ||
				!free && !errors.Is(err, ratelimit.ErrNeverFits) {
				t.Errorf("%s, free %v: %+v, %v", model, free, d, err)
			}
			if d := rl.Decide(model, 5); model == "n" && !free && d.Pool != "p" {
				t.Errorf("the pool has the budget: %+v", d)
			}
			if err := rl.SetPrice(model, money.Price{Input: money.Dollar}); err != nil {
				t.Error(err)
			}
			if d := rl.Decide(model, 5); !d.Allowed {
				t.Errorf("%s has a price, free %v: %+v", model, free, d)
			}
			if d := rl.Decide(model, 11); d.Allowed || !d.Never || d.Code != ratelimit.DecisionSpendLimit {
				t.Errorf("%s has a price, free %v: %+v", model, free, d)
			}
		}
		if r, d := rl.Reserve("elsewhere", math.MaxInt, math.MaxInt); !d.Allowed || rl.Stats("elsewhere").SpendDay != 0 {
			t.Errorf("a model without a budget: %+v, %v", d, r)
		}
	}
}

// Budgets, prices and the policy are read from YAML.
func TestBudgetsInConfig(t *testing.T) {
	cfg, err := ratelimit.ReadConfig(strings.NewReader(`
quotas:
  m: {max_rpm: 0, max_spend_per_day: $12.50, max_spend_per_month: "100"}
pools:
  all: {models: ["*"], quota: {max_spend_per_month: 1000.01}}
prices:
  m: {input: 1.25, cached_input: $0.125, output: $10}
unpriced: free
`))
	if err != nil || cfg.Quotas["m"].MaxSpendPerDay != money.USD(12.50) || cfg.Quotas["m"].MaxSpendPerMonth != 100*money.Dollar ||
		cfg.Pools["all"].Quota.MaxSpendPerMonth != money.USD(1000.01) || cfg.Unpriced != ratelimit.UnpricedFree ||
		cfg.Prices["m"] != (money.Price{Input: money.USD(1.25), CachedInput: money.USD(0.125), Output: 10 * money.Dollar}) {
		t.Errorf("%+v, %v", cfg, err)
	}
}

// A budget is kept by whoever comes after: what is spent is not forgotten with the usage.
func TestSpendIsKeptUntilItsMonthEnds(t *testing.T) {
	price := map[string]money.Price{"*": {Input: money.Dollar}}
	budget := ratelimit.ModelQuota{MaxSpendPerMonth: 100, MaxSpendPerDay: 100}
	for _, tt := range []struct {
		name   string
		forget func(t *testing.T, rl *ratelimit.RateLimiter)
	}{
		{"Reset", func(_ *testing.T, rl *ratelimit.RateLimiter) { rl.Reset("m") }},
		{"Reset of all", func(_ *testing.T, rl *ratelimit.RateLimiter) { rl.Reset("") }},
		{"an idle week", func(_ *testing.T, rl *ratelimit.RateLimiter) {
			stop := rl.BackgroundPrune(time.Hour)
			time.Sleep(7 * 24 * time.Hour)
			stop()
			rl.AllStats()
		}},
		{"eviction", func(_ *testing.T, rl *ratelimit.RateLimiter) {
			time.Sleep(25 * time.Hour)
			for i := range 10 {
				rl.RecordUsage(fmt.Sprint("other ", i), 1, 0)
				time.Sleep(25 * time.Hour)
			}
		}},
		{"Load", func(t *testing.T, rl *ratelimit.RateLimiter) {
			if err := rl.Load(); err != nil {
				t.Fatal(err)
			}
		}},
		{"SetQuota", func(_ *testing.T, rl *ratelimit.RateLimiter) {
			rl.SetQuota("*", ratelimit.ModelQuota{})
			rl.SetQuota("*", budget)
		}},
		{"another zone", func(_ *testing.T, rl *ratelimit.RateLimiter) {
			zoned := budget
			zoned.DayZone = "Asia/Tokyo"
			rl.SetQuota("*", zoned)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rl := newLimiterWith(t, ratelimit.Config{Prices: price, MaxModels: 3, Quotas: map[string]ratelimit.ModelQuota{"*": budget}})
				rl.RecordUsage("m", 99, 0)
				if err := rl.Persist(); err != nil {
					t.Fatal(err)
				}
				rl.RecordUsage("m", 1, 0)
				tt.forget(t, rl)
				if d := rl.Decide("m", 1); d.Allowed || d.Code != ratelimit.DecisionSpendLimit {
					t.Errorf("a month's money is spent, and yet %+v", d)
				}
				if s := rl.Stats("m"); s.SpendMonth != 100 {
					t.Errorf("spent is %v, want %v", s.SpendMonth, money.Amount(100))
				}
				time.Sleep(time.Until(time.Date(2000, 2, 1, 0, 0, 0, 0, time.UTC)))
				if d := rl.Decide("m", 1); !d.Allowed {
					t.Errorf("another month: %+v", d)
				}
			})
		})
	}
}
