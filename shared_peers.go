package ratelimit

import (
	"slices"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
	"dappco.re/go/core/go-ratelimit/internal/sharedlog/combine"
	"dappco.re/go/core/go-ratelimit/internal/sharedlog/peers"
)

// peersEvery is for how many nanoseconds the other processes are not looked after again.
const peersEvery = int64(100 * time.Millisecond)

// peerSet is what all processes have open.
type peerSet = peers.Set[Reservation, waiter]

// newPeers returns a set for this limiter in which no process has anything open.
func (s *ledger) newPeers() *peerSet {
	return peers.New[Reservation, waiter](peers.Options[Reservation]{
		Own: s.id, Tail: &s.tail, IsSlotless: (*Reservation).isSlotless,
	})
}

// extendLease renews the lease, which is kept as long as this limiter has anything open.
func (s *ledger) extendLease() {
	s.rl.mu.Lock()
	s.garbage.wanted = true
	s.rl.mu.Unlock()
	s.do(background, combine.AppendedApart, nothing)
	s.rl.mu.Lock()
	defer s.rl.mu.Unlock()
	s.lease.Ended()
	if s.peers.HasAny(s.id) && !s.closed.Load() {
		s.lease.Keep()
	}
}

// lookAfterPeers ends what dead processes have open, and takes silent ones out of the
// lines. It reports whether there were any. Processes that have nothing open are skipped.
func (s *ledger) lookAfterPeers() (found bool) {
	var gone, silent []int64
	for _, process := range s.peersToLookAfter() {
		switch s.log.Owner(process) {
		case sharedlog.Dead:
			gone = append(gone, process)
		case sharedlog.Silent:
			silent = append(silent, process)
		}
	}
	if len(gone)+len(silent) == 0 {
		return false
	}
	s.do(background, combine.Apart, func(p *plan) {
		found = false
		for _, process := range gone {
			if s.peers.HasAny(process) {
				p.addNow(&sharedlog.Event{Kind: sharedlog.Gone, Ref: process})
			}
		}
		for _, process := range silent {
			if len(s.peers.Waiters(process)) > 0 {
				found = true
				p.addNow(&sharedlog.Event{Kind: sharedlog.Evict, Ref: process})
			}
		}
	})
	return found || len(gone) > 0
}

// peersToLookAfter returns the processes that are in the way of others, if they have not
// been looked after lately.
func (s *ledger) peersToLookAfter() []int64 {
	s.rl.mu.RLock()
	others, instant := s.peers.HasOthers(), int64(0)
	if others { // else the time is not worth a look
		instant = s.rl.clock.Now()
	}
	s.rl.mu.RUnlock()
	if !others || instant < s.peersAt.Load() || s.down.Load() || s.closed.Load() {
		return nil
	}
	s.rl.mu.Lock()
	defer s.rl.mu.Unlock()
	processes := s.peers.InTheWay()
	if len(processes) > 0 {
		s.peersAt.Store(instant + peersEvery)
	}
	return processes
}

// abandonedReserve is the reservations of this limiter that were garbage-collected unsettled.
type abandonedReserve struct {
	reservations []*Reservation
	wanted       bool // their slots may be wanted
}

// parts visits the reservations, and what they charged to pools.
func (g *abandonedReserve) parts(yield func(*Reservation) bool) {
	for _, r := range g.reservations {
		for ; r != nil; r = r.pool {
			if !yield(r) {
				return
			}
		}
	}
}

// abandonMost is how many garbage-collected reservations are settled together, by one event, where
// no request waits for their slots.
const abandonMost = 256

// abandonLocked settles a garbage-collected reservation at its estimate. It reports whether the
// limiter is shared; if not, it does nothing. A finalizer calls it, and must not wait, nor touch
// what belongs to a bubble of testing/synctest: there the next change settles the reservation.
func (s *ledger) abandonLocked(r *Reservation) (shared bool) {
	if s == nil {
		return false
	}
	g := &s.garbage
	g.reservations = append(g.reservations, r)
	for part := r; part != nil; part = part.pool {
		if h := s.peers.Reservation(s.id, part.entry()); h != nil {
			h.Keep(part)
		}
		var q ModelQuota
		s.rl.coverRLocked(part.slots().name, &q)
		g.wanted = g.wanted || q.limitsSlots()
	}
	g.wanted = g.wanted || len(g.reservations) >= abandonMost
	if g.wanted && !s.rl.clock.InBubble() {
		go s.do(background, combine.AppendedApart, nothing)
	}
	return true
}

// settleGarbage plans to settle the garbage-collected reservations, if their slots may be wanted.
func (p *plan) settleGarbage() {
	g := &p.s.garbage
	if !g.wanted || len(g.reservations) == 0 {
		return
	}
	found := len(g.reservations)
	var numbers []int64
	for r := range g.parts {
		if p.settles(r, EventExpired, r.estimate) {
			numbers = append(numbers, r.entry())
		}
	}
	if len(numbers) > 0 {
		p.addNow(&sharedlog.Event{Kind: sharedlog.ReleaseAll, Text: sharedlog.NumbersText(numbers)})
	}
	p.then(func() {
		for _, r := range g.reservations[:found] {
			for ; r != nil; r = r.pool {
				r.settled = true // if the log did not know it
			}
		}
		g.reservations = slices.Clone(g.reservations[found:])
		g.wanted = len(g.reservations) > 0
	})
}

// removeDead ends the open reservations and waits of a dead process.
func (f effect) removeDead(process int64) {
	f.evict(process)
	if process == f.s.id {
		f.s.lease.Doubted() // it lives, and says so
	}
	// It may live, and have been taken for dead. Its calls go on then, without their slots,
	// and what they use is settled as long as their charges count.
	for n, h := range f.s.peers.Reservations(process) {
		r := h.Get()
		if r != nil && !r.settled && !r.isSlotless() {
			r.shutLocked()
			r.keptLocked(r.estimate)
			r.more().slotless = true
			r.slots().inFlight--
			f.rl.linesLocked().shutLocked(r.slots(), r.window)
			r.slots().closeLocked()
			f.rl.unlistedLocked().easeLocked(r.slots().name)
		}
		if r == nil || r.settled || h.IsOffTail() {
			f.s.peers.CloseReservation(process, n)
		}
	}
}
