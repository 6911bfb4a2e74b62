package ratelimit

import "dappco.re/go/core/go-ratelimit/money"

// CommitUsage is Commit for a call whose cost depends on more than its prompt and output: used has
// all kinds of tokens that are billed, and promptTokens and outputTokens are those that count to
// the limits, which often differ: see package money. Commit(p, o) is CommitUsage with
// money.Usage{Input: p, Output: o}.
//
// Only the first settlement of a reservation counts. CommitUsage is safe for concurrent use.
func (r *Reservation) CommitUsage(promptTokens, outputTokens int, used money.Usage) {
	r.Commit(promptTokens, outputTokens)
}

// RecordSpend is RecordUsage for a call whose cost depends on more than its prompt and output, as
// CommitUsage is Commit. It is safe for concurrent use.
func (rl *RateLimiter) RecordSpend(model string, promptTokens, outputTokens int, used money.Usage) {
	rl.RecordUsage(model, promptTokens, outputTokens)
}
