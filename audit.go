package ratelimit

import (
	"math"
	"strings"

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
	var all, classed audited
	for name, is := range rl.audits.counted {
		if pool, ok := state.PoolOf(name); ok {
			a.Pools[pool] = is.entry()
			continue
		}
		a.Models[name] = is.entry()
		all.plus(is, 1)
	}
	for class, is := range rl.audits.classes {
		a.Classes[class] = is.entry()
		classed.plus(is, 1)
	}
	all.plus(&classed, -1)
	a.Classes[""] = all.entry()
	return a
}

// audits is what Audit adds up. RateLimiter.mu guards it.
type audits struct {
	counted map[string]*audited // by counted name
	classes map[string]*audited // but for the calls without a class, which are the rest
}

// auditOther is the entry of those for which there is no room.
const auditOther = "other"

// mostAuditClasses bounds the classes, whose names callers choose.
const mostAuditClasses = 1000

// audited is the sums of a model, a pool or a class.
type audited struct{ reserved, estimated, settled, released, expired, recorded auditSum }

// auditSum is an AuditSum. It has 64 bits on all machines: what is open is a difference.
type auditSum struct {
	calls, input, output int64
	money                money.Amount
}

// add adds a call. Tokens and money are not negative.
func (s *auditSum) add(c tokens.Count, amount money.Amount) {
	s.count(c)
	if amount != 0 {
		s.money = s.money.Add(amount)
	}
}

// count is add for a call without money.
func (s *auditSum) count(c tokens.Count) {
	s.calls++
	s.input += int64(c.Input)
	s.output += int64(c.Output)
	if s.input|s.output < 0 {
		s.clamp()
	}
}

// clamp makes a sum that has passed the largest number that number.
func (s *auditSum) clamp() {
	for _, n := range [...]*int64{&s.input, &s.output} {
		if *n < 0 {
			*n = math.MaxInt64
		}
	}
}

// plus adds other sums, or takes them off where sign is -1.
func (s *auditSum) plus(o *auditSum, sign int) {
	s.calls += int64(sign) * o.calls
	s.input = int64(money.Amount(s.input).Add(money.Amount(o.input).Mul(sign)))
	s.output = int64(money.Amount(s.output).Add(money.Amount(o.output).Mul(sign)))
	s.money = s.money.Add(o.money.Mul(sign))
}

func (s *auditSum) sum() AuditSum {
	fit := func(n int64) int { return int(min(max(n, math.MinInt), math.MaxInt)) }
	return AuditSum{Calls: fit(s.calls), InputTokens: fit(s.input), OutputTokens: fit(s.output), Money: s.money}
}

func (a *audited) plus(o *audited, sign int) {
	a.reserved.plus(&o.reserved, sign)
	a.estimated.plus(&o.estimated, sign)
	a.settled.plus(&o.settled, sign)
	a.released.plus(&o.released, sign)
	a.expired.plus(&o.expired, sign)
	a.recorded.plus(&o.recorded, sign)
}

func (a *audited) entry() AuditEntry {
	open := a.reserved
	for _, ended := range [...]*auditSum{&a.estimated, &a.released, &a.expired} {
		open.plus(ended, -1)
	}
	return AuditEntry{
		Reserved: a.reserved.sum(), Estimated: a.estimated.sum(), Settled: a.settled.sum(),
		Released: a.released.sum(), Expired: a.expired.sum(), Open: open.sum(), Recorded: a.recorded.sum(),
	}
}

// auditLocked returns the sums of a counted name.
func (rl *RateLimiter) auditLocked(name string) *audited {
	a := rl.audits.counted[name]
	if a == nil && len(rl.audits.counted) >= rl.mostModels()+len(rl.Quotas) && !state.IsPool(name) && !rl.isListedRLocked(name) {
		name = auditOther
		a = rl.audits.counted[name]
	}
	if a == nil {
		if rl.audits.counted == nil {
			rl.audits.counted = make(map[string]*audited)
		}
		a = new(audited)
		rl.audits.counted[strings.Clone(name)] = a
	}
	return a
}

// class returns the sums of a class; nil for the calls without one.
func (all *audits) class(class string) *audited {
	if class == "" {
		return nil
	}
	if all.classes[class] == nil && len(all.classes) >= mostAuditClasses {
		class = auditOther
	}
	a := all.classes[class]
	if a == nil {
		if all.classes == nil {
			all.classes = make(map[string]*audited)
		}
		a = new(audited)
		all.classes[strings.Clone(class)] = a
	}
	return a
}

// auditReservedLocked adds up a reservation that was made.
func (r *Reservation) auditReservedLocked() {
	g := r.slots
	if g.audit == nil {
		g.audit = r.home.auditLocked(g.name)
	}
	g.audit.reserved.add(r.estimate, r.costOf(EventAdmitted))
	if r.extra == nil {
		return
	}
	for _, a := range [...]*audited{r.extra.class, r.auditOfModelLocked()} {
		if a != nil {
			a.reserved.add(r.estimate, r.extra.most)
		}
	}
}

// auditOfModelLocked returns the sums of the model of a call that only a pool has counted, because
// the model had no place; else nil.
func (r *Reservation) auditOfModelLocked() *audited {
	if r.extra.model == "" || !state.IsPool(r.slots.name) {
		return nil
	}
	return r.home.auditLocked(auditOther)
}

// auditEndedLocked adds up a reservation that ends.
func (r *Reservation) auditEndedLocked(end EventKind, used tokens.Count) {
	most, cost := r.costOf(EventAdmitted), r.costOf(end)
	if r.slots.audit == nil { // a store gave it back to this process
		r.slots.audit = r.home.auditLocked(r.slots.name)
	}
	r.slots.audit.ended(end, r.estimate, most, used, cost)
	if r.extra == nil {
		return
	}
	for _, a := range [...]*audited{r.extra.class, r.auditOfModelLocked()} {
		if a != nil {
			a.ended(end, r.estimate, most, used, cost)
		}
	}
}

func (a *audited) ended(end EventKind, estimate tokens.Count, most money.Amount, used tokens.Count, cost money.Amount) {
	switch end {
	case EventSettled:
		a.estimated.add(estimate, most)
		a.settled.add(used, cost)
	case EventReleased:
		a.released.add(estimate, most)
	default:
		a.expired.add(estimate, most)
	}
}
