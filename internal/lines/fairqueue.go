package lines

import "container/heap"

// element is an element of a [fairQueue], which is a pointer as a rule.
type element[E any] interface {
	comparable

	// precedes reports whether the element comes before another one.
	precedes(other E) bool

	// at returns where the queue keeps the position of the element: counted from 1, and 0
	// while the element is in no queue. Only the queue changes it.
	at() *int
}

// fairQueue is a priority queue whose elements know their positions, so that any of them can be
// moved or removed in logarithmic time. An element is in one queue at a time. The zero value is an
// empty queue. A fairQueue is not safe for concurrent use.
type fairQueue[E element[E]] struct{ elements ordered[E] }

// Len returns the number of elements.
func (q *fairQueue[E]) Len() int { return len(q.elements) }

// First returns the element in front. The queue must not be empty.
func (q *fairQueue[E]) First() E { return q.elements[0] }

// Contains reports whether an element is in this queue.
func (q *fairQueue[E]) Contains(e E) bool {
	at := *e.at()
	return at > 0 && at <= len(q.elements) && q.elements[at-1] == e
}

// Put puts an element into the queue. One that is there moves to where it belongs.
func (q *fairQueue[E]) Put(e E) {
	if q.Contains(e) {
		heap.Fix(&q.elements, *e.at()-1)
		return
	}
	heap.Push(&q.elements, e)
}

// Remove takes an element out. One that is not there changes nothing.
func (q *fairQueue[E]) Remove(e E) {
	if q.Contains(e) {
		heap.Remove(&q.elements, *e.at()-1)
	}
}

// ordered is the elements as container/heap orders them.
type ordered[E element[E]] []E

func (o ordered[E]) Len() int { return len(o) }

func (o ordered[E]) Less(i, j int) bool { return o[i].precedes(o[j]) }

func (o ordered[E]) Swap(i, j int) {
	o[i], o[j] = o[j], o[i]
	*o[i].at(), *o[j].at() = i+1, j+1
}

// Push and Pop are for container/heap.
func (o *ordered[E]) Push(x any) {
	e := x.(E)
	*o = append(*o, e)
	*e.at() = len(*o)
}

func (o *ordered[E]) Pop() any {
	var none E
	last := len(*o) - 1
	e := (*o)[last]
	(*o)[last] = none
	*o = (*o)[:last]
	*e.at() = 0
	return e
}
