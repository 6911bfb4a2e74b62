package ratelimit

import (
	"container/list"
	"runtime"
	"time"
	"weak"

	"dappco.re/go/core/go-ratelimit/internal/sharedlog/combine"
)

// expiry settles the reservations that the program has not settled in time. RateLimiter.mu guards
// it.
type expiry struct {
	ttl   time.Duration // Config.HoldTTL; zero for never
	open  list.List     // of expiring, in the order of their admission
	timer *time.Timer   // nil until a reservation was watched
}

// expiring is a reservation that is settled when it expires. It does not keep the reservation
// from being garbage-collected.
type expiring struct {
	reservation weak.Pointer[Reservation]
	since       int64 // instant
}

// watch makes sure that a reservation which is never settled gives its slot back: when it is
// garbage-collected, and with Config.HoldTTL after that time. Watching costs more than the rest
// of Reserve, so it is done only where slots are limited.
func (r *Reservation) watch() {
	if r == nil || r.home == nil || !r.mark.IsWatched() {
		return
	}
	runtime.SetFinalizer(r, (*Reservation).abandon)
	rl := r.home
	e := &rl.expiry
	if e.ttl == 0 {
		return
	}
	rl.mu.Lock()
	defer rl.mu.Unlock()
	if r.settled {
		return
	}
	r.more().expires = e.open.PushBack(expiring{weak.Make(r), r.instant})
	if e.open.Len() == 1 {
		e.sleepLocked(rl, r.instant+int64(e.ttl)-rl.clock.Sync())
	}
}

// forget forgets a reservation that is settled.
func (e *expiry) forget(r *Reservation) {
	if r.extra != nil && r.extra.expires != nil {
		e.open.Remove(r.extra.expires)
		r.extra.expires = nil
	}
}

// sleepLocked has settle called after the given number of nanoseconds.
func (e *expiry) sleepLocked(rl *RateLimiter, left int64) {
	if e.timer == nil {
		e.timer = time.AfterFunc(time.Duration(left), func() { e.settle(rl) })
	} else {
		e.timer.Reset(time.Duration(left))
	}
}

// restLocked sleeps until the next reservation expires. One that should have been settled, because
// it came while others were, is not waited for longer than a moment.
func (e *expiry) restLocked(rl *RateLimiter) {
	if next := e.open.Front(); next != nil {
		left := next.Value.(expiring).since + int64(e.ttl) - rl.clock.Sync()
		e.sleepLocked(rl, max(left, int64(time.Millisecond)))
	}
}

// settle settles the reservations that have expired, and sleeps until the next one does.
func (e *expiry) settle(rl *RateLimiter) {
	if rl.ledger.update(combine.AppendedApart, func(p *plan) { p.settleExpired() }) {
		return
	}
	rl.mu.Lock()
	defer rl.mu.Unlock()
	instant := rl.clock.Sync()
	for oldest := e.open.Front(); oldest != nil; oldest = e.open.Front() {
		x := oldest.Value.(expiring)
		if left := x.since + int64(e.ttl) - instant; left > 0 {
			e.sleepLocked(rl, left)
			return
		}
		if r := x.reservation.Value(); r != nil {
			r.expireLocked()
			rl.teller.postRLocked(rl.teller.endedLocked(r, EventExpired, r.estimate))
		} else {
			e.open.Remove(oldest) // abandon is about to settle it
		}
	}
}

// reservationsTogether are as many as are watched for the price of one.
type reservationsTogether [64]Reservation

// abandon settles reservations that were allocated together, when the last of them is garbage.
func (rs *reservationsTogether) abandon() {
	for i := range rs {
		if r := &rs[i]; r.home != nil {
			r.abandon()
		}
	}
}

// abandon settles a garbage-collected reservation at its estimate.
//
// It runs outside of a bubble of testing/synctest, also for a reservation that was made in one.
// There it must not touch the bubble's clock, timers and channels. It recognises a bubble by the
// limiter's clock, which has no monotonic reading there, and leaves the waiters to the next call.
func (r *Reservation) abandon() {
	rl := r.home
	rl.mu.Lock()
	defer rl.mu.Unlock()
	switch {
	case r.settled:
	case rl.ledger.abandonLocked(r):
	case rl.clock.InBubble():
		for part := r; part != nil; part = part.pool {
			part.auditEndedLocked(EventExpired, part.estimate)
			part.releaseLocked()
		}
		e := rl.teller.endedLocked(r, EventExpired, r.estimate)
		if e != nil {
			e.Held = 0 // the clock here is not that of the admission
		}
		rl.teller.postLaterRLocked(e)
	default:
		r.expireLocked()
		rl.teller.postRLocked(rl.teller.endedLocked(r, EventExpired, r.estimate))
	}
}
