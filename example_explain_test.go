package ratelimit_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit"
)

// The provider said that the day is used up: all callers learn it.
func ExampleRateLimiter_CooldownFor() {
	rl := limiterFor("gemini-2.5-pro", ratelimit.ModelQuota{MaxRPM: 5})
	rl.CooldownFor("gemini-2.5-pro", 8*time.Hour, ratelimit.CauseDailyQuota)

	d := rl.Decide("gemini-2.5-pro", 100)
	fmt.Println(d.Code, d.Cause, d.RetryAfter.Round(time.Hour))
	fmt.Println(d.Reason)
	// Output:
	// cooldown daily_quota 8h0m0s
	// the model is in a cooldown: the provider said that the day's quota is used up
}

// Explain says in lines for a person why a model waits.
func ExampleRateLimiter_Explain() {
	rl := limiterFor("gpt-4o", ratelimit.ModelQuota{MaxRPM: 500, MaxTPM: 20_000, MaxInFlight: 8})
	rl.Reserve("gpt-4o", 16_000, 852)
	rl.Observe("gpt-4o", ratelimit.ProviderLimits{
		TPM: ratelimit.ProviderLimit{Limit: 20_000, Remaining: 0, HasRemaining: true},
	})

	e := rl.Explain("gpt-4o")
	lines := strings.Split(e.String(), "\n")
	fmt.Println(strings.Join(lines[:4], "\n"))
	tpm := e.Limits[2]
	fmt.Println(tpm.Limit, tpm.Used, "+", tpm.External, "of", tpm.Max, "left", tpm.Left)
	// Output:
	// "gpt-4o" waits: the provider reports fewer tokens per minute left
	//   quota: its own, set by the program
	//   calls in flight: 1 of 8 used
	//   requests per minute: 1 of 500 used
	// max_tpm 16852 + 3148 of 20000 left 0
}

// Inside Do the call tells when the provider got the request.
func ExampleReservationFrom() {
	rl := limiterFor("gpt-4o", ratelimit.ModelQuota{MaxRPM: 10})
	estimate := ratelimit.Request{Model: "gpt-4o", PromptTokens: 400, OutputTokens: 500}
	err := rl.Do(context.Background(), estimate, func(ctx context.Context) (ratelimit.Usage, error) {
		promptTokens, outputTokens := call("…")
		ratelimit.ReservationFrom(ctx).Arrived(time.Now())
		return ratelimit.Usage{PromptTokens: promptTokens, OutputTokens: outputTokens}, nil
	})
	fmt.Println(err, rl.Stats("gpt-4o").RPM)
	// Output: <nil> 1
}

// Quotas and decisions have the keys of the YAML file, and durations with their unit.
func ExampleModelQuota_MarshalJSON() {
	var quota ratelimit.ModelQuota
	if err := json.Unmarshal([]byte(`{"max_rpm": 60, "burst": "10s"}`), &quota); err != nil {
		fmt.Println(err)
	}
	fmt.Println(quota.MaxRPM, quota.Burst)

	text, err := json.Marshal(quota)
	fmt.Println(string(text), err)
	// Output:
	// 60 10s
	// {"max_rpm":60,"burst":"10s"} <nil>
}
