package keyed

// queue is a heap of entries by the instant at which they are next looked at, as container/heap
// without its interface.
type queue []dueEntry

// dueEntry is an entry, and the Unix nanoseconds at which it may have expired. An entry that is
// used keeps its place until it comes to the top, so a charge costs nothing here.
type dueEntry struct {
	due   int64
	entry *entry
}

func (q *queue) push(d dueEntry) {
	*q = append(*q, d)
	q.up(len(*q) - 1)
}

// removeAt removes the element at index i.
func (q *queue) removeAt(i int) {
	last := len(*q) - 1
	(*q)[i] = (*q)[last]
	(*q)[last] = dueEntry{}
	*q = (*q)[:last]
	if i < last {
		q.fix(i)
	}
	if cap(*q) > 64 && len(*q) < cap(*q)/8 {
		*q = append(make(queue, 0, cap(*q)/4), *q...)
	}
}

// fix restores the order after a change of the element at index i.
func (q *queue) fix(i int) {
	q.up(i)
	q.down(i)
}

func (q *queue) up(i int) {
	for h := *q; i > 0; {
		parent := (i - 1) / 2
		if h[parent].due <= h[i].due {
			return
		}
		h[parent], h[i] = h[i], h[parent]
		i = parent
	}
}

func (q *queue) down(i int) {
	for h := *q; ; {
		child := 2*i + 1
		if child >= len(h) {
			return
		}
		if child+1 < len(h) && h[child+1].due < h[child].due {
			child++
		}
		if h[i].due <= h[child].due {
			return
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
}
