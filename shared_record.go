package ratelimit

import (
	"context"
	"time"
	"weak"

	"dappco.re/go/core/go-ratelimit/internal/clock"
	"dappco.re/go/core/go-ratelimit/internal/tokens"
)

// noteLocked puts an event that this limiter has just done in memory into the outbox. A
// window is the one whose day it may have changed.
func (s *ledger) noteLocked(e *event, w *window) {
	if s.closed.Load() {
		return
	}
	e.process = s.id
	if e.n == 0 {
		s.lastN++
		e.n = s.lastN
	}
	if e.kind != eventCooldown {
		e.wall = s.rl.clock.UnixNano(e.at + e.age)
	}
	e.mono = s.machine.At(e.at + e.age)
	if w != nil {
		e.day, e.hasDay = usageDayOf(w), true
	}
	s.outbox = append(s.outbox, e)
	if len(s.outbox) >= s.packAt && s.down.Load() {
		s.packLocked()
	}
}

// noteNowLocked notes an event of this moment.
func (s *ledger) noteNowLocked(e *event, w *window) {
	e.at = s.rl.clock.Sync()
	s.noteLocked(e, w)
}

// noteReservationLocked notes that a reservation was made.
func (s *ledger) noteReservationLocked(r *Reservation) {
	e := &event{kind: eventReserve, model: r.gate.name, at: r.instant, requests: 1, Count: r.estimate}
	s.noteLocked(e, r.window)
	r.more().entry = e.n
	s.peerLocked(s.id).open[e.n] = &held{own: weak.Make(r)}
	s.keepLeaseLocked()
}

// noteSettledLocked notes how a reservation is settled, whose window was changed.
func (s *ledger) noteSettledLocked(r *Reservation, used tokens.Count, refund bool) {
	if r.entry() == 0 {
		return
	}
	e := &event{kind: eventRelease, ref: r.entry(), model: r.gate.name}
	var w *window
	if stats := s.rl.State[r.gate.name]; stats != nil && (refund || used != r.estimate) {
		w = stats.window
	}
	switch {
	case refund:
		e.kind = eventCancel
	case used != r.estimate:
		// Where the charge has left the window nothing is found to be amended, and what
		// came on top is an event of its own.
		e.kind, e.Count = eventAmend, used.Clamp()
	}
	s.noteNowLocked(e, w)
	s.closeHeldLocked(s.id, r.entry())
}

// noteMovedLocked notes that the charge of a reservation counts at another time now.
func (s *ledger) noteMovedLocked(r *Reservation, w *window) {
	if r.entry() == 0 {
		return
	}
	s.noteLocked(&event{
		kind: eventMove, ref: r.entry(), model: r.gate.name, requests: 1, Count: r.estimate,
		at: r.instant, age: max(s.rl.clock.Sync()-r.instant, 0),
	}, w)
}

// noteQuotaLocked notes a quota. One that is out of range stays with this limiter: the
// others could not read it.
func (s *ledger) noteQuotaLocked(model string, q ModelQuota) {
	if q.validate(model) != nil {
		return
	}
	s.noteNowLocked(&event{kind: eventQuota, model: model, text: quotaText(q)}, nil)
	s.quotas[model] = true
	s.wanted = true // slots may be limited now
	for name, stats := range s.rl.State {
		if _, own := s.rl.Quotas[name]; name != model && (own || model != everyModel) || stats == nil {
			continue
		}
		// Its day may end elsewhere now, and who opens the file later could not tell.
		instant := s.rl.clock.Sync()
		w := s.rl.windowLocked(name, stats, instant)
		s.rl.rezoneLocked(stats, zoneOf(name, s.rl.Quotas), instant)
		s.noteLocked(&event{kind: eventDay, model: name, at: instant}, w)
	}
}

// hasQuotaLocked reports whether the file has a quota of a model.
func (s *ledger) hasQuotaLocked(model string, _ ModelQuota) bool { return s.quotas[model] }

// noteWaitLocked notes that somebody stands in line.
func (s *ledger) noteWaitLocked(w *waiter, b *batch) {
	requests := make([]Request, len(w.requests))
	for i, req := range w.requests {
		req.Model = b.costs[b.of[i]].name
		requests[i] = req
	}
	e := &event{kind: eventWait, text: requestsText(requests)}
	s.noteNowLocked(e, nil)
	w.ticket, w.passed = e.n, 0
	s.peerLocked(s.id).waits[e.n] = w
	s.keepLeaseLocked()
	s.watchLocked()
}

