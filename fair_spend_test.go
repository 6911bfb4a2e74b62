// Money: budgets beside other limits, in lines, at their edges, and under many goroutines.

package ratelimit_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/money"
)

// microPrices make a token of input cost a micro-dollar, and one of output two.
var microPrices = map[string]money.Price{"*": {Input: money.Dollar, Output: 2 * money.Dollar}}

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
			if d := rl.Decide(model, 5); free != d.Allowed || !free && (d.Code != ratelimit.DecisionUnpriced || !d.Never) || free != (err == nil) ||
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
		if d := rl.Decide("elsewhere", 5); !d.Allowed {
			t.Errorf("a model without a budget: %+v", d)
		}
	}
}

// Sums stop at the largest amount, and what costs less than a micro-dollar counts as one.
func TestSpendAtItsEdges(t *testing.T) {
	rl := newBudget(t, ratelimit.ModelQuota{MaxSpendPerMonth: money.Max})
	if err := rl.SetPrice("m", money.Price{Input: money.Max}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		rl.RecordUsage("m", math.MaxInt, math.MaxInt)
	}
	if s := rl.Stats("m"); s.SpendMonth != money.Max || s.SpendDay != money.Max {
		t.Errorf("%v a day, %v a month", s.SpendDay, s.SpendMonth)
	}
	rl = newBudget(t, ratelimit.ModelQuota{MaxSpendPerDay: 3})
	if err := rl.SetPrice("m", money.Price{Input: money.Micro}); err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		if r, d := rl.Reserve("m", 1, 0); d.Allowed != (i < 3) {
			t.Errorf("call %d of a millionth of a micro-dollar: %+v", i, d)
		} else {
			r.Commit(1, 0)
		}
	}
	if err := rl.SetPrice("m", money.Price{Output: -1}); !errors.Is(err, money.ErrInvalidPrice) || !strings.Contains(err.Error(), "m") {
		t.Errorf("a negative price: %v", err)
	}
	if p, ok := rl.PriceOf("m"); !ok || p != (money.Price{Input: money.Micro}) {
		t.Errorf("the price after that is %+v", p)
	}
}

// Budgets, prices and the policy are read from YAML; what is out of range is named.
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
	for _, tt := range []struct {
		cfg  ratelimit.Config
		want string
	}{
		{ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"bad": {MaxSpendPerDay: -1}}}, "bad"},
		{ratelimit.Config{Pools: map[string]ratelimit.Pool{"bad": {Quota: ratelimit.ModelQuota{MaxSpendPerMonth: -1}}}}, "bad"},
		{ratelimit.Config{Prices: map[string]money.Price{"bad": {Input: -1}}}, "bad"},
		{ratelimit.Config{Unpriced: 7}, "7"},
	} {
		tt.cfg.FilePath = filepath.Join(t.TempDir(), "f")
		if _, err := ratelimit.NewWithConfig(tt.cfg); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v", tt.cfg, err)
		}
	}
}

// However many goroutines spend at once, a budget is never exceeded by calls within their
// estimates, and the audit adds up to what the stats say.
func TestManySpendOneBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiterWith(t, ratelimit.Config{
			Prices: microPrices, HoldTTL: 10 * time.Minute,
			Quotas:  map[string]ratelimit.ModelQuota{"a": {MaxSpendPerDay: 3000, DayZone: "UTC"}, "b": {}},
			Pools:   map[string]ratelimit.Pool{"all": {Models: []string{"*"}, Quota: ratelimit.ModelQuota{MaxSpendPerDay: 5000, DayZone: "UTC"}}},
			Classes: map[string]ratelimit.Class{"x": {Weight: 2}, "y": {Ahead: true}},
		})
		var all sync.WaitGroup
		var mu sync.Mutex
		var kept []*ratelimit.Reservation
		for i := range 24 {
			all.Go(func() {
				random := rand.New(rand.NewPCG(51, uint64(i)))
				for range 40 {
					req := ratelimit.Request{Model: []string{"a", "b"}[random.IntN(2)], PromptTokens: random.IntN(30), OutputTokens: random.IntN(30),
						Class: []string{"", "x", "y"}[random.IntN(3)]}
					rs, d := rl.ReserveAll(req)
					if s := rl.PoolStats("all"); s.SpendDay > 5000 || rl.Stats("a").SpendDay > 3000 {
						t.Errorf("spent is %v", s.SpendDay)
					}
					if !d.Allowed {
						time.Sleep(time.Duration(random.Int64N(int64(time.Minute))))
						continue
					}
					mu.Lock()
					kept = append(kept, rs...)
					mu.Unlock()
					time.Sleep(time.Duration(random.Int64N(int64(10 * time.Second))))
					switch used := random.IntN(req.PromptTokens + 1); random.IntN(5) {
					case 0:
						rs.Cancel()
					case 1: // it expires
					case 2:
						rs[0].CommitUsage(used, 1, money.Usage{CachedInput: used})
					default:
						rs[0].Commit(used, random.IntN(req.OutputTokens+1))
					}
				}
			})
		}
		all.Wait()
		time.Sleep(10 * time.Minute)
		audit := rl.Audit()
		left := func(e ratelimit.AuditEntry) money.Amount {
			return e.Settled.Money + e.Expired.Money + e.Open.Money + e.Recorded.Money
		}
		for name, got := range map[string]struct {
			entry ratelimit.AuditEntry
			spent money.Amount
		}{
			"a": {audit.Models["a"], rl.Stats("a").SpendDay}, "b": {audit.Models["b"], rl.Stats("b").SpendDay}, "pool": {audit.Pools["all"], rl.PoolStats("all").SpendDay},
		} {
			if e := got.entry; left(e) != got.spent || e.Reserved.Money != e.Estimated.Money+e.Released.Money+e.Expired.Money+e.Open.Money || e.Open.Calls != 0 {
				t.Errorf("%s has spent %v, the audit is %+v", name, got.spent, e)
			}
		}
		var models, classes ratelimit.AuditSum
		for _, e := range audit.Models {
			models.Calls, models.Money = models.Calls+e.Reserved.Calls, models.Money+e.Reserved.Money
		}
		for _, e := range audit.Classes {
			classes.Calls, classes.Money = classes.Calls+e.Reserved.Calls, classes.Money+e.Reserved.Money
		}
		if pool := audit.Pools["all"].Reserved; models != classes || models.Calls != pool.Calls || models.Money != pool.Money || models.Calls != len(kept) {
			t.Errorf("reserved by models %+v, by classes %+v, by the pool %+v, of %d calls", models, classes, pool, len(kept))
		}
	})
}
