package engine

import (
	"cmp"
	"container/heap"
	"slices"

	"dappco.re/go/core/go-ratelimit/internal/account"
)

// calls are the open calls.
type calls struct {
	all  []*account.Call              // in any order: each knows its place
	byID map[account.ID]*account.Call // of those that a process has numbered
}

func (o *calls) add(c *account.Call) {
	c.OpenIndex = len(o.all)
	o.all = append(o.all, c)
	if c.ID.Process != 0 {
		if o.byID == nil {
			o.byID = make(map[account.ID]*account.Call)
		}
		o.byID[c.ID] = c
	}
}

func (o *calls) remove(c *account.Call) {
	end := len(o.all) - 1
	if last := o.all[end]; last != c {
		o.all[c.OpenIndex] = last
		last.OpenIndex = c.OpenIndex
	}
	o.all = o.all[:end] // the pointer behind it is to a call that is soon used again
	if c.ID.Process != 0 {
		delete(o.byID, c.ID)
	}
}

// Calls visits the open calls, in any order.
func (e *Engine) Calls(yield func(*account.Call) bool) {
	for _, c := range e.open.all {
		if !yield(c) {
			return
		}
	}
}

// Open visits the open calls in the order of their admission.
func (e *Engine) Open(yield func(*account.Call) bool) {
	all := slices.Clone(e.open.all)
	slices.SortFunc(all, func(a, b *account.Call) int { return cmp.Compare(a.Serial, b.Serial) })
	for _, c := range all {
		if !yield(c) {
			return
		}
	}
}

// Call returns the open call of a number; nil for none.
func (e *Engine) Call(id account.ID) *account.Call { return e.open.byID[id] }

// callsTogether is how many calls are allocated together.
const callsTogether = 32

// newCall returns an empty call.
func (e *Engine) newCall() *account.Call {
	if len(e.free) == 0 {
		together := make([]account.Call, callsTogether)
		for i := range together {
			e.free = append(e.free, &together[i])
		}
	}
	last := len(e.free) - 1
	c := e.free[last]
	e.free = e.free[:last]
	e.serial++
	c.Serial, c.Ended = e.serial, false
	return c
}

// release gives a call back that has ended, and that nobody asks for any more.
func (e *Engine) release(c *account.Call) {
	c.Reset()
	e.free = append(e.free, c)
}

// holds are the calls that expire, the soonest first.
type holds []*account.Call

func (h *holds) due() int64 {
	if len(*h) == 0 {
		return account.Never
	}
	return (*h)[0].HoldUntil
}

func (h *holds) put(c *account.Call) { heap.Push(h, c) }

// take returns the first that has expired; nil for none.
func (h *holds) take(instant int64) *account.Call {
	if h.due() > instant {
		return nil
	}
	return (*h)[0]
}

// remove takes a call out, if it is there.
func (h *holds) remove(c *account.Call) {
	if c.HoldUntil != 0 {
		heap.Remove(h, c.HeapIndex)
		c.HoldUntil = 0
	}
}

// Len, Less, Swap, Push and Pop are those of a heap.
func (h holds) Len() int { return len(h) }

// Less orders calls by the instant at which they expire, and then by their admission.
func (h holds) Less(i, j int) bool {
	if h[i].HoldUntil != h[j].HoldUntil {
		return h[i].HoldUntil < h[j].HoldUntil
	}
	return h[i].Serial < h[j].Serial
}

// Swap swaps two calls.
func (h holds) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].HeapIndex, h[j].HeapIndex = i, j
}

// Push adds a call at the end.
func (h *holds) Push(c any) {
	call := c.(*account.Call)
	call.HeapIndex = len(*h)
	*h = append(*h, call)
}

// Pop takes the last call out.
func (h *holds) Pop() any {
	last := len(*h) - 1
	c := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return c
}
