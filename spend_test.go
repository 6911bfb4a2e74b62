// Prices, budgets, and what has become of calls.

package ratelimit_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
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
