package ratelimit

import (
	"cmp"
	"slices"
	"sync/atomic"
)

// minRoom is the smallest capacity that a queue allocates.
const minRoom = 8

// timedQueue holds values in the order of the instants at which they were
// charged, oldest first. It grows at the back and shrinks at the front, and it
// uses the room at the front again, so that a window in its steady state
// allocates nothing.
//
// The instants are nanoseconds on the limiter's own time line. They lie apart
// from the values because the values are on show in UsageStats, where the wall
// time must stay what it was when it was recorded.
type timedQueue[T any] struct {
	at      []int64 // at[head:] and vals[head:] are the live entries
	vals    []T
	head    int
	dropped int // entries ever dropped: head's position in the whole history

	// pinned, where it is set and true, says that vals is read without the lock
	// and must not be overwritten.
	pinned *atomic.Bool

	// These are places in the whole history, as dropped is.
	found   int // before it are the entries that the queue was filled with
	stored  int // before it are those that the database has,
	storing int // and those that it will have once a Persist is through

	corrections []correction[T] // what has changed in the entries before storing
}

// correction is the change of an entry that the database has: it goes or it
// comes. One that changes goes and comes again.
type correction[T any] struct {
	val   T
	comes bool
	fresh bool // the database does not have it before the Persist under way is through
}

func (q *timedQueue[T]) len() int { return len(q.at) - q.head }

// live returns the entries still held. Its capacity is clipped so that a
// caller's append cannot write into the queue's own room.
func (q *timedQueue[T]) live() []T { return slices.Clip(q.vals[q.head:]) }

// when returns the instant of the i-th oldest entry.
func (q *timedQueue[T]) when(i int) int64 { return q.at[q.head+i] }

// total counts the entries ever pushed. It names a point in the history that
// stays valid while entries leave.
func (q *timedQueue[T]) total() int { return q.dropped + q.len() }

// since returns the live entries pushed after the point that total named.
func (q *timedQueue[T]) since(total int) []T {
	skip := min(max(total-q.dropped, 0), q.len())
	return q.vals[q.head+skip:]
}

// before counts the entries charged earlier than cut.
func (q *timedQueue[T]) before(cut int64) int {
	n, _ := slices.BinarySearch(q.at[q.head:], cut)
	return n
}

func (q *timedQueue[T]) push(at int64, v T) {
	if len(q.at) == cap(q.at) {
		q.makeRoom()
	}
	q.at = append(q.at, at)
	q.vals = append(q.vals, v)
}

// makeRoom slides the live entries to the front where that frees at least half
// of the storage, and doubles the storage otherwise: either way the cost is
// spread over at least as many pushes as entries are moved.
func (q *timedQueue[T]) makeRoom() {
	if q.head > q.len() && (q.pinned == nil || !q.pinned.Load()) {
		n := copy(q.at, q.at[q.head:])
		copy(q.vals, q.vals[q.head:])
		q.at, q.vals, q.head = q.at[:n], q.vals[:n], 0
		return
	}
	q.resize(max(2*q.len(), minRoom))
}

func (q *timedQueue[T]) resize(room int) {
	q.at, q.vals, q.head = moved(q.at[q.head:], room), moved(q.vals[q.head:], room), 0
	q.pinned = nil
}

// own makes sure that nobody reads the values without the lock, so that one may
// be changed in place. While somebody does, it moves them all: once for each
// Persist, and only where a reservation is settled meanwhile.
func (q *timedQueue[T]) own() {
	if q.pinned != nil && q.pinned.Load() {
		q.resize(cap(q.at))
	}
}

// correct notes a change of the entry at a place in the history.
func (q *timedQueue[T]) correct(place int, val T, comes bool) {
	if place < q.storing {
		q.corrections = append(q.corrections, correction[T]{val, comes, place >= q.stored})
	}
}

// set changes the i-th oldest entry.
func (q *timedQueue[T]) set(i int, v T) {
	q.own()
	q.correct(q.dropped+i, q.vals[q.head+i], false)
	q.correct(q.dropped+i, v, true)
	q.vals[q.head+i] = v
}

// startStoring begins to write the entries since stored into the database, and
// returns the corrections that have to be made there before.
func (q *timedQueue[T]) startStoring() (corrections []correction[T]) {
	corrections, q.corrections = q.corrections, nil
	q.storing = q.total()
	return corrections
}