// noteLeftLocked notes that somebody does not wait any more.
func (s *ledger) noteLeftLocked(w *waiter) {
	if w.ticket == 0 {
		return
	}
	s.noteNowLocked(&event{kind: eventLeave, ref: w.ticket}, nil)
	s.closeWaitLocked(s.id, w.ticket)
	w.ticket = 0
}

// abandonMost is how many reservations may be garbage before they are settled where nobody
// waits for their slots: one event settles all of them.
const abandonMost = 256

// abandonLocked has a reservation settled that is garbage, at its estimate. It is called
// from a finalizer, which may wait for nothing, nor touch what belongs to a bubble of
// testing/synctest: there the next change settles it.
func (s *ledger) abandonLocked(r *Reservation) {
	s.abandoned = append(s.abandoned, r)
	var q ModelQuota
	coverOf(r.gate.name, s.rl.Quotas, &q)
	s.wanted = s.wanted || q.MaxInFlight != 0 || len(s.abandoned) >= abandonMost
	if s.wanted && !s.rl.clock.InBubble() {
		go s.do(background, func() {})
	}
}

// settleAbandonedLocked settles those that are garbage, if somebody may want their slots.
func (s *ledger) settleAbandonedLocked() {
	if !s.wanted {
		return
	}
	s.wanted = false
	abandoned := s.abandoned
	if len(abandoned) == 0 {
		return
	}
	s.abandoned = nil
	var entries []int64
	for _, r := range abandoned {
		if r.settled {
			continue
		}
		if r.entry() != 0 {
			entries = append(entries, r.entry())
			s.closeHeldLocked(s.id, r.entry())
		}
		s.rl.releaseLocked(r)
	}
	if len(entries) > 0 {
		s.noteNowLocked(&event{kind: eventReleaseAll, text: jsonText(entries)}, nil)
	}
	s.rl.serveAllLocked()
}

// reserve is RateLimiter.reserve. Where calls in flight deny, it makes sure that they
// are calls of processes that live.
func (s *ledger) reserve(ctx context.Context, d *Decision, model string, c *cost) (made *Reservation, err error) {
	for {
		err = s.do(ctx, func() { made = s.rl.reserveLocked(d, model, c) })
		if err != nil || made != nil || d.Code != DecisionInFlightLimit && d.Code != DecisionQueued || !s.lookAfterPeers() {
			break
		}
		*d = Decision{}
	}
	s.rl.watch(made)
	return made, err
}

// unwrittenLocked counts the changes in the outbox that outlast this limiter.
func (s *ledger) unwrittenLocked() (n int) {
	for _, e := range s.outbox {
		switch e.kind {
		case eventWait, eventLeave, eventGone, eventEvict:
		default:
			n++
		}
	}
	return n
}

// flush brings memory and file together now, and returns why that is not possible.
func (s *ledger) flush() error {
	<-s.turn
	defer func() { s.turn <- struct{}{} }()
	if s.closed.Load() {
		return ErrClosed
	}
	if s.down.Load() {
		return s.recover(lockedFor)
	}
	s.step(background, func() {})
	s.rl.mu.RLock()
	defer s.rl.mu.RUnlock()
	return s.err
}

// clocksAgree is how far apart, in nanoseconds, the wall clock and the machine's clock may
// date an event for the wall clock to count. Programs see the wall clock, so by it they can
// check the limits to the nanosecond.
const clocksAgree = int64(5 * time.Millisecond)

// dateLocked sets the instant at which an event counts, on the limiter's own time line. It
// is never in the future.
//
// At floor the file was last read, and the event was not there. Where only the wall clock
// dates the event, and dates it before floor, the wall clocks of the two processes differ
// by an unknown time. The event then counts from now on.
func (s *ledger) dateLocked(e *event, instant, floor int64) {
	if e.kind == eventCooldown {
		e.at = instant
		return
	}
	e.at = s.rl.clock.Instant(max(e.wall, 0))
	switch {
	case e.mono > 0 && s.machine.Boot != "":
		machine := s.machine.Instant(e.mono)
		if off := e.at - machine; off > clocksAgree || off < -clocksAgree {
			e.at = machine
		}
	case e.at+clocksAgree < floor:
		e.at = instant
	case e.at < floor:
		e.at = floor
	}
	e.at = min(e.at, instant) - min(max(e.age, 0), clock.LongestDay) // longer than any minute
}
