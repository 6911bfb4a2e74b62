package ratelimit

import (
	"cmp"
	"math"

	"dappco.re/go/core/go-ratelimit/internal/audit"
	"dappco.re/go/core/go-ratelimit/internal/state"
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
	var all, classed audit.Sums
	for name, is := range rl.audits.counted {
		if pool, ok := state.PoolOf(name); ok {
			a.Pools[pool] = auditEntryOf(is)
			continue
		}
		a.Models[name] = auditEntryOf(is)
		all.Plus(is)
	}
	for class, is := range rl.audits.classes.All() {
		a.Classes[class] = auditEntryOf(is)
		classed.Plus(is)
	}
	all.Less(&classed)
	a.Classes[""] = auditEntryOf(&all)
	return a
}

// audits is what Audit adds up. RateLimiter.mu guards it.
type audits struct {
	counted audit.Book    // by counted name
	classes audit.Classes // but for the calls without a class, which are the rest
}

func auditSumOf(s audit.Sum) AuditSum {
	fit := func(n int64) int { return int(min(max(n, math.MinInt), math.MaxInt)) }
	return AuditSum{Calls: fit(s.Calls), InputTokens: fit(s.Input), OutputTokens: fit(s.Output), Money: s.Money}
}

func auditEntryOf(a *audit.Sums) AuditEntry {
	return AuditEntry{
		Reserved: auditSumOf(a.Reserved), Estimated: auditSumOf(a.Estimated), Settled: auditSumOf(a.Settled),
		Released: auditSumOf(a.Released), Expired: auditSumOf(a.Expired), Open: auditSumOf(a.Open()), Recorded: auditSumOf(a.Recorded),
	}
}

// auditLocked returns the sums of a counted name.
func (rl *RateLimiter) auditLocked(name string) *audit.Sums {
	room := len(rl.audits.counted) < rl.mostModels()+len(rl.Quotas) || state.IsPool(name) || rl.isListedRLocked(name)
	return rl.audits.counted.Of(name, room)
}

// auditReservedLocked adds up a reservation that was made.
func (r *Reservation) auditReservedLocked() {
	g := r.slots()
	if g.audit == nil {
		g.audit = r.home.auditLocked(g.name)
	}
	most := r.costOf(EventAdmitted)
	g.audit.Reserved.Add(r.estimate, most)
	for _, a := range r.auditsBesideLocked() {
		if a != nil {
			a.Reserved.Add(r.estimate, most)
		}
	}
}

// markLocked has a reservation added up for the class of its call, if that is one of
// Config.Classes. It reports whether it is.
func (rl *RateLimiter) markLocked(r *Reservation, class string) bool {
	m := rl.audits.classes.Mark(class)
	if m == 0 {
		if rl.knownClassRLocked(class) == "" {
			return false
		}
		var a *audit.Sums
		if a, m = rl.audits.classes.Need(class); m == 0 {
			r.more().class = a
		}
	}
	r.mark |= m
	return true
}

// auditsBesideLocked returns the sums of the class of a call, and those of its model where only a
// pool has counted it, because the model had no place; nil for none.
func (r *Reservation) auditsBesideLocked() (beside [2]*audit.Sums) {
	beside[0] = r.home.audits.classes.Marked(r.mark)
	if r.extra == nil {
		return beside
	}
	beside[0] = cmp.Or(beside[0], r.extra.class)
	if r.extra.model != "" && state.IsPool(r.slots().name) {
		beside[1] = r.home.auditLocked(audit.Other)
	}
	return beside
}

// auditEndedLocked adds up a reservation that ends.
func (r *Reservation) auditEndedLocked(end EventKind, used tokens.Count) {
	most, cost := r.costOf(EventAdmitted), r.costOf(end)
	if r.slots().audit == nil { // a store gave it back to this process
		r.slots().audit = r.home.auditLocked(r.slots().name)
	}
	beside := r.auditsBesideLocked()
	for _, a := range [...]*audit.Sums{r.slots().audit, beside[0], beside[1]} {
		switch {
		case a == nil:
		case end == EventSettled:
			a.Settle(r.estimate, most, used, cost)
		case end == EventReleased:
			a.Released.Add(r.estimate, most)
		default:
			a.Expired.Add(r.estimate, most)
		}
	}
}
