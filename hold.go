package ratelimit

import (
	"runtime"
	"time"
	"weak"
)

// watch makes sure that a reservation which is never settled gives its slot back: when it is
// garbage-collected, and with Config.HoldTTL after that time. Watching costs more than the rest
// of Reserve, so it is done only where slots are limited.
func (rl *RateLimiter) watch(r *Reservation) {
	if r == nil || r.gate == nil || !r.watched {
		return
	}
	runtime.SetFinalizer(r, (*Reservation).abandon)
	if rl.holdTTL == 0 {
		return
	}
	rl.mu.Lock()
	defer rl.mu.Unlock()
	if r.settled {
		return
	}
	r.more().hold = rl.holds.PushBack(hold{weak.Make(r), r.instant})
	if rl.holds.Len() == 1 {
		rl.sleepHeldLocked(r.instant + int64(rl.holdTTL) - rl.clock.Sync())
	}
}

// sleepHeldLocked looks after the holds when so many nanoseconds are over.
func (rl *RateLimiter) sleepHeldLocked(left int64) {
	if rl.holdTimer == nil {
		rl.holdTimer = time.AfterFunc(time.Duration(left), rl.settleHeld)
	} else {
		rl.holdTimer.Reset(time.Duration(left))
	}
}

// hold is a reservation that is settled when it expires. It does not keep the reservation from
// being garbage-collected.
type hold struct {
	reservation weak.Pointer[Reservation]
	since       int64 // instant
}

// settleHeldLocked settles the reservations that have expired, and sleeps until the next one
// does.
func (rl *RateLimiter) settleHeldLocked() {
	instant := rl.clock.Sync()
	for {
		oldest := rl.holds.Front()
		if oldest == nil {
			return
		}
		h := oldest.Value.(hold)
		if left := h.since + int64(rl.holdTTL) - instant; left > 0 {
			rl.sleepHeldLocked(left)
			return
		}
		if r := h.reservation.Value(); r != nil {
			rl.settleLocked(r, r.estimate, false)
		} else {
			rl.holds.Remove(oldest) // abandon is about to settle it
		}
	}
}

func (rl *RateLimiter) settleHeld() {
	if !rl.ledger.update(func(p *plan) { p.settleHeld() }) {
		rl.mu.Lock()
		defer rl.mu.Unlock()
		rl.settleHeldLocked()
	}
}

// abandon settles a garbage-collected reservation at its estimate.
//
// It runs outside of a bubble of testing/synctest, also for a reservation that was made in one.
// There it must not touch the bubble's clock, timers and channels. It recognises a bubble by the
// limiter's clock, which has no monotonic reading there, and leaves the waiters to the next call.
func (r *Reservation) abandon() {
	rl := r.gate.home
	rl.mu.Lock()
	defer rl.mu.Unlock()
	switch {
	case r.settled:
	case rl.ledger.abandonLocked(r):
	case rl.clock.InBubble():
		rl.releaseLocked(r)
	default:
		rl.settleLocked(r, r.estimate, false)
	}
}