// allStored notes that the database has what the queue was filled with.
func (q *timedQueue[T]) allStored() { q.stored, q.storing = q.found, q.found }

// isStored reports whether the database has the entries as they are.
func (q *timedQueue[T]) isStored() bool { return q.stored == q.total() && len(q.corrections) == 0 }

// isKnown reports whether the database has, or had, anything of the queue.
func (q *timedQueue[T]) isKnown() bool { return q.storing > 0 || len(q.corrections) > 0 }

// endStoring notes whether the database has what startStoring began to write. If
// not, the corrections are still to be made, and those of entries that it does
// not have are void.
func (q *timedQueue[T]) endStoring(ok bool, corrections []correction[T]) {
	if ok {
		q.stored = q.storing
		return
	}
	q.storing = q.stored
	q.corrections = append(corrections, slices.DeleteFunc(q.corrections, func(c correction[T]) bool { return c.fresh })...)
}

// remove takes the i-th oldest entry out, at the cost of those behind it.
func (q *timedQueue[T]) remove(i int) {
	q.own()
	q.correct(q.dropped+i, q.vals[q.head+i], false)
	q.shift(q.dropped+i, -1)
	i += q.head
	q.at = append(q.at[:i], q.at[i+1:]...)
	q.vals = append(q.vals[:i], q.vals[i+1:]...)
}

// insert puts an entry behind all that were charged no later, at the cost of
// those it comes before, and returns which it then is.
func (q *timedQueue[T]) insert(at int64, v T) int {
	place := q.before(at + 1)
	if place < q.len() {
		q.own()
	}
	q.correct(q.dropped+place, v, true)
	q.shift(q.dropped+place, 1)
	q.push(at, v)
	i := q.head + place
	copy(q.at[i+1:], q.at[i:])
	copy(q.vals[i+1:], q.vals[i:])
	q.at[i], q.vals[i] = at, v
	return place
}

// shift moves the marks that lie behind a place in the history.
func (q *timedQueue[T]) shift(place, by int) {
	for _, mark := range []*int{&q.found, &q.stored, &q.storing} {
		if place < *mark {
			*mark += by
		}
	}
}

// placed returns which entry was pushed to a place in the history (its last bits),
// if one of the given instant is still there, as it nearly always is; else -1.
func (q *timedQueue[T]) placed(place uint32, at int64) int {
	if i := int(int32(place - uint32(q.dropped))); i >= 0 && i < q.len() && q.when(i) == at {
		return i
	}
	return -1
}

// find returns which entry of the given instant matches; -1 when none does. Away
// from home it can only be one of those that the queue was filled with. Entries
// that match are alike.
func (q *timedQueue[T]) find(atHome bool, at int64, matches func(*T) bool) int {
	end := q.len()
	if !atHome {
		end = max(q.found-q.dropped, 0)
	}
	for i := q.before(at); i < end && q.when(i) == at; i++ {
		if matches(&q.vals[q.head+i]) {
			return i
		}
	}
	return -1
}

// moved copies live into storage of the given capacity. It touches all of the
// storage: the system provides memory page by page as it is first written to,
// and it is better to pay for that here than in the pushes to come.
func moved[T any](live []T, room int) []T {
	buf := make([]T, room)
	clear(buf[copy(buf, live):])
	return buf[:len(live)]
}

// drop removes the n oldest entries and gives back storage that has become far
// larger than what is left.
func (q *timedQueue[T]) drop(n int) {
	q.head += n
	q.dropped += n
	switch live := q.len(); {
	case live == 0:
		q.at, q.vals, q.head = nil, nil, 0
	case cap(q.at) > 1024 && live < cap(q.at)/8:
		q.resize(2 * live)
	}
}

// withRoom copies vals, with room for as many again: what was loaded is indexed
// without the lock, and the next charge should not have to move it under it.
func withRoom[T any](vals []T) []T {
	if len(vals) == 0 {
		return nil
	}
	return moved(vals, max(2*len(vals), minRoom))
}

// fill takes vals over, in the order of their instants.
func (q *timedQueue[T]) fill(vals []T, instantOf func(*T) int64) {
	at := make([]int64, len(vals), cap(vals))
	for i := range vals {
		at[i] = instantOf(&vals[i])
	}
	if !slices.IsSorted(at) {
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
	q.at, q.vals, q.found = at, vals, len(vals)
}
