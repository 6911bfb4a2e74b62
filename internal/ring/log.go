package ring

import "slices"

// Log records how the entries of a queue differ from those that a store has, so that the store
// writes only what changed. A store attaches one with StartLog or StartStoredLog; a queue without
// one pays nothing. Entries that Drop removes are no change: the store knows by their time that
// they no longer count.
//
// A nil Log belongs to a store that has nothing of the queue. A Log is guarded by the same lock as
// its queue.
type Log[T any] struct {
	queue *Queue[T]

	// These are places in the queue's history.
	stored  int64 // the store has the entries before it
	storing int64 // the store will have the entries before it after the write under way

	corrections []Correction[T] // what has changed in the entries before storing
}

// Correction is a change among the entries that the store has: one is removed or added. An entry
// whose value changes is removed and added again.
type Correction[T any] struct {
	Value T
	Added bool
	ahead bool // of an entry that the store will only have after the write under way
}

// Changes is what a store has to write to have the entries of a queue as they are: it makes the
// corrections, in their order, and adds the entries.
type Changes[T any] struct {
	Corrected []Correction[T]
	Added     []T // in the queue's own storage; see Pin
}

// Log returns the log of the queue; nil when it has none.
func (q *Queue[T]) Log() *Log[T] { return q.log }

// StartLog returns the log of the queue. Where it has none it attaches one for a store that has
// none of the entries.
func (q *Queue[T]) StartLog() *Log[T] {
	if q.log == nil {
		q.log = &Log[T]{queue: q}
	}
	return q.log
}

// StartStoredLog attaches a log for a store that has all entries as they are.
func (q *Queue[T]) StartStoredLog() {
	q.log = &Log[T]{queue: q, stored: q.end(), storing: q.end()}
}

// Begin returns what the store has to write, and counts it as being written until End.
func (l *Log[T]) Begin() (c Changes[T]) {
	q := l.queue
	c.Corrected, l.corrections = l.corrections, nil
	skip := min(max(l.stored-q.dropped, 0), int64(q.Len()))
	c.Added = q.Values()[skip:]
	l.storing = q.end()
	return c
}

// End notes whether the store has what Begin returned. If not, the next Begin returns that again,
// and the corrections of entries that the store did not get are void.
func (l *Log[T]) End(ok bool, c Changes[T]) {
	if ok {
		l.stored = l.storing
		return
	}
	l.storing = l.stored
	l.corrections = append(c.Corrected, slices.DeleteFunc(l.corrections, func(c Correction[T]) bool { return c.ahead })...)
}

// UpToDate reports whether the store has the entries as they are.
func (l *Log[T]) UpToDate() bool {
	return l != nil && l.stored == l.queue.end() && len(l.corrections) == 0
}

// record notes that an entry at a place in the history goes or comes.
func (l *Log[T]) record(place int64, value T, added bool) {
	if place < l.storing {
		l.corrections = append(l.corrections, Correction[T]{value, added, place >= l.stored})
	}
}

// remove records that an entry is gone.
func (l *Log[T]) remove(place int64, was T) {
	if l != nil {
		l.record(place, was, false)
		l.shift(place, -1)
	}
}

// insert records that an entry has come, before the one that had its place.
func (l *Log[T]) insert(place int64, is T) {
	if l != nil {
		l.record(place, is, true)
		l.shift(place, 1)
	}
}

// shift moves the marks that lie behind a place in the history.
func (l *Log[T]) shift(place, by int64) {
	for _, mark := range []*int64{&l.stored, &l.storing} {
		if place < *mark {
			*mark += by
		}
	}
}
