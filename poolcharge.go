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

// chargePoolsLocked charges the pools of a model beside the model, and returns the reservation,
// which settles them all. Without a place for the state of an unlimited model, made is not counted:
// what is charged to its first pool is the reservation then.
func (rl *RateLimiter) chargePoolsLocked(made *Reservation, model string, in []*pool, instant int64, c tokens.Count, most money.Amount) *Reservation {
	last := made
	for _, p := range in {
		watched := made.watched && made.home == nil
		r := rl.madeLocked(rl.chargePoolLocked(p, instant, c, watched), &p.quota, most, instant, "")
		if class := made.countedClass(); class != "" {
			r.countLocked(class)
		}
		if made.home == nil {
			r.more().model = strings.Clone(model)
			made, last = r, r
			continue
		}
		last.pool, last = r, r
	}
	return made
}

// chargePoolLocked is chargeLocked for a pool.
func (rl *RateLimiter) chargePoolLocked(p *pool, instant int64, c tokens.Count, watched bool) *Reservation {
	made := rl.unused.newLocked(watched, rl.teller != nil)
	made.estimate = c.Clamp()
	var w *window
	if p.stats != nil {
		w = p.stats.window // which the decision has brought in order
	} else {
		w = rl.windowLocked(p.counted, rl.newStateLocked(p.counted, instant, rl.clock.At(instant)), instant)
		w.followPacing(&p.quota, instant)
	}
	rl.chargeWindowLocked(made, p.counted, w, &p.quota, instant, c)
	return made
}

// recordPoolsLocked charges the pools of a model without a settlement.
func (rl *RateLimiter) recordPoolsLocked(name, model string, used tokens.Count, spent money.Amount, instant int64) {
	now := rl.clock.At(instant)
	for _, p := range rl.poolsLocked(name, model, unused) {
		stats := p.stats
		if stats == nil {
			stats = rl.newStateLocked(p.counted, instant, now)
		}
		w := rl.windowLocked(p.counted, stats, instant)
		rl.recordWindowLocked(w, p.counted, used, instant)
		if spent != 0 {
			rl.addSpendLocked(p.counted, spent, instant)
		}
		rl.recordedLocked(w, p.counted, used, spent)
	}
}
