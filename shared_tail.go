package ratelimit

import "slices"

// trail is the events that are in the file, as far as this limiter knows, in the order
// of the file. It tells what may be deleted there, and what is missing when another file
// takes the place of this one.
type trail struct {
	events []*event
	head   int
}

func (t *trail) push(e *event) {
	if t.head > 64 && t.head > len(t.events)/2 {
		n := copy(t.events, t.events[t.head:])
		clear(t.events[n:])
		t.events, t.head = t.events[:n], 0
	}
	t.events = append(t.events, e)
}

func (t *trail) live() []*event { return t.events[t.head:] }

const (
	// trailSlack is how much longer than it counts an event is kept: another process
	// may have a clock that is behind.
	trailSlack = minute
	// sweepFrom and sweepMost are how many events are deleted at a time. One by one
	// would cost each change another page to be written.
	sweepFrom = 32
	sweepMost = 512
)

// countsNoMore reports whether a charge of an instant counts no more, for nobody.
func (s *ledger) countsNoMore(at, instant int64) bool { return instant-at > s.keep+trailSlack }

// expired takes those events off the trail that count no more, and returns them, and which
// places in the file are to be deleted. Those that are still in force stay there, until
// closeHeld.
func (t *trail) expired(s *ledger, instant int64) (passed []*event, ranges [][2]int64) {
	n := 0
	for n < sweepMost && n < len(t.live()) && s.countsNoMore(t.live()[n].at, instant) {
		n++
	}
	if n < sweepFrom {
		n = 0
	}
	passed = slices.Clone(t.live()[:n])
	clear(t.live()[:n])
	from, to := int64(0), int64(0)
	for _, e := range passed {
		switch {
		case s.inForceLocked(e):
			continue
		case from != 0 && e.seq == to+1:
		case from != 0:
			ranges = append(ranges, [2]int64{from, to})
			from = e.seq
		default:
			from = e.seq
		}
		to = e.seq
	}
	if from != 0 {
		ranges = append(ranges, [2]int64{from, to})
	}
	t.head += n
	for _, seq := range s.dropable {
		ranges = append(ranges, [2]int64{seq, seq})
	}
	s.dropable = nil
	return passed, ranges
}

// long reports whether the trail has more events that count no more than this limiter
// deletes at a time: it changes little, and others much.
func (t *trail) long(s *ledger, instant int64) bool {
	live := t.live()
	return len(live) > sweepMost && s.countsNoMore(live[sweepMost].at, instant)
}

// cut takes those events off a trail that count no more and that others have deleted, up
// to the one that is folded. Without it the trail of a limiter that only reads would have
// no end.
func (t *trail) cut(s *ledger, instant, folded int64) {
	live := t.live()
	n := 0
	for n < len(live) && live[n].seq <= folded && s.countsNoMore(live[n].at, instant) {
		s.inForceLocked(live[n])
		n++
	}
	clear(live[:n])
	t.head += n
}

// inForceLocked reports whether nothing has ended yet what an event began, and notes
// that the event is off the trail.
func (s *ledger) inForceLocked(e *event) bool {
	p := s.peers[e.process]
	if p == nil {
		return false
	}
	switch e.kind {
	case eventReserve:
		if h := p.open[e.n]; h != nil && h.isSlotless() {
			s.closeHeldLocked(e.process, e.n)
		} else if h != nil {
			h.seq, h.passed = e.seq, true
			return true
		}
	case eventWait:
		if w := p.waits[e.n]; w != nil {
			w.passed = e.seq
			return true
		}
	}
	return false
}

// dropLaterLocked has an event deleted with the next change. A limiter that makes none
// forgets about it: others do the same.
func (s *ledger) dropLaterLocked(seq int64) {
	if len(s.dropable) >= 2*sweepMost {
		s.dropable = slices.Clone(s.dropable[sweepMost:])
	}
	s.dropable = append(s.dropable, seq)
}

func (s *ledger) heldLocked(process, n int64) *held {
	if p := s.peers[process]; p != nil {
		return p.open[n]
	}
	return nil
}

// closeHeldLocked notes that a reservation is not open any more, and returns it.
func (s *ledger) closeHeldLocked(process, n int64) *held {
	h := s.heldLocked(process, n)
	if h == nil {
		return nil
	}
	if h.passed {
		s.dropLaterLocked(h.seq)
	}
	delete(s.peers[process].open, n)
	s.dismissLocked(process)
	return h
}

// closeWaitLocked notes that somebody does not wait any more, and returns them.
func (s *ledger) closeWaitLocked(process, n int64) *waiter {
	p := s.peers[process]
	if p == nil || p.waits[n] == nil {
		return nil
	}
	w := p.waits[n]
	if w.passed != 0 {
		s.dropLaterLocked(w.passed)
	}
	delete(p.waits, n)
	s.dismissLocked(process)
	return w
}

// dismissLocked forgets a process that holds nothing.
func (s *ledger) dismissLocked(process int64) {
	if p := s.peers[process]; len(p.open)+len(p.waits) == 0 {
		delete(s.peers, process)
	}
}
