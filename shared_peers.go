package ratelimit

import (
	"slices"
	"time"
	"weak"

	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
)

// peersEvery is for how many nanoseconds the other processes are not looked after again.
const peersEvery = int64(100 * time.Millisecond)

// peers is all processes that have anything open, by their numbers.
type peers map[int64]*peer

// peer is the open reservations and waits of one process.
type peer struct {
	open  map[int64]*openReservation
	waits map[int64]*waiter
}

// openReservation is a reservation that is not settled.
type openReservation struct {
	// The reservation is other, of another process or a garbage one of this, or own, which the
	// program has.
	other   *Reservation
	own     weak.Pointer[Reservation]
	seq     int64 // the place of its event in the log
	offTail bool  // the event is kept there only because the reservation is open
}

// reservation returns the reservation; nil where it is garbage, and about to be settled.
func (h *openReservation) reservation() *Reservation {
	if h.other != nil {
		return h.other
	}
	return h.own.Value()
}

// isSlotless reports whether the slot was taken from a process that was taken for dead.
func (h *openReservation) isSlotless() bool {
	r := h.reservation()
	return r != nil && r.isSlotless()
}

// isInTheWay reports whether others wait for anything that the process has.
func (p *peer) isInTheWay() bool {
	if len(p.waits) > 0 {
		return true
	}
	for _, h := range p.open {
		if !h.isSlotless() {
			return true
		}
	}
	return false
}

// of returns what a process has, to be added to.
func (ps peers) of(process int64) *peer {
	p := ps[process]
	if p == nil {
		p = &peer{open: make(map[int64]*openReservation), waits: make(map[int64]*waiter)}
		ps[process] = p
	}
	return p
}

// reservation returns an open reservation; nil if it is not open.
func (ps peers) reservation(process, n int64) *openReservation {
	if p := ps[process]; p != nil {
		return p.open[n]
	}
	return nil
}

// hasWaiter reports whether a process has a waiter with a number.
func (ps peers) hasWaiter(process, n int64) bool {
	p := ps[process]
	return p != nil && p.waits[n] != nil
}

// hasAny reports whether a process has anything open.
func (ps peers) hasAny(process int64) bool {
	p := ps[process]
	return p != nil && len(p.open)+len(p.waits) > 0
}

// forgetIfIdle forgets a process that has nothing.
func (ps peers) forgetIfIdle(process int64) {
	if p := ps[process]; len(p.open)+len(p.waits) == 0 {
		delete(ps, process)
	}
}

// closeReservationLocked takes a reservation off those that are open, and returns it; nil if
// it was none.
func (s *ledger) closeReservationLocked(process, n int64) *openReservation {
	h := s.peers.reservation(process, n)
	if h == nil {
		return nil
	}
	if h.offTail {
		s.tail.DropLater(h.seq)
	}
	delete(s.peers[process].open, n)
	if process != s.id { // which has a reservation again soon
		s.peers.forgetIfIdle(process)
	}
	return h
}

// closeWaitLocked takes a waiter off those of its process, and returns it; nil if there was
// none.
func (s *ledger) closeWaitLocked(process, n int64) *waiter {
	if !s.peers.hasWaiter(process, n) {
		return nil
	}
	p := s.peers[process]
	w := p.waits[n]
	if w.offTail != 0 {
		s.tail.DropLater(w.offTail)
	}
	delete(p.waits, n)
	s.peers.forgetIfIdle(process)
	return w
}

// isOpen reports whether what a Reserve or Wait began is open.
func (ps peers) isOpen(e *sharedlog.Event) bool {
	if e.Kind == sharedlog.Wait {
		return ps.hasWaiter(e.Process, e.N)
	}
	return ps.reservation(e.Process, e.N) != nil
}

// InForce reports whether nothing has ended yet what an event began.
func (ps peers) InForce(e *sharedlog.Event) bool {
	switch e.Kind {
	case sharedlog.Reserve:
		h := ps.reservation(e.Process, e.N)
		return h != nil && !h.isSlotless()
	case sharedlog.Wait:
		return ps.hasWaiter(e.Process, e.N)
	}
	return false
}

// PassTail notes that an event is off the tail, and reports whether it is in force.
func (ps peers) PassTail(e *sharedlog.Event) bool {
	p := ps[e.Process]
	if p == nil {
		return false
	}
	switch e.Kind {
	case sharedlog.Reserve:
		if h := p.open[e.N]; h != nil && h.isSlotless() {
			delete(p.open, e.N)
			ps.forgetIfIdle(e.Process)
		} else if h != nil {
			h.seq, h.offTail = e.Seq, true
			return true
		}
	case sharedlog.Wait:
		if w := p.waits[e.N]; w != nil {
			w.offTail = e.Seq
			return true
		}
	}
	return false
}

