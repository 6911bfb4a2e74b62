package ratelimit

import (
	"math"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/tally"
	"dappco.re/go/core/go-ratelimit/internal/tokens"
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
	for name, is := range rl.audits.counted {
		if pool, ok := state.PoolOf(name); ok {
			a.Pools[pool] = auditEntryOf(is)
			continue
		}
		a.Models[name] = auditEntryOf(is)
		all.Plus(is)
	}
	for class, is := range rl.audits.classes {
		a.Classes[class] = auditEntryOf(is)
		classed.Plus(is)
	}
	all.Less(&classed)
	a.Classes[""] = auditEntryOf(&all)
	return a
}

// audits is what Audit adds up. RateLimiter.mu guards it.
type audits struct {
	counted tally.Book // by counted name
	classes tally.Book // but for the calls without a class, which are the rest

	estimates map[string]*tally.Estimates // by counted name, of those that have an entry of their own
}

// mostClasses bounds the classes of which sums are kept, however often SetClasses has others.
const mostClasses = 1000

// counted is what this process counts beside an account.
type counted struct {
	audit     *tally.Sums      // what Audit adds up; nil before the first charge
	estimates *tally.Estimates // against what the calls used; nil before the first

	provider   Provider // of the model, as of
	providedAt int      // this change of what tells it: see teller.providerLocked

	report              state.ReportedLimits // the last that was sent
	reports, reportedAt int64                // sent of late, in nanoseconds of their pace, at an instant: see shared.observeLocked
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

// auditNamedLocked returns the sums of a counted name.
func (rl *RateLimiter) auditNamedLocked(name string) *tally.Sums {
	room := len(rl.audits.counted) < rl.mostModels()+len(rl.Quotas) || state.IsPool(name) || rl.engine.Catalog.IsListed(name)
	return rl.audits.counted.Of(name, room)
}

// auditOfLocked returns the sums of an account.
func (rl *RateLimiter) auditOfLocked(a *account.Account) *tally.Sums {
	is := rl.localLocked(a)
	if is.audit == nil {
		is.audit = rl.auditNamedLocked(a.Name)
	}
	return is.audit
}

// estimatesOfLocked returns how the estimates of a model were. Those for which Audit has no entry
// have one in common.
func (rl *RateLimiter) estimatesOfLocked(a *account.Account) *tally.Estimates {
	is := rl.localLocked(a)
	if is.estimates == nil {
		is.estimates = rl.estimatesNamedLocked(a.Name)
	}
	return is.estimates
}

func (rl *RateLimiter) estimatesNamedLocked(name string) *tally.Estimates {
	if rl.audits.counted[name] == nil {
		name = tally.Other
	}
	e := rl.audits.estimates[name]
	if e == nil {
		e = new(tally.Estimates)
		if rl.audits.estimates == nil {
			rl.audits.estimates = make(map[string]*tally.Estimates)
		}
		rl.audits.estimates[name] = e
	}
	return e
}

// auditLocked adds a call up: for its model, for each of its pools, and for its class. The model of
// a call that only pools have counted had no place.
func (rl *RateLimiter) auditLocked(c *account.Call, add func(*tally.Sums)) {
	counts := false
	for i := range c.Charges {
		if a := c.Charges[i].Account(); a != nil {
			add(rl.auditOfLocked(a))
			counts = true
		}
	}
	if !counts {
		return
	}
	if c.Model == nil {
		add(rl.auditNamedLocked(tally.Other))
	}
	if c.Class != "" {
		add(rl.audits.classes.Of(c.Class, len(rl.audits.classes) < mostClasses))
	}
}

// auditReservedLocked adds up a call that was admitted. One of a class that is not in
// Config.Classes now is of none, also if it is there when the call ends.
func (rl *RateLimiter) auditReservedLocked(c *account.Call) {
	if c.Class != "" {
		c.Class = rl.knownClassRLocked(c.Class)
	}
	if a := c.Alone(); a != nil { // nearly each call
		rl.auditOfLocked(a).Reserved.Add(c.Tokens, c.Most)
		return
	}
	rl.auditLocked(c, func(a *tally.Sums) { a.Reserved.Add(c.Tokens, c.Most) })
}

// auditEndedLocked adds up a call that ends.
func (rl *RateLimiter) auditEndedLocked(c *account.Call, how account.How, used tokens.Count) {
	if a := c.Alone(); a != nil {
		rl.auditOfLocked(a).End(c, how, used)
	} else {
		rl.auditLocked(c, func(a *tally.Sums) { a.End(c, how, used) })
	}
	// A call that used nothing failed, and tells nothing of the estimate. A pool has no estimates
	// but those of its models.
	if how == account.Committed && c.Model != nil && used != (tokens.Count{}) {
		rl.estimatesOfLocked(c.Model).Add(c.Tokens.Total(), used.Total())
	}
}

// auditRecordedLocked adds up a call that was not reserved. counted reports whether its model had a
// place.
func (rl *RateLimiter) auditRecordedLocked(t *engine.Target, counted bool, used tokens.Count, cost money.Amount) {
	if a := rl.engine.Account(t.Counted); a != nil && counted {
		rl.auditOfLocked(a).Recorded.Add(used, cost)
	} else {
		rl.auditNamedLocked(t.Counted).Recorded.Add(used, cost)
	}
	for _, pool := range t.Pools {
		rl.auditOfLocked(pool).Recorded.Add(used, cost)
	}
}
