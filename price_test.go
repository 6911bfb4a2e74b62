// Prices: what sixty calls cost at their providers, and the built-in prices.

package ratelimit_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/fakestore"
	"dappco.re/go/core/go-ratelimit/money"
)

// billedCall is a call of TestBill, and what its provider charges for it in micro-dollars, by the
// arithmetic of its page.
type billedCall struct {
	model string
	hour  int // UTC
	used  money.Usage
	tier  string // as the answer names it
	micro int64
}

// billedCalls are sixty calls: each size beside a bound, each cache, each service tier, and each
// hour at which a price changes.
func billedCalls() (calls []billedCall) {
	add := func(model string, hour int, used money.Usage, tier string, micro int64) {
		calls = append(calls, billedCall{model, hour, used, tier, micro})
	}
	// GPT-5.5: above 272,000 tokens of input, twice the input and half as much again of output.
	for _, input := range []int64{1000, 271_999, 272_000, 272_001, 300_000} {
		for _, tier := range []string{"default", "flex", "priority", "batch"} {
			in, out := 5*input, int64(30*2000)
			switch {
			case input > 272_000:
				in, out = 2*in, out*3/2
			case tier == "priority":
				in, out = in*5/2, out*5/2
			}
			if tier == "flex" || tier == "batch" {
				in, out = in/2, out/2
				if input == 271_999 {
					in++ // half a micro-dollar is rounded up
				}
			} else if tier == "priority" && input == 271_999 {
				in++
			}
			add("gpt-5.5", 12, money.Usage{Input: int(input), Output: 2000}, tier, in+out)
		}
	}
	// Claude: reads cost a tenth, writes five quarters, and for an hour twice the input.
	for _, part := range []int64{1000, 20_000, 40_000} {
		n := int(part)
		add("claude-sonnet-5", 3, money.Usage{Input: n, Output: n}, "standard", 2*part+10*part)
		add("claude-sonnet-5", 3, money.Usage{CachedInput: n, Output: n}, "standard", part/5+10*part)
		add("claude-sonnet-5", 3, money.Usage{CacheWrite: n, Output: n}, "standard", part*5/2+10*part)
		add("claude-sonnet-5", 3, money.Usage{CacheWriteHour: n, Output: n}, "standard", 4*part+10*part)
		add("claude-sonnet-5", 3, money.Usage{Input: n, CachedInput: n, CacheWrite: n, CacheWriteHour: n}, "standard", 2*part+part/5+part*5/2+4*part)
	}
	// Haiku 5.5: above 100,000 tokens five times as much.
	for _, input := range []int64{50_000, 100_000, 100_010, 150_000} {
		times := int64(1)
		if input > 100_000 {
			times = 5
		}
		add("claude-haiku-5-5", 9, money.Usage{Input: int(input), Output: 2000}, "standard", times*(input/10+2000/2))
		add("claude-haiku-5-5", 9, money.Usage{CachedInput: int(input - 10), Input: 10}, "", times*(input/10/10)+times)
	}
	// DeepSeek: twice as much from 1 to 4 and from 6 to 10.
	for _, hour := range []int{0, 1, 2, 3, 4, 5, 6, 9, 10, 23} {
		times := int64(1)
		if hour >= 1 && hour < 4 || hour >= 6 && hour < 10 {
			times = 2
		}
		add("deepseek-flash", hour, money.Usage{Input: 1_000_000, Output: 10_000}, "", times*(140_000+2800))
		if hour < 7 {
			add("deepseek-flash", hour, money.Usage{CachedInput: 1_000_000}, "", times*14_000)
		}
	}
	return calls
}

