package ratelimit_test

import (
	"fmt"
	"log"
	"path/filepath"

	ratelimit "dappco.re/go/core/go-ratelimit"
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
