package limit

import (
	"container/heap"
	"container/list"
	"time"
)

// entry is the limiter of a key. The lock of its Keyed guards the fields that are not
// marked as fixed.
type entry[K comparable] struct {
	key     K         // fixed
	limiter Limiter   // fixed
	floor   time.Time // fixed: an earlier instant counts as this
	waiter  *caller   // fixed once it is not nil

	use       *list.Element
	last      time.Time // when it was used last
	users     int       // requests that have entered, waiters and holds
	charged   bool      // if not, the entry goes with its last user
	recovered time.Time // when the limiter will be as new, if nothing else is charged

	due   time.Time // recovered, when the entry was put into its place
	place int       // in recoveries, -1 for none
}

// isFree reports whether nothing is lost if the entry is forgotten at now.
func (e *entry[K]) isFree(now time.Time) bool {
	return e.users == 0 && !now.Before(e.recovered)
}

func (e *entry[K]) instant(now time.Time) time.Time {
	if now.Before(e.floor) {
		return e.floor
	}
	return now
}

// TakeAt is that of the limiter.
func (e *entry[K]) TakeAt(now time.Time, n int) Decision {
	return e.limiter.TakeAt(e.instant(now), n).asOf(e.floor.Sub(now))
}

func (e *entry[K]) peekAt(now time.Time, _ int) Decision { return e.TakeAt(now, 0) }

// watch returns false: a limiter without a line of its own may notify nobody of its holds.
func (e *entry[K]) watch(chan struct{}) bool { return false }
func (e *entry[K]) unwatch(chan struct{})    {}

// recoveries is a heap of entries, by when they will have recovered. An entry that is
// charged keeps its place until it comes to the top, so a charge costs nothing here.
type recoveries[K comparable] []*entry[K]

var _ heap.Interface = (*recoveries[int])(nil)

func (r recoveries[K]) Len() int           { return len(r) }
func (r recoveries[K]) Less(i, j int) bool { return r[i].due.Before(r[j].due) }

func (r recoveries[K]) Swap(i, j int) {
	r[i], r[j] = r[j], r[i]
	r[i].place, r[j].place = i, j
}

// Push adds an entry at the end.
func (r *recoveries[K]) Push(x any) {
	e := x.(*entry[K])
	e.due, e.place = e.recovered, len(*r)
	*r = append(*r, e)
}

// Pop removes the entry at the end.
func (r *recoveries[K]) Pop() any {
	last := len(*r) - 1
	e := (*r)[last]
	(*r)[last] = nil
	*r = (*r)[:last]
	e.place = -1
	return e
}

// keyedHold is a hold of the limiter of a key, whose entry stays until the hold ends. The
// lock of its Keyed guards ended.
type keyedHold[K comparable] struct {
	keyed *Keyed[K]
	entry *entry[K]
	hold  Hold
	at    time.Time
	ended bool
}

func (h *keyedHold[K]) end(_ uint64, commit bool) {
	h.keyed.mu.Lock()
	ended := h.ended
	h.ended = true
	h.keyed.mu.Unlock()
	if ended {
		return
	}
	h.hold.finish(commit)
	// The charge counts as of h.at, so its recovery, seen from there, is the same at any
	// time.
	h.keyed.leave(h.entry, h.at, h.entry.limiter.TakeAt(h.at, 0), 0)
}
