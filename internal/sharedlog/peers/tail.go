package peers

import "dappco.re/go/core/go-ratelimit/internal/sharedlog"

// IsOpen reports whether what a Reserve or Wait began is open.
func (s *Set[R, W]) IsOpen(e *sharedlog.Event) bool {
	if e.Kind == sharedlog.Wait {
		return s.HasWaiter(e.Process, e.N)
	}
	return s.Reservation(e.Process, e.N) != nil
}

// InForce reports whether nothing has ended yet what an event began.
func (s *Set[R, W]) InForce(e *sharedlog.Event) bool {
	switch e.Kind {
	case sharedlog.Reserve:
		h := s.Reservation(e.Process, e.N)
		return h != nil && !s.isSlotless(h)
	case sharedlog.Wait:
		return s.HasWaiter(e.Process, e.N)
	}
	return false
}

// PassTail notes that an event is off the tail, and reports whether it is in force.
func (s *Set[R, W]) PassTail(e *sharedlog.Event) bool {
	p := s.processes[e.Process]
	if p == nil {
		return false
	}
	switch e.Kind {
	case sharedlog.Reserve:
		if h := p.open[e.N]; h != nil && s.isSlotless(h) {
			delete(p.open, e.N)
			s.forgetIfIdle(e.Process)
		} else if h != nil {
			h.seq, h.offTail = e.Seq, true
			return true
		}
	case sharedlog.Wait:
		if p.waiters[e.N] != nil {
			if p.offTail == nil {
				p.offTail = make(map[int64]int64)
			}
			p.offTail[e.N] = e.Seq
			return true
		}
	}
	return false
}