// Audit and the spend of sixty calls are what the providers charge, to the micro-dollar.
func TestBill(t *testing.T) {
	rates := func(list ...money.Rate) (r money.Rates) {
		copy(r[:], list)
		return r
	}
	usd := money.USD
	prices := map[string]money.Price{
		"gpt-5.5": {Input: usd(5), CachedInput: usd(0.5), Output: usd(30), Rates: rates(
			money.Rate{ServiceTier: money.Flex, Input: usd(2.5), CachedInput: usd(0.25), Output: usd(15)},
			money.Rate{ServiceTier: money.Batch, Input: usd(2.5), CachedInput: usd(0.25), Output: usd(15)},
			money.Rate{ServiceTier: money.Priority, Input: usd(12.5), CachedInput: usd(1.25), Output: usd(75)},
			money.Rate{Above: 272_000, Input: usd(10), CachedInput: usd(1), Output: usd(45)},
			money.Rate{Above: 272_000, ServiceTier: money.Flex, Input: usd(5), CachedInput: usd(0.5), Output: usd(22.5)},
			money.Rate{Above: 272_000, ServiceTier: money.Batch, Input: usd(5), CachedInput: usd(0.5), Output: usd(22.5)},
		)},
		"claude-sonnet-5": {Input: usd(2), CachedInput: usd(0.2), CacheWrite: usd(2.5), CacheWriteHour: usd(4), Output: usd(10)},
		"claude-haiku-5-5": {Input: usd(0.1), CachedInput: usd(0.01), CacheWrite: usd(0.125), CacheWriteHour: usd(0.2), Output: usd(0.5), Rates: rates(
			money.Rate{Above: 100_000, Input: usd(0.5), CachedInput: usd(0.05), CacheWrite: usd(0.625), CacheWriteHour: usd(1), Output: usd(2.5)},
		)},
		"deepseek-flash": {Input: usd(0.14), CachedInput: usd(0.014), Output: usd(0.28), Rates: rates(
			money.Rate{From: 60, Until: 4 * 60, Input: usd(0.28), CachedInput: usd(0.028), Output: usd(0.56)},
			money.Rate{From: 6 * 60, Until: 10 * 60, Input: usd(0.28), CachedInput: usd(0.028), Output: usd(0.56)},
		)},
	}
	calls := billedCalls()
	if len(calls) != 60 {
		t.Fatalf("%d calls", len(calls))
	}
	slices.SortStableFunc(calls, func(a, b billedCall) int { return a.hour - b.hour })
	for _, shared := range []bool{false, true} {
		t.Run(fmt.Sprintf("shared %v", shared), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"*": {MaxSpendPerMonth: 1000 * money.Dollar}}, Prices: prices}
				calls := calls
				if shared {
					calls = calls[:times(60, 20, 60)] // of some hours
					fake := fakestore.New()
					fake.Steady = true
					cfg.Store = fake
				}
				rl, err := ratelimit.NewWithConfig(cfg)
				if err != nil {
					t.Fatal(err)
				}
				defer rl.Close()
				day := time.Now().UTC() // midnight
				inputs := func(u *money.Usage) int { return u.Input + u.CachedInput + u.CacheWrite + u.CacheWriteHour }
				open := make([]*ratelimit.Reservation, len(calls))
				for i, c := range calls {
					time.Sleep(time.Until(day.Add(time.Duration(c.hour) * time.Hour)))
					var d ratelimit.Decision
					if open[i], d = rl.Reserve(c.model, inputs(&c.used), c.used.Output); open[i] == nil {
						t.Fatalf("call %d: %+v", i, d)
					}
				}
				time.Sleep(time.Hour) // the hours of the admissions count
				var want money.Amount
				for i, c := range calls {
					c.used.ServiceTier = money.TierOf(c.tier)
					before := rl.Stats(c.model).SpendMonth
					open[i].CommitUsage(inputs(&c.used), c.used.Output, c.used)
					if after := rl.Stats(c.model).SpendMonth; after > before {
						t.Errorf("call %d reserved less than it costs: %v, then %v", i, before, after)
					}
					var got money.Amount
					for _, is := range rl.Audit().Models {
						got = got.Add(is.Settled.Money)
					}
					if want = want.Add(money.Amount(c.micro)); got != want {
						t.Fatalf("call %d: %+v: %d micro-dollars in all, want %d", i, c, int64(got), int64(want))
					}
				}
			})
		})
	}
}

// Where a quota limits spend, models without a price of the program's have the published one.
func TestBuiltinPrices(t *testing.T) {
	const model, used = "gpt-5.5", 300_000
	limited := map[string]ratelimit.ModelQuota{model: {MaxSpendPerDay: 10 * money.Dollar}}
	everything := map[string]ratelimit.Pool{"everything": {Models: []string{"*"}, Quota: ratelimit.ModelQuota{MaxSpendPerMonth: 100 * money.Dollar}}}
	for _, tt := range []struct {
		name   string
		cfg    ratelimit.Config
		change func(*ratelimit.RateLimiter)
		model  string
		want   money.Amount // -1 for a call that is denied because it has no price
	}{
		{"a budget", ratelimit.Config{Quotas: limited}, nil, model, money.USD(3.45)},
		{"a pool's budget", ratelimit.Config{Pools: everything}, nil, model, money.USD(3.45)},
		{"a budget that comes later", ratelimit.Config{}, func(rl *ratelimit.RateLimiter) { rl.SetQuota(model, limited[model]) }, model, money.USD(3.45)},
		{"one that is put into the map", ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{model: {MaxRPM: 9}}}, func(rl *ratelimit.RateLimiter) { rl.Quotas[model] = limited[model] }, model, money.USD(3.45)},
		{"by another name", ratelimit.Config{Quotas: limited, Aliases: map[string]string{"large": model}}, nil, "large", money.USD(3.45)},
		{"no budget", ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{model: {MaxRPM: 9}}}, nil, model, 0},
		{"a price of the program, and no budget", ratelimit.Config{Prices: map[string]money.Price{"m": dollarEach}}, nil, model, 0},
		{"the price of the program", ratelimit.Config{Quotas: limited, Prices: map[string]money.Price{model: dollarEach}}, nil, model, money.USD(0.31)},
		{"that of all models", ratelimit.Config{Quotas: limited, Prices: map[string]money.Price{"*": dollarEach}}, nil, model, money.USD(0.31)},
		{"that of SetPrice", ratelimit.Config{Quotas: limited}, func(rl *ratelimit.RateLimiter) { rl.SetPrice(model, dollarEach) }, model, money.USD(0.31)},
		{"NoPrices", ratelimit.Config{Quotas: limited, NoPrices: true}, nil, model, -1},
		{"a model nobody knows", ratelimit.Config{Pools: everything}, nil, "nobody-knows-this", -1},
		{"one that is free by policy", ratelimit.Config{Pools: everything, Unpriced: ratelimit.UnpricedFree}, nil, "nobody-knows-this", 0},
		{"the models of a host are not those of their makers", ratelimit.Config{Pools: everything, Providers: []ratelimit.Provider{ratelimit.ProviderAzure}}, nil, "my-deployment", -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rl := openLimiter(t, tt.cfg)
			if tt.change != nil {
				tt.change(rl)
			}
			r, d := rl.Reserve(tt.model, used, 10_000)
			if tt.want == -1 {
				if r != nil || d.Code != ratelimit.DecisionUnpriced {
					t.Errorf("%+v", d)
				}
				return
			}
			if r == nil {
				t.Fatalf("%+v", d)
			}
			r.Commit(used, 10_000)
			var got money.Amount
			for _, is := range rl.Audit().Models {
				got = got.Add(is.Settled.Money)
			}
			if got != tt.want {
				t.Errorf("it has cost %v, want %v", got, tt.want)
			}
		})
	}
	rl := openLimiter(t, ratelimit.Config{})
	if p, ok := rl.PriceOf(model); !ok || p.Cost(money.Usage{Input: used, Output: 10_000}) != money.USD(3.45) {
		t.Errorf("without a budget the price is %+v, %v", p, ok)
	}
	if p, ok := openLimiter(t, ratelimit.Config{NoPrices: true}).PriceOf(model); ok {
		t.Errorf("without built-in prices it is %+v", p)
	}
}

