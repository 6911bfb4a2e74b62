package limit

import (
	"cmp"
	"slices"
	"time"
)

// Holder is a Limiter that can set units aside until it is known whether they count.
// All Limiters of this package are Holders.
//
// HoldAt decides like TakeAt. What it admits is kept apart from what is charged: until
// the Hold ends it takes its full place, however long that is, and it does not drain or
// leave a window. Holds may end in any order. (What a Queue holds is slots, and they come
// and go with time: see Queue.HoldAt.)
type Holder interface {
	Limiter
	HoldAt(now time.Time, n int) (Hold, Decision)
}

// Hold is units that are set aside. One of Commit and Release ends it; whichever comes
// second does nothing. The zero Hold, which comes with a refusal, has ended. A Hold that
// nobody ends keeps its place for ever. Copies of a Hold are the same Hold. Its methods
// are safe for concurrent use.
type Hold struct {
	owner holdOwner
	id    uint64
}

// holdOwner ends the holds of a limiter. It knows them by their number and ignores
// those that have ended.
type holdOwner interface {
	end(id uint64, commit bool)
}

// Commit charges what is on hold, as of the instant at which it was put there: the
// limiter is then as if TakeAt had charged it at that instant.
func (h Hold) Commit() { h.finish(true) }

// Release gives back what is on hold: the limiter is then as if it had never been.
func (h Hold) Release() { h.finish(false) }

// heldBy is the hold of a number; 0 is none.
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

// open is a hold that has not ended. S is what an algorithm notes beside it.
type open[S any] struct {
	id   uint64
	at   int64 // when it was made
	n    int
	note S
}

// holds are the holds of a limiter that have not ended, in the order in which they were
// made. The limiter's lock guards them.
type holds[S any] struct {
	open  []open[S]
	units int // of all of them
	last  uint64
}

// add notes a hold and returns its number.
func (h *holds[S]) add(at int64, n int, note S) (id uint64) {
	h.last++
	h.units += n
	h.open = append(h.open, open[S]{h.last, at, n, note})
	return h.last
}

// find returns the place of a hold in open; ok is false when it has ended.
func (h *holds[S]) find(id uint64) (i int, ok bool) {
	return slices.BinarySearchFunc(h.open, id, func(o open[S], id uint64) int { return cmp.Compare(o.id, id) })
}

// remove forgets the hold at a place.
func (h *holds[S]) remove(i int) open[S] {
	o := h.open[i]
	h.units -= o.n
	h.open = slices.Delete(h.open, i, i+1)
	return o
}
