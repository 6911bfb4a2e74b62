package ratelimit_test

import (
	"fmt"
	"path/filepath"

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

func ExampleRateLimiter_SetPool() {
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{
		FilePath: filepath.Join(tempDir(), "ratelimits.yaml"),
		Quotas:   map[string]ratelimit.ModelQuota{"gpt-4o": {MaxRPM: 500}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rl.Close()

	rl.SetPool("openai", ratelimit.Pool{Models: []string{"gpt-*", "o3"}, Quota: ratelimit.ModelQuota{MaxTPM: 1000}})
	pool, _ := rl.Pool("openai")
	fmt.Println(rl.PoolsOf("gpt-4o"), rl.PoolsOf("claude"), pool.Quota.MaxTPM)

	d := rl.Decide("gpt-4o", 2000)
	fmt.Println(d.Pool, d.Never, d.Reason)

	rl.RemovePool("openai")
	fmt.Println(rl.CanSend("gpt-4o", 2000))
	// Output:
	// [openai] [] 1000
	// openai true the pool "openai": the request alone exceeds the tokens per minute
	// true
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

// What is used of a pool, and of the money that its models may cost.
func ExampleRateLimiter_ExplainPool() {
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{
		FilePath: filepath.Join(tempDir(), "ratelimits.yaml"),
		Quotas:   map[string]ratelimit.ModelQuota{"small": {}, "large": {}},
		Pools: map[string]ratelimit.Pool{
			"team": {Models: []string{"*"}, Quota: ratelimit.ModelQuota{MaxRPM: 10, MaxSpendPerDay: money.USD(5)}},
		},
		Prices: map[string]money.Price{"*": {Input: money.USD(2)}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rl.Close()
	rl.RecordUsage("small", 400_000, 0)
	rl.RecordUsage("large", 100_000, 0)

	team, _ := rl.ExplainPool("team")
	for _, l := range team.Limits {
		fmt.Println(l.Limit, l.Used, "of", l.Max)
	}
	for _, b := range team.Budgets {
		fmt.Println(b.Limit, b.Spent, "of", b.Max)
	}
	// Output:
	// max_rpm 2 of 10
	// max_spend_per_day $1.00 of $5.00
	// max_spend_per_month $1.00 of $0.00
}
