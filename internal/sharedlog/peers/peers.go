// Package peers keeps what the processes that share a log have open: the reservations that are
// not settled, and the waiters. It tells a sharedlog.Tail which events must stay in the log. The
// limiter's ledger has one Set; its own process is in it, too.
package peers

import (
	"iter"
	"maps"
	"weak"

	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
)

// Set is all processes that have anything open: reservations of type R and waiters of type W, by
// the numbers of the events that opened them. It implements sharedlog.Open. A Set is not safe for
// concurrent use.
type Set[R, W any] struct {
	options   Options[R]
	processes map[int64]*peer[R, W]
}

// Options are what a Set has to know. All fields must be set.
type Options[R any] struct {
	// Own is the own process.
	Own int64
	// Tail is where events are dropped when what they began is closed.
	Tail *sharedlog.Tail
	// IsSlotless reports whether the slot of a reservation was taken from a process that was
	// taken for dead.
	IsSlotless func(*R) bool
}

// peer is the open reservations and waiters of one process.
type peer[R, W any] struct {
	open    map[int64]*Reservation[R]
	waiters map[int64]*W
	offTail map[int64]int64 // the places, by number, of events that are kept only because their waiters wait
}

func (p *peer[R, W]) isIdle() bool { return len(p.open)+len(p.waiters) == 0 }

// Reservation is a reservation that is not settled. The Set keeps those of other processes from
// being garbage, and of the own process those that were kept by Keep.
type Reservation[R any] struct {
	kept    *R
	weak    weak.Pointer[R]
	seq     int64 // the place of its event in the log
	offTail bool  // the event is kept there only because the reservation is open
}

// Get returns the reservation; nil where it is garbage, and about to be settled.
func (h *Reservation[R]) Get() *R {
	if h.kept != nil {
		return h.kept
	}
	return h.weak.Value()
}

// Keep has the Set keep the reservation. Its finalizer runs, so nothing else refers to it any more.
func (h *Reservation[R]) Keep(r *R) {
	if h.kept == nil {
		h.kept = r
	}
}

// IsKept reports whether the reservation is of another process, or was kept by Keep.
func (h *Reservation[R]) IsKept() bool { return h.kept != nil }

// IsOffTail reports whether the event stays in the log only because the reservation is open.
func (h *Reservation[R]) IsOffTail() bool { return h.offTail }

// SetPlace notes the place of the event in the log, once it has one.
func (h *Reservation[R]) SetPlace(seq int64) { h.seq = seq }

// New returns a Set in which nothing is open.
func New[R, W any](o Options[R]) *Set[R, W] {
	return &Set[R, W]{options: o, processes: make(map[int64]*peer[R, W])}
}

// of returns what a process has, to be added to.
func (s *Set[R, W]) of(process int64) *peer[R, W] {
	p := s.processes[process]
	if p == nil {
		p = &peer[R, W]{open: make(map[int64]*Reservation[R]), waiters: make(map[int64]*W)}
		s.processes[process] = p
	}
	return p
}

// Open adds a reservation that an event of a process has opened, and keeps it.
func (s *Set[R, W]) Open(e *sharedlog.Event, n int64, r *R) {
	s.of(e.Process).open[n] = &Reservation[R]{kept: r, seq: e.Seq}
}

// OpenOwn is Open for a reservation that the program has: it may become garbage.
func (s *Set[R, W]) OpenOwn(e *sharedlog.Event, n int64, r *R) {
	s.of(e.Process).open[n] = &Reservation[R]{weak: weak.Make(r), seq: e.Seq}
}

// AddWaiter adds a waiter.
func (s *Set[R, W]) AddWaiter(process, n int64, w *W) { s.of(process).waiters[n] = w }

// Reservation returns an open reservation; nil if it is not open.
func (s *Set[R, W]) Reservation(process, n int64) *Reservation[R] {
	if p := s.processes[process]; p != nil {
		return p.open[n]
	}
	return nil
}

// HasWaiter reports whether a process has a waiter with a number.
func (s *Set[R, W]) HasWaiter(process, n int64) bool {
	p := s.processes[process]
	return p != nil && p.waiters[n] != nil
}

// HasAny reports whether a process has anything open.
func (s *Set[R, W]) HasAny(process int64) bool {
	p := s.processes[process]
	return p != nil && !p.isIdle()
}

// Reservations returns the open reservations of a process by their numbers. The map is the Set's:
// while it is ranged over, CloseReservation may be called, and nothing may be added.
func (s *Set[R, W]) Reservations(process int64) map[int64]*Reservation[R] {
	if p := s.processes[process]; p != nil {
		return p.open
	}
	return nil
}

// Waiters returns the waiters of a process by their numbers. The map is the Set's: while it is
// ranged over, RemoveWaiter may be called, and nothing may be added.
func (s *Set[R, W]) Waiters(process int64) map[int64]*W {
	if p := s.processes[process]; p != nil {
		return p.waiters
	}
	return nil
}

// Processes returns the processes that have anything open, and the own one if it had. They may be
// closed meanwhile.
func (s *Set[R, W]) Processes() iter.Seq[int64] { return maps.Keys(s.processes) }

// Len returns the number of Processes.
func (s *Set[R, W]) Len() int { return len(s.processes) }

// HasOthers reports whether any other process has anything open.
func (s *Set[R, W]) HasOthers() bool {
	_, own := s.processes[s.options.Own]
	return len(s.processes) > 1 || len(s.processes) == 1 && !own
}

// InTheWay returns the other processes that have anything for which others wait.
func (s *Set[R, W]) InTheWay() (processes []int64) {
	for process, p := range s.processes {
		if process != s.options.Own && s.isInTheWay(p) {
			processes = append(processes, process)
		}
	}
	return processes
}

func (s *Set[R, W]) isInTheWay(p *peer[R, W]) bool {
	if len(p.waiters) > 0 {
		return true
	}
	for _, h := range p.open {
		if !s.isSlotless(h) {
			return true
		}
	}
	return false
}

func (s *Set[R, W]) isSlotless(h *Reservation[R]) bool {
	r := h.Get()
	return r != nil && s.options.IsSlotless(r)
}

// forgetIfIdle forgets a process that has nothing.
func (s *Set[R, W]) forgetIfIdle(process int64) {
	if s.processes[process].isIdle() {
		delete(s.processes, process)
	}
}

// CloseReservation takes a reservation off those that are open, and returns it; nil if it was
// none.
func (s *Set[R, W]) CloseReservation(process, n int64) *Reservation[R] {
	h := s.Reservation(process, n)
	if h == nil {
		return nil
	}
	if h.offTail {
		s.options.Tail.DropLater(h.seq)
	}
	delete(s.processes[process].open, n)
	if process != s.options.Own { // which has a reservation again soon
		s.forgetIfIdle(process)
	}
	return h
}

// RemoveWaiter takes a waiter off those of its process, and returns it; nil if there was none.
func (s *Set[R, W]) RemoveWaiter(process, n int64) *W {
	if !s.HasWaiter(process, n) {
		return nil
	}
	p := s.processes[process]
	w := p.waiters[n]
	if seq := p.offTail[n]; seq != 0 {
		s.options.Tail.DropLater(seq)
		delete(p.offTail, n)
	}
	delete(p.waiters, n)
	s.forgetIfIdle(process)
	return w
}
