package limit

import (
	"cmp"
	"slices"
	"time"
)

// Holder is a Limiter that can set units aside until it is known whether they count. All
// Limiters of this package are Holders.
//
// HoldAt decides like TakeAt. The units that it admits are kept apart from the charged
// ones: until the Hold ends they take their full place, and neither drain nor leave a
// window. Holds may end in any order. (A Queue holds slots, which pass with time: see
// Queue.HoldAt.)
type Holder interface {
	Limiter
	HoldAt(now time.Time, n int) (Hold, Decision)
}

// Hold is a number of units set aside. The first call of Commit or Cancel ends it; later calls do
// nothing. The zero Hold, which comes with a refusal, has ended. A Hold that is never ended keeps
// its units for ever. Copies of a Hold are the same Hold. Its methods are safe for concurrent use.
type Hold struct {
	owner holdOwner
	id    uint64
}

// holdOwner ends the holds of a limiter, by their number. Holds that have ended are
// ignored.
type holdOwner interface {
	end(id uint64, commit bool)
}

// Commit charges the units as of the instant at which they were set aside: the limiter is
// then as if TakeAt had charged them at that instant.
func (h Hold) Commit() { h.finish(true) }

// Cancel gives the units back: the limiter is then as if they had never been set aside.
func (h Hold) Cancel() { h.finish(false) }

// heldBy returns the hold of a number, and the zero Hold for 0.
func heldBy(owner holdOwner, id uint64) Hold {
	if id == 0 {
		return Hold{}
	}
	return Hold{owner, id}
}

func (h Hold) finish(commit bool) {
	if h.owner != nil {
		h.owner.end(h.id, commit)
	}
}

// open is a hold that has not ended. S is the algorithm's own data of a hold.
type open[S any] struct {
	id   uint64
	at   int64 // when it was made
	n    int   // units
	data S
}

// holds are the open holds of a limiter, in the order in which they were made. The
// limiter's lock guards them.
type holds[S any] struct {
	open  []open[S]
	units int    // of all open holds
	last  uint64 // the number of the latest hold
}

// add adds a hold and returns its number.
func (h *holds[S]) add(at int64, n int, data S) (id uint64) {
	h.last++
	h.units += n
	h.open = append(h.open, open[S]{h.last, at, n, data})
	return h.last
}

// remove removes a hold, and returns it and the index in open that it had; ok is false when it
// has ended.
func (h *holds[S]) remove(id uint64) (o open[S], i int, ok bool) {
	i, ok = slices.BinarySearchFunc(h.open, id, func(o open[S], id uint64) int { return cmp.Compare(o.id, id) })
	if ok {
		o = h.open[i]
		h.units -= o.n
		h.open = slices.Delete(h.open, i, i+1)
	}
	return o, i, ok
}
