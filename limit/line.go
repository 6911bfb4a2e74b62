package limit

import "slices"

// line is requests that wait: first come, first served.
type line []*waiter

// waiter is a request that waits.
type waiter struct {
	turn          chan struct{} // closed when it is the first one
	start, length int64         // in a Queue: of its slots, which can move
}

func (w *waiter) end() int64 { return w.start + w.length }

// join adds a waiter.
func (l *line) join(w *waiter) {
	w.turn = make(chan struct{})
	*l = append(*l, w)
	if len(*l) == 1 {
		close(w.turn)
	}
}

// leave removes a waiter, and returns the index that it had.
func (l *line) leave(w *waiter) (i int) {
	i = slices.Index(*l, w)
	*l = slices.Delete(*l, i, i+1)
	if i == 0 && len(*l) > 0 {
		close((*l)[0].turn)
	}
	return i
}
