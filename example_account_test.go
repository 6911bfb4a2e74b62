// Examples: the account's own limits, and quotas that are taken back.

package ratelimit_test

import (
	"fmt"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// The program's quota wins over the account's limits, which apply where it leaves one open.
func ExampleRateLimiter_SetAccountQuotas() {
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{
		Providers: []ratelimit.Provider{ratelimit.ProviderOpenAI},
		Quotas:    map[string]ratelimit.ModelQuota{"gpt-4o": {MaxRPM: 100}},
	})
	if err != nil {
		panic(err)
	}
	rl.SetAccountQuotas(map[string]ratelimit.ModelQuota{ // accountlimits.Sync does this
		"gpt-4o":      {MaxRPM: 5_000, MaxTPM: 800_000},
		"gpt-4o-mini": {MaxRPM: 5_000, MaxTPM: 4_000_000},
	})
	for _, model := range []string{"gpt-4o", "gpt-4o-mini"} {
		_, quota, _ := rl.QuotaFor(model)
		fmt.Println(model, quota.MaxRPM, quota.MaxTPM)
	}
	// Output:
	// gpt-4o 100 800000
	// gpt-4o-mini 5000 4000000
}

// A quota that is taken back gives way to what others say of the model.
func ExampleRateLimiter_RemoveQuota() {
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{
		Quotas: map[string]ratelimit.ModelQuota{"*": {MaxRPM: 60}},
	})
	if err != nil {
		panic(err)
	}
	rl.SetQuota("gpt-4o", ratelimit.ModelQuota{MaxRPM: 500})
	name, quota, _ := rl.QuotaFor("gpt-4o")
	fmt.Println(name, quota.MaxRPM)
	rl.RemoveQuota("gpt-4o")
	name, quota, _ = rl.QuotaFor("gpt-4o")
	fmt.Println(name, quota.MaxRPM)
	// Output:
	// gpt-4o 500
	// * 60
}

// What a provider reported is forgotten, and the quota before it applies again.
func ExampleRateLimiter_ForgetLearned() {
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{
		LearnQuotas: true,
		Quotas:      map[string]ratelimit.ModelQuota{"gpt-4o": {MaxRPM: 500}},
	})
	if err != nil {
		panic(err)
	}
	rl.Observe("gpt-4o", ratelimit.ProviderLimits{RPM: ratelimit.ProviderLimit{Limit: 60}})
	fmt.Println(rl.Stats("gpt-4o").MaxRPM)
	rl.ForgetLearned("gpt-4o")
	fmt.Println(rl.Stats("gpt-4o").MaxRPM)
	// Output:
	// 60
	// 500
}
