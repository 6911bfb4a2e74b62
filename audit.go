package ratelimit

import "dappco.re/go/core/go-ratelimit/money"

// Audit is what has become of all calls of a limiter since it was made: see RateLimiter.Audit.
type Audit struct {
	Models  map[string]AuditEntry `json:"models"`            // by the names under which they are counted
	Pools   map[string]AuditEntry `json:"pools,omitempty"`   // by their names
	Classes map[string]AuditEntry `json:"classes,omitempty"` // "" is that of the calls without a class
}

// AuditEntry is the calls of a model, a pool or a class. At any instant, in each field of AuditSum
// and as long as no sum has reached the largest number,
//
//	Reserved = Estimated + Released + Expired + Open
//
// where all of them are estimates, the money being the most that a call can cost. Settled is what
// the calls of Estimated used: no estimate, so it may be more or less.
type AuditEntry struct {
	Reserved  AuditSum `json:"reserved"`  // reservations that were made
	Estimated AuditSum `json:"estimated"` // those that Commit and CommitUsage have settled, at their estimates
	Settled   AuditSum `json:"settled"`   // the same, at what they used
	Released  AuditSum `json:"released"`  // those that Cancel has given back
	Expired   AuditSum `json:"expired"`   // those that the program never settled, which stay charged
	Open      AuditSum `json:"open"`      // those that are open
	Recorded  AuditSum `json:"recorded"`  // RecordUsage and RecordSpend, which reserve nothing
}

// AuditSum is a number of calls, and the sums of their tokens and money. Each stops at the largest
// number of its type.
type AuditSum struct {
	Calls        int          `json:"calls"`
	InputTokens  int          `json:"input_tokens"`
	OutputTokens int          `json:"output_tokens"`
	Money        money.Amount `json:"money"`
}

// Audit returns what has become of all calls of this limiter since it was made, as sums that are
// never off: a budget that leaks shows as spend that differs from them, a call that is never
// settled as one that stays in Open. What other processes do, with Config.Shared or Config.Store, is
// not in it; neither Load nor Reset change it. A call counts once by model, once for each of its
// pools, and once by class.
//
// At most Config.MaxModels models without a quota of their own have an entry; further ones are
// added up under "other". Audit is safe for concurrent use.
func (rl *RateLimiter) Audit() Audit {
	return Audit{Models: make(map[string]AuditEntry)}
}
