package lines

import (
	"cmp"

	"dappco.re/go/core/go-ratelimit/internal/account"
)

// fifo is lines in the order in which they were put.
type fifo struct {
	all   []*line
	taken int // of all
}

func (q *fifo) put(g *line) { q.all = append(q.all, g) }

// take returns the first; nil for none.
func (q *fifo) take() *line {
	if q.taken == len(q.all) {
		q.all, q.taken = q.all[:0], 0
		return nil
	}
	g := q.all[q.taken]
	q.all[q.taken] = nil
	q.taken++
	return g
}

// timed is something that is to be looked at at an instant.
type timed interface {
	due() int64
	name() (string, int64) // which orders those of one instant
	position() *int        // where the queue keeps its position, counted from 1; 0 for not
}

func (g *line) due() int64            { return g.restAt }
func (g *line) name() (string, int64) { return g.account.Name, 0 }
func (g *line) position() *int        { return &g.at }

func (w *Waiter) due() int64            { return w.Patient }
func (w *Waiter) name() (string, int64) { return "", w.Seq }
func (w *Waiter) position() *int        { return &w.at }

// queue is what is to be looked at, the soonest first: a heap.
type queue[T timed] struct{ heap []T }

// next returns the instant at which the first is due; account.Never for none.
func (q *queue[T]) next() int64 {
	if len(q.heap) == 0 {
		return account.Never
	}
	return q.heap[0].due()
}

// take returns the first that is due at an instant.
func (q *queue[T]) take(instant int64) (first T, ok bool) {
	if q.next() > instant {
		return first, false
	}
	first = q.heap[0]
	q.remove(first)
	return first, true
}

func (q *queue[T]) put(t T) {
	q.heap = append(q.heap, t)
	*t.position() = len(q.heap)
	q.up(len(q.heap) - 1)
}

// remove takes one out, if it is there.
func (q *queue[T]) remove(t T) {
	i := *t.position() - 1
	if i < 0 {
		return
	}
	last := len(q.heap) - 1
	q.swap(i, last)
	var none T
	q.heap[last] = none
	q.heap = q.heap[:last]
	*t.position() = 0
	if i < last {
		q.up(i)
		q.down(i)
	}
}

func (q *queue[T]) up(i int) {
	for i > 0 && q.before(i, (i-1)/2) {
		q.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
}

func (q *queue[T]) down(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(q.heap); child++ {
			if q.before(child, least) {
				least = child
			}
		}
		if least == i {
			return
		}
		q.swap(i, least)
		i = least
	}
}

func (q *queue[T]) before(i, j int) bool {
	a, b := q.heap[i], q.heap[j]
	if a.due() != b.due() {
		return a.due() < b.due()
	}
	name, n := a.name()
	other, m := b.name()
	return cmp.Or(cmp.Compare(name, other), cmp.Compare(n, m)) < 0
}

func (q *queue[T]) swap(i, j int) {
	q.heap[i], q.heap[j] = q.heap[j], q.heap[i]
	*q.heap[i].position(), *q.heap[j].position() = i+1, j+1
}
