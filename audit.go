package ratelimit

import (
	"math"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/tally"
	"dappco.re/go/core/go-ratelimit/money"
)

// Audit is what has become of all calls of a limiter since it was made: see RateLimiter.Audit.
type Audit struct {
	Models  map[string]AuditEntry `json:"models"`            // by the names under which they are counted
	Pools   map[string]AuditEntry `json:"pools,omitempty"`   // by their names
	Classes map[string]AuditEntry `json:"classes,omitempty"` // those in Config.Classes; "" has the other calls
}

// AuditEntry sums up the calls of a model, a pool or a class. At any instant, in each field of
// AuditSum and as long as no sum has reached the largest number,
//
//	Reserved = Estimated + Released + Expired + Open
//
// where all of them are estimates; their money is the most that a call can cost. Settled is what
// the calls of Estimated really used, which may be more or less.
type AuditEntry struct {
	Reserved  AuditSum `json:"reserved"`  // reservations that were made
	Estimated AuditSum `json:"estimated"` // those that Commit and CommitUsage settled, at their estimates
	Settled   AuditSum `json:"settled"`   // the same, at what they used
	Released  AuditSum `json:"released"`  // those that Cancel gave back
	// Expired are those that Config.HoldTTL or, where calls in flight are limited, the garbage
	// collector has ended. They stay charged.
	Expired  AuditSum `json:"expired"`
	Open     AuditSum `json:"open"`     // the rest
	Recorded AuditSum `json:"recorded"` // RecordUsage and RecordSpend, which reserve nothing
}

// AuditSum is a number of calls, and the sums of their tokens and money. Each stops at the largest
// number of its type.
type AuditSum struct {
	Calls        int          `json:"calls"`
	InputTokens  int          `json:"input_tokens"`
	OutputTokens int          `json:"output_tokens"`
	Money        money.Amount `json:"money"`
}

// Audit returns what has become of all calls of this limiter since it was made. It needs no option
// and cannot be turned off. A budget that leaks shows as spend that differs from these sums, a call
// that is never settled as one that stays in Open. What other processes do, with Config.Shared or
// Config.Store, is not in it; neither Load nor Reset changes it. A call counts once by model, once
// for each of its pools, and once by class.
//
// At most Config.MaxModels models without a quota of their own have an entry; further ones are
// added up under "other". A call that is not counted, because its model has no limit and no place
// there, is in Audit only if it is in a pool. Audit is safe for concurrent use.
func (rl *RateLimiter) Audit() Audit {
	rl.mu.RLock()
	defer rl.mu.RUnlock()
	a := Audit{Models: make(map[string]AuditEntry), Pools: make(map[string]AuditEntry), Classes: make(map[string]AuditEntry)}
	var all, classed tally.Sums
	for name, is := range rl.ledger.Models {
		if pool, ok := state.PoolOf(name); ok {
			a.Pools[pool] = auditEntryOf(is)
			continue
		}
		a.Models[name] = auditEntryOf(is)
		all.Plus(is)
	}
	for class, is := range rl.ledger.Classes {
		a.Classes[class] = auditEntryOf(is)
		classed.Plus(is)
	}
	all.Less(&classed)
	a.Classes[""] = auditEntryOf(&all)
	return a
}

func auditSumOf(s tally.Sum) AuditSum {
	fit := func(n int64) int { return int(min(max(n, math.MinInt), math.MaxInt)) }
	return AuditSum{Calls: fit(s.Calls), InputTokens: fit(s.Input), OutputTokens: fit(s.Output), Money: s.Money}
}

func auditEntryOf(a *tally.Sums) AuditEntry {
	return AuditEntry{
		Reserved: auditSumOf(a.Reserved), Estimated: auditSumOf(a.Estimated), Settled: auditSumOf(a.Settled),
		Released: auditSumOf(a.Released), Expired: auditSumOf(a.Expired), Open: auditSumOf(a.Open()), Recorded: auditSumOf(a.Recorded),
	}
}

// audited is what the ledger of a limiter sees of that, with its lock held.
type audited struct{ *RateLimiter }

// HasRoom implements tally.Host.
func (rl audited) HasRoom(name string) bool {
	return len(rl.ledger.Models) < rl.mostModels()+len(rl.Quotas) || state.IsPool(name) || rl.engine.Catalog.IsListed(name)
}

// Noted implements tally.Host.
func (rl audited) Noted(a *account.Account) *tally.Noted { return &rl.localLocked(a).noted }
