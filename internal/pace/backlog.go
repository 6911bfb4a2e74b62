package pace

import (
	"slices"
	"time"
)

// Backlog is the account of a leaky bucket whose charges may still change: what a call
// costs is an estimate until it has ended, and when it counts may be learned later. A
// charge that is corrected, moved or taken back leaves the bucket exactly as if it had
// been made right in the first place. The limiters of package limit forget a charge as
// soon as it is made, and cannot do that.
//
// A charge is the time that it takes to drain. Instants are on any time line that the
// caller keeps, as durations since its origin. Charges are known by their place in the
// order of time, 0 being the oldest that was not dropped. Push costs constant time, Set
// time logarithmic in the number of charges, Insert and Remove time in proportion to the
// charges behind.
//
// Places must be there, or the methods panic; that charges stay in the order of time is
// up to the caller.
//
// The zero Backlog is empty, and has been for long. A Backlog is not safe for concurrent
// use: it is a part to build limiters of, and decides nothing itself.
type Backlog struct {
	empty  time.Duration // when it will have drained
	before time.Duration // the same without the charges that are live
	begun  bool          // if not, both are the beginning of time

	levels [][]drain // levels[0][head:] are the live charges; the others are whole runs of fan of the level below
	head   int
}

// The charges of a run of a level are one of the next level.
const (
	fanBits = 4
	fan     = 1 << fanBits
)

// drain is what charges make of the instant at which the bucket would be empty without
// them: x becomes x+add, but at least low and at most high. Functions of this form are
// closed under composition.
type drain struct{ add, low, high time.Duration }

// then returns d followed by e.
func (d drain) then(e drain) drain {
	return drain{d.add + e.add, e.of(d.low), e.of(d.high)}
}

func (d drain) of(x time.Duration) time.Duration { return min(max(x+d.add, d.low), d.high) }

// beginning is before all instants, with room for sums.
const beginning = time.Duration(-1 << 62)

// Empty is the instant at which everything charged will have drained. It lies before
// any other where nothing ever was.
func (b *Backlog) Empty() time.Duration {
	if !b.begun {
		return beginning
	}
	return b.empty
}

// Len is the number of charges that can be changed.
func (b *Backlog) Len() int {
	if len(b.levels) == 0 {
		return 0
	}
	return len(b.levels[0]) - b.head
}

// Reset forgets all charges. The bucket is as full as it is if it will have drained at
// empty.
func (b *Backlog) Reset(empty time.Duration) {
	*b = Backlog{empty: empty, before: empty, begun: true, levels: b.levels}
	for k := range b.levels {
		b.levels[k] = b.levels[k][:0]
	}
}

// charge is a charge of cost at an instant, after which the bucket takes at most depth
// to drain.
func charge(at, cost, depth time.Duration) drain {
	cost = min(max(cost, 0), depth)
	return drain{cost, at + cost, at + depth}
}

// Push adds a charge that is not earlier than the others. The bucket is at most depth
// deep: what goes beyond that runs over and is forgotten. A cost below zero counts as
// none.
func (b *Backlog) Push(at, cost, depth time.Duration) {
	b.begin()
	d := charge(at, cost, depth)
	b.empty = d.of(b.empty)
	b.levels[0] = append(b.levels[0], d)
	if n := len(b.levels[0]); n%fan == 0 {
		b.grow(n>>fanBits - 1)
	}
}

func (b *Backlog) begin() {
	if !b.begun {
		b.begun, b.empty, b.before = true, beginning, beginning
	}
	if len(b.levels) == 0 {
		b.levels = make([][]drain, 1)
	}
}

// Set makes the i-th charge another one, of the same place in the order.
func (b *Backlog) Set(i int, at, cost, depth time.Duration) {
	i += b.head
	b.levels[0][i] = charge(at, cost, depth)
	for k := 1; k < len(b.levels); k++ {
		if i >>= fanBits; i >= len(b.levels[k]) {
			break
		}
		b.levels[k][i] = b.run(k, i)
	}
	b.recount()
}

// Insert adds a charge before the i-th.
func (b *Backlog) Insert(i int, at, cost, depth time.Duration) {
	b.begin()
	b.levels[0] = slices.Insert(b.levels[0], b.head+i, charge(at, cost, depth))
	b.grow((b.head + i) >> fanBits)
	b.recount()
}

// Remove takes the i-th charge back.
func (b *Backlog) Remove(i int) {
	b.levels[0] = slices.Delete(b.levels[0], b.head+i, b.head+i+1)
	b.grow((b.head + i) >> fanBits)
	b.recount()
}

// Before makes a charge that comes before all that can be changed, and cannot be changed
// itself.
func (b *Backlog) Before(at, cost, depth time.Duration) {
	b.begin()
	b.before = charge(at, cost, depth).of(b.before)
	b.recount()
}

// Drop makes the n oldest charges final: they count, and cannot be changed any more.
func (b *Backlog) Drop(n int) {
	if n == 0 {
		return
	}
	for _, d := range b.levels[0][b.head : b.head+n] {
		b.before = d.of(b.before)
	}
	b.head += n
	if live := b.Len(); b.head > live {
		b.levels[0] = slices.Delete(b.levels[0], 0, b.head)
		if c := cap(b.levels[0]); c > 1024 && live < c/8 {
			b.levels[0] = slices.Clone(b.levels[0])
		}
		b.head = 0
		b.grow(0)
	}
}

// grow makes the runs of all levels anew, from the given one of level 1 on.
func (b *Backlog) grow(from int) {
	for k := 1; ; k++ {
		whole := len(b.levels[k-1]) >> fanBits
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
		from >>= fanBits
	}
}

// run is the i-th node of a level, of those below it.
func (b *Backlog) run(k, i int) drain {
	below := b.levels[k-1][i<<fanBits : (i+1)<<fanBits]
	d := below[0]
	for _, next := range below[1:] {
		d = d.then(next)
	}
	return d
}

// recount works out the instant of being empty from all charges.
func (b *Backlog) recount() {
	b.empty = b.after(b.before, 0, b.head, len(b.levels[0]))
}

// after is x after the nodes i to j of a level, j excluded.
func (b *Backlog) after(x time.Duration, k, i, j int) time.Duration {
	level := b.levels[k]
	if k+1 < len(b.levels) {
		first, end := (i+fan-1)>>fanBits, j>>fanBits
		if first < end {
			for ; i < first<<fanBits; i++ {
				x = level[i].of(x)
			}
			x = b.after(x, k+1, first, end)
			i = end << fanBits
		}
	}
	for ; i < j; i++ {
		x = level[i].of(x)
	}
	return x
}