// lease says when this limiter has to say that it lives. The changes that it makes say so
// in passing; the timer is for when there are none.
type lease struct {
	renewAt int64 // instant
	timer   *time.Timer
	runs    bool
}

func (l *lease) due(instant int64) bool { return instant >= l.renewAt }

func (l *lease) stop() {
	if l.timer != nil {
		l.timer.Stop()
	}
}

// keepLeaseLocked has the lease renewed as long as this limiter has anything open.
func (s *ledger) keepLeaseLocked() {
	l := &s.lease
	if l.timer == nil {
		l.timer = time.AfterFunc(s.options.ttl/3, s.extendLease)
	} else if !l.runs {
		l.timer.Reset(s.options.ttl / 3)
	}
	l.runs = true
}

func (s *ledger) extendLease() {
	s.rl.mu.Lock()
	s.garbage.wanted = true
	s.rl.mu.Unlock()
	s.do(background, nothing)
	s.rl.mu.Lock()
	defer s.rl.mu.Unlock()
	if s.lease.runs = s.peers.hasAny(s.id) && !s.closed.Load(); s.lease.runs {
		s.lease.timer.Reset(s.options.ttl / 3)
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
	s.do(background, func(p *plan) {
		found = false
		for _, process := range gone {
			if s.peers[process] != nil {
				p.addNow(&sharedlog.Event{Kind: sharedlog.Gone, Ref: process})
			}
		}
		for _, process := range silent {
			if is := s.peers[process]; is != nil && len(is.waits) > 0 {
				found = true
				p.addNow(&sharedlog.Event{Kind: sharedlog.Evict, Ref: process})
			}
		}
	})
	return found || len(gone) > 0
}

// peersToLookAfter returns the processes that are in the way of others, if they have not
// been looked after lately.
func (s *ledger) peersToLookAfter() (processes []int64) {
	s.rl.mu.Lock()
	defer s.rl.mu.Unlock()
	instant := s.rl.clock.Sync()
	if instant < s.peersAt || s.down.Load() || s.closed.Load() {
		return nil
	}
	for process, p := range s.peers {
		if process != s.id && p.isInTheWay() {
			processes = append(processes, process)
		}
	}
	if len(processes) > 0 {
		s.peersAt = instant + peersEvery
	}
	return processes
}

// abandonedReserve is the reservations of this limiter that are garbage and not settled.
type abandonedReserve struct {
	reservations []*Reservation
	wanted       bool // their slots may be wanted
}

// abandonMost is how many reservations may be garbage before they are settled where no
// request waits for their slots: one event settles all of them.
const abandonMost = 256

// abandonLocked has a reservation settled at its estimate, which is garbage. It reports
// whether the limiter is shared; if not, it does nothing. It is called from a finalizer,
// which may wait for nothing, nor touch what belongs to a bubble of testing/synctest: there
// the next change settles the reservation.
func (s *ledger) abandonLocked(r *Reservation) (shared bool) {
	if s == nil {
		return false
	}
	if h := s.peers.reservation(s.id, r.entry()); h != nil && h.other == nil {
		h.other = r // own does not find it any more
	}
	g := &s.garbage
	g.reservations = append(g.reservations, r)
	var q ModelQuota
	coverOf(r.slots.name, s.rl.Quotas, &q)
	g.wanted = g.wanted || q.MaxInFlight != 0 || len(g.reservations) >= abandonMost
	if g.wanted && !s.rl.clock.InBubble() {
		go s.do(background, nothing)
	}
	return true
}

// settleGarbage plans to settle the reservations that are garbage, if their slots may be
// wanted.
func (p *plan) settleGarbage() {
	g := &p.s.garbage
	if !g.wanted || len(g.reservations) == 0 {
		return
	}
	found := len(g.reservations)
	var numbers []int64
	for _, r := range g.reservations {
		if p.settles(r) {
			numbers = append(numbers, r.entry())
		}
	}
	if len(numbers) > 0 {
		p.addNow(&sharedlog.Event{Kind: sharedlog.ReleaseAll, Text: sharedlog.NumbersText(numbers)})
	}
	p.then(func() {
		for _, r := range g.reservations[:found] {
			r.settled = true // if the log did not know it
		}
		g.reservations = slices.Clone(g.reservations[found:])
		g.wanted = len(g.reservations) > 0
	})
}
