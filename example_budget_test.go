// Examples: prices and budgets.

package ratelimit_test

import (
	"fmt"
	"log"
	"path/filepath"
	"strings"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/money"
)

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
