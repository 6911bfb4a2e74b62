// Package ring holds what a window of the limiter counts: a queue of timed entries that grows at
// the back and shrinks at the front, and a tree of the sums over the tokens of such entries. Both
// allocate nothing in their steady state.
package ring

import (
	"cmp"
	"slices"
	"sync/atomic"
)

// Queue holds values in the order of their instants, oldest first. It grows at the back and
// shrinks at the front, and it uses the room at the front again. Positions count from the oldest
// live entry, which has position 0.
//
// Instants are nanoseconds on any time line. They lie apart from the values because a caller may
// show the values to others, as one slice.
//
// The zero Queue is empty. It is not safe for concurrent use, but for what Pin says.
type Queue[T any] struct {
	at      row[int64] // the instants,
	vals    row[T]     // and the values, side by side
	dropped int64      // entries ever dropped: the place of the oldest in the whole history
	found   int64      // how many of the entries ever pushed Fill took over
	log     *Log[T]    // nil without a store that asks for changes
}

// Len returns the number of live entries.
func (q *Queue[T]) Len() int { return len(q.at.buf) - q.at.head }

// Values returns the live values in storage that the queue uses again: they are valid until the
// next call that changes it. The capacity is clipped, so that an append copies them.
func (q *Queue[T]) Values() []T { return q.vals.live() }

// Backs reports whether vals are the live values in the queue's own storage.
func (q *Queue[T]) Backs(vals []T) bool {
	return len(vals) == q.Len() && (len(vals) == 0 || &vals[0] == &q.vals.buf[q.vals.head])
}

// When returns the instant of the i-th oldest entry.
func (q *Queue[T]) When(i int) int64 { return q.at.buf[q.at.head+i] }

// end counts the entries ever pushed: it is the place of the next one in the history.
func (q *Queue[T]) end() int64 { return q.dropped + int64(q.Len()) }

// Before counts the entries earlier than cut.
func (q *Queue[T]) Before(cut int64) int {
	n, _ := slices.BinarySearch(q.at.buf[q.at.head:], cut)
	return n
}

// Pin promises that, as long as reading is true, the values that are live now stay in their
// storage as they are, so that they can be read beside calls that change the queue. Changes move
// the queue to other storage where they must. A later Pin replaces an earlier one.
func (q *Queue[T]) Pin(reading *atomic.Bool) { q.vals.pinned = reading }

// Push adds an entry. Its instant must not be earlier than those of the others.
func (q *Queue[T]) Push(at int64, v T) { *q.Add(at) = v }

// Add is Push for a value that is written in its place, whatever is there. That takes half the time
// where it has more than two words.
func (q *Queue[T]) Add(at int64) *T {
	times, vals := &q.at, &q.vals
	if len(times.buf) >= times.due {
		times.makeRoom()
	}
	if len(vals.buf) >= vals.due {
		vals.makeRoom()
	}
	times.buf = times.buf[:len(times.buf)+1]
	times.buf[len(times.buf)-1] = at
	vals.buf = vals.buf[:len(vals.buf)+1]
	return &vals.buf[len(vals.buf)-1]
}

// Value returns the value of the i-th oldest entry, which must not be changed.
func (q *Queue[T]) Value(i int) *T { return q.vals.at(i) }

// Edit returns the value of the i-th oldest entry, to be changed in its place. Who has changed it
// calls Edited.
func (q *Queue[T]) Edit(i int) *T {
	if q.vals.pinned != nil || q.log != nil {
		q.vals.own()
		q.record(i, false)
	}
	return q.vals.at(i)
}

// Edited follows the change of the i-th oldest entry.
func (q *Queue[T]) Edited(i int) {
	if q.vals.move != nil || q.log != nil {
		q.record(i, true)
		q.vals.changed(i)
	}
}

// record has the log, if there is one, know that the i-th oldest entry goes or comes.
func (q *Queue[T]) record(i int, added bool) {
	if q.log != nil {
		q.log.record(q.dropped+int64(i), *q.vals.at(i), added)
	}
}

