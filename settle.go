package ratelimit

import (
	"sync/atomic"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/money"
)

// Commit settles the reservation: the real usage replaces the estimate, at the time of admission.
// If the charge has left the window, the usage above the estimate is charged as of now. Negative
// counts count as zero.
//
// Only the first Commit or Cancel of a reservation counts.
func (r *Reservation) Commit(promptTokens, outputTokens int) {
	r.commit(state.Count{Input: max(promptTokens, 0), Output: max(outputTokens, 0)}, nil)
}

// CommitUsage is Commit for a call whose cost depends on more than its prompt and output: used has
// all kinds of tokens that are billed, and promptTokens and outputTokens are those that count to
// the limits, which often differ: see package money. Commit(p, o) is CommitUsage with
// money.Usage{Input: p, Output: o}.
//
// Only the first settlement of a reservation counts. CommitUsage is safe for concurrent use.
func (r *Reservation) CommitUsage(promptTokens, outputTokens int, used money.Usage) {
	r.commit(state.Count{Input: max(promptTokens, 0), Output: max(outputTokens, 0)}, &used)
}

// commit is Commit with what is billed of the usage; nil for the usage as it is.
func (r *Reservation) commit(used state.Count, bill *money.Usage) {
	if r == nil || r.home == nil {
		return
	}
	rl := r.home
	if rl.shared != nil {
		rl.shared.settle(r, account.Committed, used, bill)
		return
	}
	rl.mu.Lock()
	var e *telling
	if c := r.liveRLocked(); c != nil {
		cost := rl.costOfRLocked(c, used, bill)
		if rl.teller == nil && rl.saver == nil && rl.engine.EndsAnytime(c, used, cost) {
			r.endCallLocked(c, account.Committed, used, cost, rl.engine.Last()) // a look at the clock takes a fifth of the time
		} else {
			now := rl.nowLocked()
			e = r.endLocked(account.Committed, used, cost, now)
			rl.leaveLocked(now)
		}
	}
	rl.mu.Unlock()
	if e != nil {
		rl.teller.tell(e)
	}
}

// Cancel settles the reservation of a call that was never sent, and gives the whole charge back.
// The provider has counted a call that was sent and failed: Commit it.
//
// Only the first Commit or Cancel of a reservation counts.
func (r *Reservation) Cancel() {
	if r == nil || r.home == nil {
		return
	}
	rl := r.home
	if rl.shared != nil {
		rl.shared.settle(r, account.Cancelled, state.Count{}, nil)
		return
	}
	rl.mu.Lock()
	now := rl.nowLocked()
	e := r.endLocked(account.Cancelled, state.Count{}, 0, now)
	rl.leaveLocked(now)
	rl.mu.Unlock()
	if e != nil {
		rl.teller.tell(e)
	}
}

// claim reports whether it is the first to end the call of a shared limiter.
func (r *Reservation) claim() bool { return atomic.CompareAndSwapUint32(&r.claimed, 0, 1) }

// endLocked ends the call of a reservation, and returns the event that tells of it.
func (r *Reservation) endLocked(how account.How, used state.Count, cost money.Amount, now account.Now) (e *telling) {
	rl := r.home
	if rl.shared == nil && rl.engine.Due() <= now.Instant {
		rl.engine.Advance(now) // it may expire by that
	}
	switch c := r.liveRLocked(); {
	case c == nil:
	case rl.shared == nil:
		return r.endCallLocked(c, how, used, cost, now)
	case r.claim():
		rl.shared.endLocked(c, how, used, cost, now)
	}
	return nil
}

// endCallLocked is endLocked for a private call that is not over.
func (r *Reservation) endCallLocked(c *account.Call, how account.How, used state.Count, cost money.Amount, now account.Now) (e *telling) {
	rl := r.home
	r.call = nil
	rl.adoptChargedLocked(c, now)
	c.Cost = cost
	e = rl.endedLocked(c, how, used, now)
	if how != account.Committed || used != c.Tokens || cost != c.Most {
		rl.saver.ChangedAt(now.Instant)
	}
	rl.engine.Settle(c, how, used, cost, now)
	return e
}

// endedLocked adds up a call that ends, and returns the event that tells of it.
func (rl *RateLimiter) endedLocked(c *account.Call, how account.How, used state.Count, now account.Now) *telling {
	if rl.ledger.Ended(audited{rl}, c, how, used); rl.teller != nil {
		return rl.teller.endedLocked(c, how, used, now)
	}
	return nil
}

// Arrived gives the latest time at which the provider counted the call: after the request was
// written, or when the headers of the response came. The charge moves there, so that it leaves
// the window no sooner than the provider forgets the call. It never moves backwards, nor into the
// future. A charge that has left the window is charged anew. After Commit or Cancel it does
// nothing.
//
// After Arrived the request itself stays charged, whatever the call used. A waiter that could pass
// in time only if this call were cancelled is refused at once.
func (r *Reservation) Arrived(at time.Time) {
	if r == nil || r.home == nil {
		return
	}
	rl := r.home
	defer rl.shared.tell()
	rl.mu.Lock()
	defer rl.mu.Unlock()
	c := r.liveRLocked()
	if c == nil {
		return
	}
	now := rl.nowLocked()
	age := max(rl.agoLocked(at, now), 0)
	if rl.shared != nil {
		rl.shared.putLocked(engine.Arrive{ID: c.ID, At: now.Instant - age})
		return
	}
	rl.adoptChargedLocked(c, now)
	rl.engine.Arrive(c, now.Instant-age, now)
	rl.saver.ChangedAt(now.Instant)
	rl.leaveLocked(now)
}

// costOfRLocked returns what a call has cost.
func (rl *RateLimiter) costOfRLocked(c *account.Call, used state.Count, bill *money.Usage) money.Amount {
	switch {
	case rl.pricing == nil:
		return 0
	case c.Model != nil:
		return rl.pricing.Cost(&rl.naming, c.Model.Name, c.Asked, used, bill, c.At.Wall)
	}
	return rl.pricing.Cost(&rl.naming, rl.nameRLocked(c.Asked), c.Asked, used, bill, c.At.Wall)
}
