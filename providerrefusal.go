package ratelimit

import (
	"context"
	"slices"
	"time"
)

// ProviderRefusal is a refusal by the provider of a call that was sent: see
// [RateLimiter.ObserveRefusal].
type ProviderRefusal struct {
	// Model is the model of the call, as in Reserve.
	Model string
	// Status is the HTTP status of the refusal; zero where it is not known.
	Status int
	// Problem is "rate_limited" for a limit that refills soon, "daily_quota" for a used-up quota of
	// the day, "exhausted" for used-up money or a used-up plan, and "overloaded" for an overloaded
	// provider. Anything else counts as "other".
	Problem string
	// RetryAfter is the time that the provider asks to wait; zero or less for none.
	RetryAfter time.Duration
}

// ObserveRefusal reports a provider's refusal to Config.Events, as EventProviderRefused, with ctx
// and the ID that it carries. It changes no quota and begins no cooldown: see Observe and
// CooldownFor. Call it once for each refusal. An llmhttp.Transport does so.
//
// MatchVersions and Aliases apply. It is safe for concurrent use.
func (rl *RateLimiter) ObserveRefusal(ctx context.Context, r ProviderRefusal) {
	if !slices.Contains(problems, r.Problem) {
		r.Problem = otherProblem
	}
	r.RetryAfter = max(r.RetryAfter, 0)
	by := callerOf(ctx)
	rl.teller.refusedByProvider(&by, &r)
}

// problems are the values of ProviderRefusal.Problem.
var problems = []string{string(CauseRateLimited), string(CauseDailyQuota), string(CauseOverloaded), "exhausted"}

const otherProblem = "other"
