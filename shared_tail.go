package ratelimit

import (
	"slices"

	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
)

// tail is the events that are in the log, as far as this limiter knows, in the order of the
// log. It tells which may be deleted there, and which are missing when another log takes the
// place of this one.
type tail struct {
	events []*sharedlog.Event
	head   int
	drops  []int64 // pending drops: places of events off the tail that are in force no more
}

const (
	// tailSlack is how much longer than it counts an event is kept: another process may have
	// a clock that is behind.
	tailSlack = minute
	// sweepFrom and sweepMost are how many events are deleted at a time. One by one would
	// cost each change another page to be written.
	sweepFrom = 32
	sweepMost = 512
)

// horizon returns the instant before which a charge counts no more, for no process.
func (s *ledger) horizon(instant int64) int64 { return instant - s.keep - tailSlack }

func (t *tail) push(e *sharedlog.Event) {
	if t.head > 64 && t.head > len(t.events)/2 {
		n := copy(t.events, t.events[t.head:])
		clear(t.events[n:])
		t.events, t.head = t.events[:n], 0
	}
	t.events = append(t.events, e)
}

func (t *tail) live() []*sharedlog.Event { return t.events[t.head:] }

// drop takes the first n events off.
func (t *tail) drop(n int) {
	clear(t.live()[:n])
	t.head += n
}

// expired is the events that a step is to delete.
type expired struct {
	events  []*sharedlog.Event // which count no more
	drops   [][2]int64         // from which place to which
	inForce []*sharedlog.Event // those of events that stay, because what they began has not ended
	pending int                // how many of the pending drops are among drops
}

// expired returns the events that count no more, because they are from before the horizon,
// and the places that are to be deleted.
func (t *tail) expired(of peers, horizon int64) (x expired) {
	n := 0
	for n < sweepMost && n < len(t.live()) && t.live()[n].At < horizon {
		n++
	}
	if n < sweepFrom {
		n = 0
	}
	x.events = slices.Clone(t.live()[:n])
	from, to := int64(0), int64(0)
	for _, e := range x.events {
		switch {
		case of.inForce(e):
			x.inForce = append(x.inForce, e)
			continue
		case from != 0 && e.Seq == to+1:
		case from != 0:
			x.drops = append(x.drops, [2]int64{from, to})
			from = e.Seq
		default:
			from = e.Seq
		}
		to = e.Seq
	}
	if from != 0 {
		x.drops = append(x.drops, [2]int64{from, to})
	}
	for _, seq := range t.drops {
		x.drops = append(x.drops, [2]int64{seq, seq})
	}
	x.pending = len(t.drops)
	return x
}

// pass takes the events off that a step has deleted. Those that are still in force are
// deleted when they are closed.
func (t *tail) pass(of peers, x *expired) {
	t.drops = slices.Clone(t.drops[min(x.pending, len(t.drops)):])
	if len(x.events) == 0 {
		return
	}
	last, n := x.events[len(x.events)-1].Seq, 0
	for n < len(t.live()) && t.live()[n].Seq <= last {
		n++
	}
	t.drop(n)
	kept := x.inForce
	for _, e := range x.events {
		was := len(kept) > 0 && kept[0] == e
		if was {
			kept = kept[1:]
		}
		if is := of.passTail(e); was && !is {
			t.dropLater(e.Seq) // a reader has closed it meanwhile
		}
	}
}

// trim takes those events off that count no more and that others have deleted, up to the one
// that is folded. Without it the tail of a limiter that only reads would have no end.
func (t *tail) trim(of peers, horizon, folded int64) {
	live, n := t.live(), 0
	for n < len(live) && live[n].Seq <= folded && live[n].At < horizon {
		of.passTail(live[n])
		n++
	}
	t.drop(n)
}

// dropLater has an event deleted with the next change. A limiter that makes none forgets
// about it: others do the same.
func (t *tail) dropLater(seq int64) {
	if len(t.drops) >= 2*sweepMost {
		t.drops = slices.Clone(t.drops[sweepMost:])
	}
	t.drops = append(t.drops, seq)
}

// inForce reports whether nothing has ended yet what an event began.
func (ps peers) inForce(e *sharedlog.Event) bool {
	switch e.Kind {
	case sharedlog.Reserve:
		h := ps.reservation(e.Process, e.N)
		return h != nil && !h.isSlotless()
	case sharedlog.Wait:
		return ps.hasWaiter(e.Process, e.N)
	}
	return false
}

// passTail notes that an event is off the tail, and reports whether it is in force.
func (ps peers) passTail(e *sharedlog.Event) bool {
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
