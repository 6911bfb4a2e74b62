// Examples: pools, prices and budgets, classes, and limits that are found.

package ratelimit_test

import (
	"context"
	"fmt"
	"log"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/money"
)

// Two models share a bucket of the provider, and the organisation has a limit over all models.
func Example_pools() {
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{
		FilePath: filepath.Join(tempDir(), "ratelimits.yaml"),
		Quotas:   map[string]ratelimit.ModelQuota{"small": {MaxRPM: 100}, "large": {MaxRPM: 100}},
		Pools: map[string]ratelimit.Pool{
			"bucket":       {Models: []string{"small", "large"}, Quota: ratelimit.ModelQuota{MaxRPM: 2}},
			"organisation": {Models: []string{"*"}, Quota: ratelimit.ModelQuota{MaxTPD: 1_000_000}},
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rl.Close()

	for _, model := range []string{"small", "large", "small", "other"} {
		call, d := rl.Reserve(model, 1000, 500)
		fmt.Printf("%s %t %s %q\n", model, d.Allowed, d.Code, d.Pool)
		call.Commit(1000, 200) // settles the pools, too
	}
	for name, stats := range rl.IterPools() {
		fmt.Println(name, stats.RPM, stats.TPD)
	}
	// Output:
	// small true ok ""
	// large true ok ""
	// small false rpm_exceeded "bucket"
	// other true unknown_model ""
	// bucket 2 2400
	// organisation 3 3600
}

// pooled is a limiter of two models with two pools.
func pooled() *ratelimit.RateLimiter {
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{
		FilePath: filepath.Join(tempDir(), "ratelimits.yaml"),
		Quotas:   map[string]ratelimit.ModelQuota{"gpt-4o": {MaxRPM: 500}, "claude": {MaxRPM: 500}},
		Pools: map[string]ratelimit.Pool{
			"openai":       {Models: []string{"gpt-*", "o3"}, Quota: ratelimit.ModelQuota{MaxTPM: 1000}},
			"organisation": {Models: []string{"*"}, Quota: ratelimit.ModelQuota{MaxRPD: 10_000}},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	return rl
}

func ExampleRateLimiter_SetPool() {
	rl := pooled()
	defer rl.Close()

	rl.SetPool("openai", ratelimit.Pool{Models: []string{"gpt-*"}, Quota: ratelimit.ModelQuota{MaxTPM: 5000}})
	d := rl.Decide("gpt-4o", 6000)
	fmt.Println(d.Pool, d.Never, d.Reason)
	// Output: openai true the pool "openai": the request alone exceeds the tokens per minute
}

func ExampleRateLimiter_RemovePool() {
	rl := pooled()
	defer rl.Close()

	fmt.Println(rl.CanSend("gpt-4o", 2000))
	rl.RemovePool("openai")
	fmt.Println(rl.CanSend("gpt-4o", 2000))
	// Output:
	// false
	// true
}

func ExampleRateLimiter_Pool() {
	rl := pooled()
	defer rl.Close()

	pool, ok := rl.Pool("openai")
	fmt.Println(pool.Models, pool.Quota.MaxTPM, ok)
	// Output: [gpt-* o3] 1000 true
}

func ExampleRateLimiter_Pools() {
	rl := pooled()
	defer rl.Close()

	for name := range rl.Pools() {
		fmt.Println(name)
	}
	// Output:
	// openai
	// organisation
}

func ExampleRateLimiter_IterPools() {
	rl := pooled()
	defer rl.Close()

	rl.RecordUsage("gpt-4o", 300, 100)
	rl.RecordUsage("claude", 500, 50)
	for name, s := range rl.IterPools() {
		fmt.Printf("%s: %d calls, %d tokens\n", name, s.RPM, s.TPM)
	}
	// Output:
	// openai: 1 calls, 400 tokens
	// organisation: 2 calls, 950 tokens
}

// What is used of a pool, for a dashboard. Explain has the same for each pool of a model.
func ExampleRateLimiter_ExplainPool() {
	rl := pooled()
	defer rl.Close()

	rl.RecordUsage("gpt-4o", 600, 100)
	is, _ := rl.ExplainPool("openai")
	for _, l := range is.Limits {
		if l.Max > 0 {
			fmt.Printf("%s %s: %d of %d, %d left, set by the %s\n", is.Pool, l.Limit, l.Used, l.Max, l.Left, l.Origin)
		}
	}
	// Output: openai max_tpm: 700 of 1000, 300 left, set by the program
}

func ExampleRateLimiter_PoolsOf() {
	rl := pooled()
	defer rl.Close()

	fmt.Println(rl.PoolsOf("gpt-4o"))
	fmt.Println(rl.PoolsOf("claude"))
	// Output:
	// [openai organisation]
	// [organisation]
}

func ExampleRateLimiter_PoolStats() {
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{
		FilePath:  filepath.Join(tempDir(), "ratelimits.yaml"),
		Providers: []ratelimit.Provider{ratelimit.ProviderAnthropic},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rl.Close()

	// The models of a group of the profile share a bucket at the provider.
	rl.RecordUsage("claude-opus-4-5", 1000, 200)
	rl.RecordUsage("claude-opus-4-6", 2000, 300)
	for _, pool := range rl.PoolsOf("claude-opus-4-5") {
		s := rl.PoolStats(pool)
		fmt.Println(pool, s.RPM, s.ITPM, s.OTPM)
	}
	// Output: anthropic/opus-4 2 3000 500
}

// spender is a limiter whose model "m" costs a dollar for a million input tokens and five for a
// million output tokens, and may spend ten dollars a day.
func spender() *ratelimit.RateLimiter {
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{
		FilePath: filepath.Join(tempDir(), "ratelimits.yaml"),
		Prices:   map[string]money.Price{"m": {Input: money.USD(1), CachedInput: money.USD(0.10), Output: money.USD(5)}},
		Quotas:   map[string]ratelimit.ModelQuota{"m": {MaxSpendPerDay: money.USD(10)}},
	})
	if err != nil {
		log.Fatal(err)
	}
	return rl
}

// A budget is a limit of the quota. It counts the most that a call can cost, until the call is
// settled.
func ExampleModelQuota_budget() {
	rl := spender()

	reservation, _ := rl.Reserve("m", 1_000_000, 1_500_000)
	fmt.Println("open:", rl.Stats("m").SpendDay)
	_, d := rl.Reserve("m", 1_000_000, 500_000)
	fmt.Println(d.Code, "until the day ends:", d.RetryAfter > 0)

	reservation.Commit(1_000_000, 200_000)
	fmt.Println("settled:", rl.Stats("m").SpendDay)
	// Output:
	// open: $8.50
	// spend_exceeded until the day ends: true
	// settled: $2.00
}

// Prices and budgets may come from a file. Amounts are dollars, prices for a million tokens.
func ExampleReadConfig_budget() {
	cfg, err := ratelimit.ReadConfig(strings.NewReader(`
prices:
  gpt-4o: {input: 2.50, cached_input: 1.25, output: $10}
quotas:
  gpt-4o: {max_rpm: 500, max_spend_per_day: $20}
pools:
  everything: {models: ["*"], quota: {max_spend_per_month: $500, day_zone: Europe/Berlin}}
`))
	if err != nil {
		log.Fatal(err)
	}
	cfg.FilePath = filepath.Join(tempDir(), "ratelimits.yaml")
	rl, err := ratelimit.NewWithConfig(cfg)
	if err != nil {
		log.Fatal(err)
	}

	rl.RecordUsage("gpt-4o", 100_000, 10_000)
	s := rl.Stats("gpt-4o")
	fmt.Println(s.SpendDay, "of", s.MaxSpendPerDay)
	s = rl.PoolStats("everything")
	fmt.Println(s.SpendMonth, "of", s.MaxSpendPerMonth)
	// Output:
	// $0.35 of $20.00
	// $0.35 of $500.00
}

// A call that read most of its prompt from a cache costs less than its tokens.
func ExampleReservation_CommitUsage() {
	rl := spender()

	reservation, d := rl.Reserve("m", 100_000, 10_000)
	if !d.Allowed {
		log.Fatal(d.Reason)
	}
	reservation.CommitUsage(100_000, 2_000, money.Usage{Input: 10_000, CachedInput: 90_000, Output: 2_000})
	fmt.Println(rl.Stats("m").SpendDay)
	// Output: $0.029
}

// Calls that were not reserved are recorded with what they cost.
func ExampleRateLimiter_RecordSpend() {
	rl := spender()

	rl.RecordSpend("m", 100_000, 2_000, money.Usage{Input: 10_000, CachedInput: 90_000, Output: 2_000})
	fmt.Println(rl.Stats("m").SpendDay)
	// Output: $0.029
}

// Prices may come, or change, later. A model without one is not called inside a budget.
func ExampleRateLimiter_SetPrice() {
	rl := spender()

	rl.SetQuota("new", ratelimit.ModelQuota{MaxSpendPerDay: money.USD(1)})
	fmt.Println(rl.Decide("new", 100).Code)
	if err := rl.SetPrice("new", money.Price{Input: money.USD(2), Output: money.USD(8)}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(rl.Decide("new", 100).Code)
	// Output:
	// unpriced
	// ok
}

// The price of a model is found by its name, or by a pattern.
func ExampleRateLimiter_PriceOf() {
	rl := spender()

	price, ok := rl.PriceOf("m")
	fmt.Println(price.Cost(money.Usage{Input: 1000, Output: 100}), ok)
	// Output: $0.0015 true
}

// The audit says what became of every call.
func ExampleRateLimiter_Audit() {
	rl := spender()

	first, _ := rl.Reserve("m", 100_000, 10_000)
	second, _ := rl.Reserve("m", 100_000, 10_000)
	third, _ := rl.Reserve("m", 100_000, 10_000)
	first.Commit(100_000, 4_000)
	second.Cancel()

	a := rl.Audit().Models["m"]
	fmt.Println("reserved", a.Reserved.Money, "in", a.Reserved.Calls, "calls")
	fmt.Println("settled", a.Settled.Money, "of", a.Estimated.Money)
	fmt.Println("released", a.Released.Money, "and open", a.Open.Money)
	third.Cancel()
	// Output:
	// reserved $0.45 in 3 calls
	// settled $0.12 of $0.15
	// released $0.15 and open $0.15
}

// The policy for models without a price is text, as in a configuration file.
func ExampleUnpricedPolicy() {
	var policy ratelimit.UnpricedPolicy
	if err := policy.UnmarshalText([]byte("free")); err != nil {
		log.Fatal(err)
	}
	fmt.Println(policy, policy == ratelimit.UnpricedFree)
	// Output: free true
}

// classLimiter is a limiter with two classes of calls.
func classLimiter(quota ratelimit.ModelQuota) *ratelimit.RateLimiter {
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{
		FilePath: filepath.Join(tempDir(), "ratelimits.yaml"),
		Quotas:   map[string]ratelimit.ModelQuota{"gpt-4o": quota, "gpt-4o-mini": quota},
		Classes: map[string]ratelimit.Class{
			"interactive": {Ahead: true, ReservePercent: 20},
			"batch":       {},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	return rl
}

// A person goes before the batch that came first.
func ExampleWithClass() {
	rl := classLimiter(ratelimit.ModelQuota{MaxInFlight: 1})
	first, _ := rl.Reserve("gpt-4o", 100, 50)
	order := make(chan string)
	wait := func(ctx context.Context, name string) {
		waiting := rl.Stats("gpt-4o").Waiting
		go func() {
			reservation, err := rl.Acquire(ctx, "gpt-4o", 100, 50)
			if err != nil {
				log.Fatal(err)
			}
			order <- name
			reservation.Commit(100, 20)
		}()
		for rl.Stats("gpt-4o").Waiting == waiting {
			time.Sleep(time.Millisecond)
		}
	}
	ctx := context.Background()
	wait(ratelimit.WithClass(ctx, "batch"), "batch")
	wait(ratelimit.WithClass(ctx, "interactive"), "a person")
	first.Commit(100, 20)
	fmt.Println(<-order)
	fmt.Println(<-order)
	// Output:
	// a person
	// batch
}

// Tenants take turns: the one call of the second is served before the other calls of the first.
func ExampleWithFlow() {
	rl := classLimiter(ratelimit.ModelQuota{MaxInFlight: 1})
	first, _ := rl.Reserve("gpt-4o", 100, 50)
	order := make(chan string)
	for i, tenant := range []string{"tenant 1", "tenant 1", "tenant 1", "tenant 2"} {
		ctx := ratelimit.WithFlow(context.Background(), tenant)
		go func() {
			reservation, err := rl.Acquire(ctx, "gpt-4o", 100, 50)
			if err != nil {
				log.Fatal(err)
			}
			order <- tenant
			reservation.Commit(100, 20)
		}()
		for rl.Stats("gpt-4o").Waiting == i {
			time.Sleep(time.Millisecond)
		}
	}
	first.Commit(100, 20)
	for range 4 {
		fmt.Println(<-order)
	}
	// Output:
	// tenant 1
	// tenant 2
	// tenant 1
	// tenant 1
}

// A class keeps a share of the quota free for itself while it is active.
func ExampleClass() {
	rl := classLimiter(ratelimit.ModelQuota{MaxRPM: 10})
	rl.ReserveAny(ratelimit.Request{Model: "gpt-4o", Class: "interactive"}) // there is a person
	admitted := 0
	for {
		reservation, _ := rl.ReserveAny(ratelimit.Request{Model: "gpt-4o", Class: "batch"})
		if reservation == nil {
			break
		}
		defer reservation.Cancel()
		admitted++
	}
	_, d := rl.ReserveAny(ratelimit.Request{Model: "gpt-4o", Class: "interactive"})
	fmt.Println(admitted, d.Allowed)
	// Output: 8 true
}

// The classes in force are those of Config.Classes, or of the last SetClasses.
func ExampleRateLimiter_Classes() {
	rl := classLimiter(ratelimit.ModelQuota{MaxRPM: 10})
	fmt.Println(rl.Classes()["interactive"].ReservePercent, "%")
	// Output: 20 %
}

// Classes may change while calls wait.
func ExampleRateLimiter_SetClasses() {
	rl := classLimiter(ratelimit.ModelQuota{MaxRPM: 10})
	classes := rl.Classes()
	classes["reports"] = ratelimit.Class{Weight: 3, MaxQueue: 100}
	rl.SetClasses(classes)
	fmt.Println(slices.Sorted(maps.Keys(rl.Classes())))
	// Output: [batch interactive reports]
}

// A call takes the first of several models that has room, and waits for any of them.
func ExampleRateLimiter_AcquireAny() {
	rl := classLimiter(ratelimit.ModelQuota{MaxInFlight: 1})
	candidates := []ratelimit.Request{
		{Model: "gpt-4o", PromptTokens: 400, OutputTokens: 100},
		{Model: "gpt-4o-mini", PromptTokens: 400, OutputTokens: 100},
	}
	for range 2 {
		reservation, err := rl.AcquireAny(context.Background(), ratelimit.AnyOptions{}, candidates...)
		if err != nil {
			log.Fatal(err)
		}
		defer reservation.Commit(400, 20)
		fmt.Println(reservation.Model())
	}
	// Output:
	// gpt-4o
	// gpt-4o-mini
}

// With patience a call waits for the model that it prefers for so long, before it takes another.
func ExampleAnyOptions() {
	rl := classLimiter(ratelimit.ModelQuota{MaxInFlight: 1})
	candidates := []ratelimit.Request{{Model: "gpt-4o"}, {Model: "gpt-4o-mini"}}
	first, _ := rl.Reserve("gpt-4o", 400, 100)
	go func() {
		for rl.Stats("gpt-4o").Waiting == 0 {
			time.Sleep(time.Millisecond)
		}
		first.Commit(400, 20)
	}()
	for _, patience := range []time.Duration{time.Hour, time.Millisecond} {
		reservation, err := rl.AcquireAny(context.Background(), ratelimit.AnyOptions{Patience: patience}, candidates...)
		if err != nil {
			log.Fatal(err)
		}
		defer reservation.Commit(1, 1)
		fmt.Println(reservation.Model())
	}
	// Output:
	// gpt-4o
	// gpt-4o-mini
}

// The same without waiting.
func ExampleRateLimiter_ReserveAny() {
	rl := classLimiter(ratelimit.ModelQuota{MaxRPM: 1})
	candidates := []ratelimit.Request{{Model: "gpt-4o"}, {Model: "gpt-4o-mini"}}
	for range 3 {
		reservation, d := rl.ReserveAny(candidates...)
		if reservation == nil {
			fmt.Println(d.Code)
			break
		}
		reservation.Commit(1, 1)
		fmt.Println(reservation.Model())
	}
	// Output:
	// gpt-4o
	// gpt-4o-mini
	// rpm_exceeded
}

// Nobody says how much a shared pool allows. The search begins at twice the floors: a refusal
// lowers the rate, overload the calls in flight. An llmhttp.Transport reports both by itself.
func ExampleModelQuota_adaptive() {
	rl := limiterFor("pool/llama-4", ratelimit.ModelQuota{
		AdaptiveFloorRPM: 30, AdaptiveCeilingRPM: 6000,
		AdaptiveFloorInFlight: 2, AdaptiveCeilingInFlight: 64,
	})
	show := func(when string) {
		s := rl.Stats("pool/llama-4")
		fmt.Printf("%s: %d a minute, %d in flight\n", when, s.AdaptiveRPM, s.AdaptiveInFlight)
	}
	reservation, d := rl.Reserve("pool/llama-4", 400, 500)
	sent := time.Now()
	show("at the beginning")

	refused := func(status int, problem string) {
		rl.ObserveRefusal(context.Background(), ratelimit.ProviderRefusal{
			Model: "pool/llama-4", Status: status, Problem: problem, SentAt: sent,
		})
	}
	refused(400, "other") // the request is wrong, which tells nothing of limits
	show("after a 400")
	refused(429, "rate_limited")
	show("after a 429")
	refused(529, "overloaded")
	show("after a 529")
	refused(529, "overloaded") // of the same event: the call was sent before
	show("after another")

	reservation.Cancel()
	fmt.Println(d.Allowed, rl.Stats("pool/llama-4").MaxInFlight)
	// Output:
	// at the beginning: 60 a minute, 4 in flight
	// after a 400: 60 a minute, 4 in flight
	// after a 429: 57 a minute, 4 in flight
	// after a 529: 57 a minute, 3 in flight
	// after another: 57 a minute, 3 in flight
	// true 0
}

// Explain says between which limits the search is, and where the provider last refused.
func ExampleRateLimiter_Explain_adaptive() {
	rl := limiterFor("pool/llama-4", ratelimit.ModelQuota{
		MaxTPM: 900_000, AdaptiveFloorRPM: 30, AdaptiveCeilingRPM: 6000,
	})
	rl.ObserveRefusal(context.Background(), ratelimit.ProviderRefusal{Model: "pool/llama-4", Problem: "rate_limited"})

	e := rl.Explain("pool/llama-4")
	found, _, _ := strings.Cut(e.String(), "; ")
	fmt.Println(found)
	fmt.Println(e.Found.RPM, e.Found.RefusedRPM, e.Found.RateLoweredAt.IsZero())
	// Output:
	// "pool/llama-4" does not wait: within the quota
	//   quota: its own, set by the program
	//   tokens per minute: 0 of 900000 used
	//   found: 57 requests per minute, evenly spaced, between 30 and 6000
	// 57 60 false
}

// Gemini limits what a project spends in any ten minutes. The limit comes with its profile, and
// holds if the program asks for it.
func ExampleProfile_pools() {
	gemini, err := ratelimit.Profile(ratelimit.ProviderGemini, "1")
	if err != nil {
		fmt.Println(err)
		return
	}
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{
		Providers: []ratelimit.Provider{ratelimit.ProviderGemini},
		Pools:     gemini.Pools,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rl.Close()
	rl.RecordUsage("gemini-2.5-flash", 0, 4_000_000) // $2.50 for a million output tokens
	d := rl.Decide("gemini-2.5-flash", 1000)
	fmt.Println(d.Code, "of the pool", d.Pool, "at", rl.PoolStats(d.Pool).SpendTenMinutes)
	// Output: spend_exceeded of the pool gemini/spend at $10.00
}
