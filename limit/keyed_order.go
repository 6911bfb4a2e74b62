package limit

import "container/heap"

// recency is a line of entries in the order in which they got their turn. A use does not
// move an entry: whoever looks at the old end gives those that were used since a new turn.
type recency[K comparable] struct {
	newest, oldest *entry[K]
}

// pushLocked puts an entry at the new end.
func (r *recency[K]) pushLocked(e *entry[K], turn int64) {
	e.turn = turn
	e.newer, e.older = nil, r.newest
	if r.newest == nil {
		r.oldest = e
	} else {
		r.newest.newer = e
	}
	r.newest = e
}

func (r *recency[K]) removeLocked(e *entry[K]) {
	if e.newer == nil {
		r.newest = e.older
	} else {
		e.newer.older = e.older
	}
	if e.older == nil {
		r.oldest = e.newer
	} else {
		e.older.newer = e.newer
	}
	e.newer, e.older = nil, nil
}

// renewLocked gives an entry of the line a new turn.
func (r *recency[K]) renewLocked(e *entry[K], turn int64) {
	r.removeLocked(e)
	r.pushLocked(e, turn)
}

// recoveries is a heap of entries, by when they will have recovered. An entry that is
// charged keeps its place until it comes to the top, so a charge costs nothing here. It
// lies in chunks, so that no request waits for all of it to move.
type recoveries[K comparable] struct {
	chunks []*[recoveryChunk]recovery[K]
	size   int
}

const recoveryChunk = 256

type recovery[K comparable] struct {
	due   tick // when the entry will have recovered, as of when it was put in its place
	entry *entry[K]
}

var _ heap.Interface = (*recoveries[int])(nil)

func (r *recoveries[K]) at(i int) *recovery[K] {
	return &r.chunks[uint(i)/recoveryChunk][uint(i)%recoveryChunk]
}

func (r *recoveries[K]) Len() int           { return r.size }
func (r *recoveries[K]) Less(i, j int) bool { return r.at(i).due.before(r.at(j).due) }

func (r *recoveries[K]) Swap(i, j int) {
	a, b := r.at(i), r.at(j)
	*a, *b = *b, *a
	a.entry.place, b.entry.place = i, j
}

// Push adds an entry at the end.
func (r *recoveries[K]) Push(x any) {
	e := x.(*entry[K])
	e.place = r.size
	if r.size == recoveryChunk*len(r.chunks) {
		r.chunks = append(r.chunks, new([recoveryChunk]recovery[K]))
	}
	r.size++
	*r.at(e.place) = recovery[K]{e.recovered, e}
}

// Pop removes the entry at the end. It keeps one empty chunk for the next Push.
func (r *recoveries[K]) Pop() any {
	r.size--
	last := r.at(r.size)
	e := last.entry
	*last = recovery[K]{}
	e.place = -1
	if spare := len(r.chunks) - 1; r.size+recoveryChunk <= recoveryChunk*spare {
		r.chunks[spare] = nil
		r.chunks = r.chunks[:spare]
	}
	return e
}

// renewLocked puts all entries in their places as of now, in linear time.
func (r *recoveries[K]) renewLocked() {
	for i := range r.size {
		p := r.at(i)
		p.entry.mu.Lock()
		p.due = p.entry.recovered
		p.entry.mu.Unlock()
	}
	heap.Init(r)
}