// A budget that somebody else has set, or an earlier run, brings the built-in prices, too.
func TestBuiltinPricesOfBudgetsFoundThere(t *testing.T) {
	cost := func(t *testing.T, rl *ratelimit.RateLimiter) {
		t.Helper()
		r, d := rl.Reserve("gpt-5.5", 300_000, 10_000)
		if r == nil {
			t.Fatalf("%+v", d)
		}
		r.Commit(300_000, 10_000)
		if got := rl.Audit().Models["gpt-5.5"].Settled.Money; got != money.USD(3.45) {
			t.Errorf("it has cost %v", got)
		}
	}
	pool := ratelimit.Pool{Models: []string{"*"}, Quota: ratelimit.ModelQuota{MaxSpendPerMonth: 100 * money.Dollar}}
	t.Run("in a store", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			fake := fakestore.New()
			open := func() *ratelimit.RateLimiter {
				rl, err := ratelimit.NewWithConfig(ratelimit.Config{Store: fake})
				if err != nil {
					t.Fatal(err)
				}
				return rl
			}
			first, before := open(), open()
			defer first.Close()
			defer before.Close()
			first.SetPool("everything", pool)
			time.Sleep(time.Minute) // in which the other one hears of it
			cost(t, before)
			for range 10_000 { // of which an image is saved
				first.RecordUsage("gpt-5.5", 1, 0)
			}
			time.Sleep(time.Minute)
			after := open()
			defer after.Close()
			cost(t, after)
		})
	})
	t.Run("in a file", func(t *testing.T) {
		path := t.TempDir() + "/state.yaml"
		first := openLimiter(t, ratelimit.Config{FilePath: path, Quotas: map[string]ratelimit.ModelQuota{"gpt-5.5": {MaxSpendPerDay: 10 * money.Dollar}}})
		if err := first.Persist(); err != nil {
			t.Fatal(err)
		}
		second := openLimiter(t, ratelimit.Config{FilePath: path})
		if err := second.Load(); err != nil {
			t.Fatal(err)
		}
		cost(t, second)
	})
}

// An old price is told, once for its provider.
func TestStalePrice(t *testing.T) {
	ratelimit.ForgetToldStale()
	synctest.Test(t, func(t *testing.T) {
		var told []error
		rl := openLimiter(t, ratelimit.Config{
			Quotas:  map[string]ratelimit.ModelQuota{"*": {MaxSpendPerDay: money.Dollar}},
			OnError: func(err error) { told = append(told, err) },
		})
		rl.CanSend("grok-4.3", 10) // in the year 2000
		time.Sleep(time.Until(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)))
		for _, model := range []string{"grok-4", "grok-4-fast", "grok-4"} {
			rl.CanSend(model, 10)
		}
		synctest.Wait()
		var stale *ratelimit.StalePriceError
		if len(told) != 1 || !errors.As(told[0], &stale) || stale.Provider != ratelimit.ProviderXAI || stale.Model != "grok-4" || stale.ReadOn.IsZero() || stale.URL == "" {
			t.Errorf("told %v", told)
		}
	})
}
