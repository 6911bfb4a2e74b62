package sharedlog

import (
	"cmp"
	"slices"
	"time"
)

// Tail is the latest events of the log, as far as a limiter knows them, in the order of the log. It
// tells which may be deleted there, and which are missing from a log that takes the place of this
// one. The zero value is empty. A Tail is not safe for concurrent use.
type Tail struct {
	events []*Event
	head   int
	folded int64   // how far Trim has looked
	drops  []int64 // pending drops: places of events off the tail that are in force no more
}

// Open is what the processes have open: the reservations and waiters that events began.
type Open interface {
	// InForce reports whether nothing has ended yet what an event began.
	InForce(*Event) bool
	// PassTail notes that an event is off the tail, and reports whether it is in force.
	PassTail(*Event) bool
}

// SweepFrom and SweepMost are how many events are deleted at a time. One by one would cost
// each change another page to be written.
const (
	SweepFrom = 32
	SweepMost = 512
)

// Push adds an event to the end.
func (t *Tail) Push(e *Event) {
	if t.head > 64 && t.head > len(t.events)/2 {
		n := copy(t.events, t.events[t.head:])
		clear(t.events[n:])
		t.events, t.head = t.events[:n], 0
	}
	t.events = append(t.events, e)
}

// Live returns the events on the tail, the oldest first. The slice is good until the next change.
func (t *Tail) Live() []*Event { return t.events[t.head:] }

// Counting returns the events on the tail that count for more than their day. Of the others, a
// log that has lost only its end may have folded what is up to folded, and a log that has lost more
// gets the days themselves.
func (t *Tail) Counting(open Open, horizon, folded int64) (counting []*Event) {
	for _, e := range t.Live() {
		before := horizon
		if e.Seq <= folded {
			before += int64(time.Second) // by the clock of another process it may have come earlier
		}
		if e.At >= before || open.InForce(e) {
			counting = append(counting, e)
		}
	}
	return counting
}

// Meet adds an event that was read from the log, after it was applied. If others have folded it, it
// was in force then, and is there for that alone: it is off the tail, and deleted once that ends,
// which may have been long ago, or be what the next event says.
func (t *Tail) Meet(open Open, e *Event, folded int64) {
	switch {
	case e.Seq > folded:
		t.Push(e)
	case !open.PassTail(e):
		t.DropLater(e.Seq)
	}
}

// drop takes the first n events off.
func (t *Tail) drop(n int) {
	clear(t.Live()[:n])
	t.head += n
}

// Expired is the events that a step is to delete.
type Expired struct {
	Events  []*Event   // the events that count no more
	Drops   [][2]int64 // the places to delete, each from the first to the last, included
	inForce []*Event   // the Events that stay, because what they began has not ended
	pending int        // how many of the pending drops are among Drops
}

// Expired returns the events that count no more, because they are from before the horizon,
// and the places that are to be deleted.
func (t *Tail) Expired(open Open, horizon int64) (x Expired) {
	n := 0
	for n < SweepMost && n < len(t.Live()) && t.Live()[n].At < horizon {
		n++
	}
	if n < SweepFrom {
		n = 0
	}
	x.Events = slices.Clone(t.Live()[:n])
	from, to := int64(0), int64(0)
	for _, e := range x.Events {
		switch {
		case open.InForce(e):
			x.inForce = append(x.inForce, e)
			continue
		case from != 0 && e.Seq == to+1:
		case from != 0:
			x.Drops = append(x.Drops, [2]int64{from, to})
			from = e.Seq
		default:
			from = e.Seq
		}
		to = e.Seq
	}
	if from != 0 {
		x.Drops = append(x.Drops, [2]int64{from, to})
	}
	for _, seq := range t.drops {
		x.Drops = append(x.Drops, [2]int64{seq, seq})
	}
	x.pending = len(t.drops)
	return x
}

// Pass removes the events of x from the tail, after a step has deleted them. Events that are still
// in force stay in the log until what they began has ended.
func (t *Tail) Pass(open Open, x *Expired) {
	t.drops = slices.Clone(t.drops[min(x.pending, len(t.drops)):])
	if len(x.Events) == 0 {
		return
	}
	last, n := x.Events[len(x.Events)-1].Seq, 0
	for n < len(t.Live()) && t.Live()[n].Seq <= last {
		n++
	}
	t.drop(n)
	kept := x.inForce
	for _, e := range x.Events {
		was := len(kept) > 0 && kept[0] == e
		if was {
			kept = kept[1:]
		}
		if is := open.PassTail(e); was && !is {
			t.DropLater(e.Seq) // a reader has closed it meanwhile
		}
	}
}

// Trim removes the events that count no more and that others have deleted, up to the one that is
// folded. Without it the tail of a limiter that only reads would grow for ever. It comes before the
// news that tell of the fold are applied: what these end was in force, and so was not deleted. An
// event that seems to count here yet, as an old cooldown does that was read late, stays on the tail
// with those behind it.
func (t *Tail) Trim(open Open, horizon, folded int64) {
	live, n := t.Live(), 0
	for _, e := range live[t.placeBehind(min(t.folded, folded)):t.placeBehind(folded)] {
		open.PassTail(e)
	}
	t.folded = max(t.folded, folded)
	for n < len(live) && live[n].Seq <= folded && live[n].At < horizon {
		n++
	}
	t.drop(n)
}

// placeBehind returns the index in Live of the first event behind a place of the log.
func (t *Tail) placeBehind(seq int64) int {
	i, _ := slices.BinarySearchFunc(t.Live(), seq+1, func(e *Event, seq int64) int { return cmp.Compare(e.Seq, seq) })
	return i
}

// DropLater has the next Expired delete an event. The number of pending drops is bounded: each
// limiter has the same ones, so one that writes nothing may forget the oldest.
func (t *Tail) DropLater(seq int64) {
	if len(t.drops) >= 2*SweepMost {
		t.drops = slices.Clone(t.drops[SweepMost:])
	}
	t.drops = append(t.drops, seq)
}
