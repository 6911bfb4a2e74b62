package ratelimit

import (
	"slices"
	"strings"

	"dappco.re/go/core/go-ratelimit/internal/tokens"
	"dappco.re/go/core/go-ratelimit/money"
)

// anyLimitsSlots reports whether one of the pools limits the calls in flight, so that a reservation
// which the program loses must give its slot back.
func anyLimitsSlots(in []*pool) bool {
	return slices.ContainsFunc(in, func(p *pool) bool { return p.quota.limitsSlots() })
}

// chargePoolsLocked charges the pools of a model beside the model, the view of which is of, and
// returns the reservation, which settles them all. most is what the call can cost. Without a place
// for the state of an unlimited model, made is not counted: what is charged to its first pool is
// the reservation then.
func (rl *RateLimiter) chargePoolsLocked(made *Reservation, model string, in []*pool, of *view, c tokens.Count, most money.Amount) *Reservation {
	last := made
	for _, p := range in {
		watched := made.mark.IsWatched() && made.home == nil
		r := rl.chargePoolLocked(p, of, c, watched)
		if made.home == nil {
			r.more().model = strings.Clone(model)
			r.classLocked(of.class)
			made, last = r, r
		} else {
			last.pool, last = r, r
			if rl.reserves != nil {
				made.share().Join(r.chargeClassLocked(of.class))
			}
		}
		if r.extra != nil || rl.pricing != nil || r.slots().audit == nil {
			rl.madeLocked(r, &p.quota, most, of.instant)
		} else {
			r.slots().audit.Reserved.Count(r.estimate)
		}
	}
	return made
}

// chargePoolLocked is chargeLocked for a pool.
func (rl *RateLimiter) chargePoolLocked(p *pool, of *view, c tokens.Count, watched bool) *Reservation {
	r := view{instant: of.instant}
	if p.stats != nil {
		r.window = p.stats.window // which the decision has brought in order
	} else {
		r.window = rl.windowLocked(p.counted, rl.newStateLocked(p.counted, r.instant, rl.clock.At(r.instant)), r.instant)
		r.window.followPacing(&p.quota, r.instant)
	}
	return rl.chargeLocked(p.counted, p.counted, &p.quota, &r, c, watched)
}

// recordPoolsLocked charges the pools of a model without a settlement. spent is what the call cost.
func (rl *RateLimiter) recordPoolsLocked(name, model string, used tokens.Count, spent money.Amount, instant int64) {
	now := rl.clock.At(instant)
	for _, p := range rl.poolsLocked(name, model, unused) {
		stats := p.stats
		if stats == nil {
			stats = rl.newStateLocked(p.counted, instant, now)
		}
		rl.spentMoreLocked(p.counted, spent, instant)
		rl.recordWindowLocked(rl.windowLocked(p.counted, stats, instant), p.counted, used, spent, instant, now)
	}
}
