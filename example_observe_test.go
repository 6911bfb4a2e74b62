// Example: what a provider says of its limits.

package ratelimit_test

import (
	"fmt"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// A provider tells with each answer what is left. Here others use the same key.
func ExampleRateLimiter_Observe() {
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{
		LearnQuotas: true,
		Quotas:      map[string]ratelimit.ModelQuota{"gpt-4o": {MaxRPM: 500, MaxTPM: 30_000}},
	})
	if err != nil {
		panic(err)
	}
	rl.RecordUsage("gpt-4o", 900, 100)
	rl.Observe("gpt-4o", ratelimit.ProviderLimits{
		RPM: ratelimit.ProviderLimit{Limit: 60, Remaining: 40, HasRemaining: true},
		TPM: ratelimit.ProviderLimit{Limit: 150_000, Remaining: 2_000, HasRemaining: true},
	})
	_, quota, _ := rl.QuotaFor("gpt-4o")
	fmt.Println(quota.MaxRPM, "requests,", quota.MaxTPM, "tokens per minute")
	fmt.Println(rl.Decide("gpt-4o", 3_000).Reason)
	fmt.Println(rl.CanSend("gpt-4o", 2_000))
	// Output:
	// 60 requests, 30000 tokens per minute
	// the provider reports fewer tokens per minute left
	// true
}