// Remove takes the i-th oldest entry out, at the cost of those behind it.
func (q *Queue[T]) Remove(i int) {
	q.vals.own()
	place := q.dropped + int64(i)
	q.log.remove(place, q.vals.buf[q.vals.head+i])
	if place < q.found {
		q.found--
	}
	q.at.remove(i)
	q.vals.remove(i)
}

// Insert puts an entry behind all of its instant and of earlier ones, at the cost of those it
// comes before, and returns its position.
func (q *Queue[T]) Insert(at int64, v T) int {
	i := q.Before(at + 1)
	if i < q.Len() {
		q.vals.own()
	}
	place := q.dropped + int64(i)
	q.log.insert(place, v)
	if place < q.found {
		q.found++
	}
	q.at.insert(i, at)
	q.vals.insert(i, v)
	return i
}

// Last is Place of the newest entry.
func (q *Queue[T]) Last() uint32 { return uint32(q.end()) - 1 }

// Place names the i-th oldest entry, by its place in the whole history (its last bits).
func (q *Queue[T]) Place(i int) uint32 { return uint32(q.dropped) + uint32(i) }

// Placed returns the position of the entry that Place named, if one of the given instant is still
// there, as it nearly always is; else -1. Insert and Remove of older entries change places.
func (q *Queue[T]) Placed(place uint32, at int64) int {
	if i := int(int32(place - uint32(q.dropped))); i >= 0 && i < q.Len() && q.When(i) == at {
		return i
	}
	return -1
}

// Find returns the position of the first entry of the given instant that matches; -1 when none
// does.
func (q *Queue[T]) Find(at int64, matches func(*T) bool) int {
	return q.findBelow(q.Len(), at, matches)
}

// FindFilled is Find among the entries that Fill took over.
func (q *Queue[T]) FindFilled(at int64, matches func(*T) bool) int {
	return q.findBelow(int(max(q.found-q.dropped, 0)), at, matches)
}

func (q *Queue[T]) findBelow(end int, at int64, matches func(*T) bool) int {
	for i := q.Before(at); i < end && q.When(i) == at; i++ {
		if matches(&q.vals.buf[q.vals.head+i]) {
			return i
		}
	}
	return -1
}

// Drop removes the n oldest entries and gives back storage that has become far
// larger than what is left.
func (q *Queue[T]) Drop(n int) {
	q.at.drop(n)
	q.vals.drop(n)
	q.dropped += int64(n)
}

// Fill makes copies of vals the entries of an empty queue, sorted by the instants that instantOf
// gives, which is called once for each in the order of vals and may change it. It leaves room for
// as many again, so that the next Push need not move them.
func (q *Queue[T]) Fill(vals []T, instantOf func(*T) int64) {
	q.Restore(len(vals), func(i int) (int64, T) {
		v := vals[i]
		at := instantOf(&v)
		return at, v
	})
	if at, vals := q.at.buf, q.vals.buf; !slices.IsSorted(at) {
		type entry struct {
			at  int64
			val T
		}
		entries := make([]entry, len(vals))
		for i := range vals {
			entries[i] = entry{at[i], vals[i]}
		}
		slices.SortStableFunc(entries, func(a, b entry) int { return cmp.Compare(a.at, b.at) })
		for i, e := range entries {
			at[i], vals[i] = e.at, e.val
		}
	}
	q.found = int64(len(vals))
}

// Restore makes n entries those of an empty queue, whose instants are in order. It leaves as much
// room as Fill.
func (q *Queue[T]) Restore(n int, entry func(i int) (at int64, v T)) {
	if n == 0 {
		return
	}
	at, vals := Room[int64](roomFor(n))[:n], Room[T](roomFor(n))[:n]
	for i := range n {
		at[i], vals[i] = entry(i)
	}
	q.at.fill(at)
	q.vals.fill(vals)
}
