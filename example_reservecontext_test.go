// Examples: what a client of its own tells Config.Events.

package ratelimit_test

import (
	"context"
	"fmt"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// exampleTraceKey is the key of a trace's name in a context.
type exampleTraceKey struct{}

// traced prints the events of calls, each with the trace that its context belongs to.
type traced struct{}

func (traced) HandleEvent(ctx context.Context, e *ratelimit.Event) {
	fmt.Println(ctx.Value(exampleTraceKey{}), e.Kind, e.Model, e.Settled.PromptTokens+e.Settled.OutputTokens)
}

// The events of a reservation have the context with which it was made, also when it is settled.
func ExampleRateLimiter_ReserveContext() {
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{
		Events: traced{},
		Quotas: map[string]ratelimit.ModelQuota{"gpt-4o": {MaxTPM: 30_000}, "team": {MaxTPM: 100_000}},
	})
	if err != nil {
		panic(err)
	}
	ctx := context.WithValue(context.Background(), exampleTraceKey{}, "trace 7:")
	rs, d := rl.ReserveContext(ctx,
		ratelimit.Request{Model: "gpt-4o", PromptTokens: 900, OutputTokens: 100},
		ratelimit.Request{Model: "team", PromptTokens: 900, OutputTokens: 100})
	if !d.Allowed {
		fmt.Println(d.Reason)
		return
	}
	for _, r := range rs {
		r.Commit(850, 40)
	}
	// Output:
	// trace 7: admitted gpt-4o 0
	// trace 7: admitted team 0
	// trace 7: settled gpt-4o 890
	// trace 7: settled team 890
}

// refusals prints what providers refused.
type refusals struct{}

func (refusals) HandleEvent(_ context.Context, e *ratelimit.Event) {
	if e.Kind == ratelimit.EventProviderRefused {
		fmt.Println(e.Model, "answered", e.Status, e.Problem, "again in", e.RetryAfter)
	}
}

// A client that calls the provider itself says what the provider refused.
func ExampleRateLimiter_ObserveRefusal() {
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{FilePath: tempDir() + "/state.yaml", Events: refusals{}})
	if err != nil {
		panic(err)
	}
	rl.ObserveRefusal(context.Background(), ratelimit.ProviderRefusal{
		Model: "gpt-4o", Status: 429, Problem: "rate_limited", RetryAfter: 2 * time.Second,
	})
	rl.CooldownFor("gpt-4o", 2*time.Second, ratelimit.CauseRateLimited)
	// Output:
	// gpt-4o answered 429 rate_limited again in 2s
}
