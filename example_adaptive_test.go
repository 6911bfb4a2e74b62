// Examples: limits that are found.

package ratelimit_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit"
)

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
