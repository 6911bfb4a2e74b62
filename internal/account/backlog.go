package account

import (
	"slices"
	"time"
)

// backlog is the account of a leaky bucket whose charges may still change: the cost of a
// call is an estimate until the call has ended, and the instant at which it counts may be
// learned later. A charge that is corrected, moved or taken back leaves the bucket exactly
// as if it had been right from the start. The limiters of package limit forget a charge as
// soon as it is made, and cannot do that.
//
// A charge is the time that it takes to drain. Instants are durations since the origin of
// any time line that the caller keeps. A charge is known by its place in the order of time,
// and 0 is the oldest that was not dropped. Push takes constant time, Set time logarithmic
// in the number of charges, Insert and Remove time in proportion to the charges behind the
// place.
//
// Set, Insert, Remove and Drop panic for a place that does not exist. The caller keeps the
// charges in the order of time.
//
// The zero backlog is empty, and always was. A backlog is not safe for concurrent use.
type backlog struct {
	empty  time.Duration // when the bucket will have drained
	before time.Duration // the same without the live charges
	begun  bool          // if not, both are the beginning of time

	// levels[0][head:] are the live charges. A node of any other level is a whole run of
	// drainFan nodes of the level below.
	levels [][]drain
	head   int
}

// drainFan is how many nodes of a level are one node of the next.
const (
	drainFanBits = 4
	drainFan     = 1 << drainFanBits
)

// keptCharges is for how many charges a backlog keeps its memory however few are live.
const keptCharges = 1024

// drain is charges as a function of the instant x at which the bucket would be empty
// without them: x becomes x+add, but at least low and at most high. Functions of this form
// are closed under composition.
type drain struct{ add, low, high time.Duration }

// then returns d followed by e.
func (d drain) then(e drain) drain {
	return drain{d.add + e.add, e.of(d.low), e.of(d.high)}
}

func (d drain) of(x time.Duration) time.Duration { return min(max(x+d.add, d.low), d.high) }

// beginning is before all instants, with room for sums.
const beginning = time.Duration(-1 << 62)

// Empty returns the instant at which everything charged will have drained. That of a
// backlog without any charge lies before all other instants.
func (b *backlog) Empty() time.Duration {
	if !b.begun {
		return beginning
	}
	return b.empty
}

// Len returns the number of charges that can be changed.
func (b *backlog) Len() int {
	if len(b.levels) == 0 {
		return 0
	}
	return len(b.levels[0]) - b.head
}

// Reset forgets all charges, and makes the bucket one that will have drained at empty.
func (b *backlog) Reset(empty time.Duration) {
	*b = backlog{empty: empty, before: empty, begun: true, levels: b.levels}
	for k := range b.levels {
		b.levels[k] = b.levels[k][:0]
	}
}

// drainOf is a charge of cost at an instant, after which the bucket takes at most depth
// to drain.
func drainOf(at, cost, depth time.Duration) drain {
	cost = min(max(cost, 0), depth)
	return drain{cost, at + cost, at + depth}
}

// Push adds a charge that is not earlier than the others. The bucket takes at most depth to
// drain: the rest of a charge runs over and is forgotten. A cost below zero counts as zero.
func (b *backlog) Push(at, cost, depth time.Duration) {
	b.begin()
	d := drainOf(at, cost, depth)
	b.empty = d.of(b.empty)
	b.levels[0] = append(b.levels[0], d)
	if n := len(b.levels[0]); n%drainFan == 0 {
		b.grow(n >> drainFanBits)
	}
}

func (b *backlog) begin() {
	if !b.begun {
		b.begun, b.empty, b.before = true, beginning, beginning
	}
	if len(b.levels) == 0 {
		b.levels = [][]drain{nil}
	}
}

// Set replaces the i-th charge by one of the same place in the order.
func (b *backlog) Set(i int, at, cost, depth time.Duration) {
	i += b.head
	b.levels[0][i] = drainOf(at, cost, depth)
	for k := 1; k < len(b.levels); k++ {
		if i >>= drainFanBits; i >= len(b.levels[k]) {
			break
		}
		b.levels[k][i] = b.run(k, i)
	}
	b.recount()
}

// Insert adds a charge before the i-th.
func (b *backlog) Insert(i int, at, cost, depth time.Duration) {
	b.begin()
	b.levels[0] = slices.Insert(b.levels[0], b.head+i, drainOf(at, cost, depth))
	b.grow((b.head + i) >> drainFanBits)
	b.recount()
}

// Remove takes the i-th charge back.
func (b *backlog) Remove(i int) {
	b.levels[0] = slices.Delete(b.levels[0], b.head+i, b.head+i+1)
	b.grow((b.head + i) >> drainFanBits)
	b.recount()
}

// Before adds a charge before all that can be changed. It cannot be changed itself.
func (b *backlog) Before(at, cost, depth time.Duration) {
	b.begin()
	b.before = drainOf(at, cost, depth).of(b.before)
	b.recount()
}

// Drop makes the n oldest charges final: they still count, and cannot be changed.
func (b *backlog) Drop(n int) {
	if n == 0 {
		return
	}
	for _, d := range b.levels[0][b.head : b.head+n] {
		b.before = d.of(b.before)
	}
	b.head += n
	if live := b.Len(); b.head > live {
		b.levels[0] = slices.Delete(b.levels[0], 0, b.head)
		if c := cap(b.levels[0]); c > keptCharges && live < c/8 {
			b.levels[0] = slices.Clone(b.levels[0])
		}
		b.head = 0
		b.grow(0)
	}
}

// grow makes the nodes of all levels anew, from the given one of level 1 on.
func (b *backlog) grow(from int) {
	for k := 1; ; k++ {
		whole := len(b.levels[k-1]) >> drainFanBits
		if k == len(b.levels) {
			if whole == 0 {
				return
			}
			b.levels = append(b.levels, nil)
		}
		level := b.levels[k][:min(from, len(b.levels[k]))]
		for i := len(level); i < whole; i++ {
			level = append(level, b.run(k, i))
		}
		b.levels[k] = level
		from >>= drainFanBits
	}
}

// run returns the i-th node of level k, made of the nodes below it.
func (b *backlog) run(k, i int) drain {
	below := b.levels[k-1][i<<drainFanBits : (i+1)<<drainFanBits]
	d := below[0]
	for _, next := range below[1:] {
		d = d.then(next)
	}
	return d
}

// recount computes empty from all charges.
func (b *backlog) recount() {
	b.empty = b.after(b.before, 0, b.head, len(b.levels[0]))
}

// after returns x after the nodes i to j of level k, j excluded.
func (b *backlog) after(x time.Duration, k, i, j int) time.Duration {
	level := b.levels[k]
	if first, end := (i+drainFan-1)>>drainFanBits, j>>drainFanBits; first < end { // whole runs
		for ; i < first<<drainFanBits; i++ {
			x = level[i].of(x)
		}
		x = b.after(x, k+1, first, end)
		i = end << drainFanBits
	}
	for ; i < j; i++ {
		x = level[i].of(x)
	}
	return x
}
