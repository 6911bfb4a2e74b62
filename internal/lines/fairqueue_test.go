package lines

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

// item is an element of a queue that is ordered by its key.
type item struct {
	name     string
	key      int64
	position int
}

func (i *item) precedes(other *item) bool { return i.key < other.key }

func (i *item) at() *int { return &i.position }

func TestQueueKeepsOrderAndPositions(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var q fairQueue[*item]
	all := make([]*item, 40)
	for i := range all {
		all[i] = &item{name: string(rune('A' + i))}
	}
	in := make(map[*item]bool)
	for range 5000 {
		m := all[random.IntN(len(all))]
		switch random.IntN(3) {
		case 0, 1:
			m.key = random.Int64N(9)
			q.Put(m)
			in[m] = true
		case 2:
			q.Remove(m)
			delete(in, m)
		}
		check(t, &q)
		if q.Len() != len(in) {
			t.Fatalf("%d elements, want %d", q.Len(), len(in))
		}
		for _, m := range all {
			if q.Contains(m) != in[m] || (m.position > 0) != in[m] {
				t.Fatalf("%s: contained %v at %d, want %v", m.name, q.Contains(m), m.position, in[m])
			}
		}
	}
	var drained []*item
	for q.Len() > 0 {
		drained = append(drained, q.First())
		q.Remove(q.First())
	}
	if len(drained) != len(in) || !slices.IsSortedFunc(drained, func(a, b *item) int { return cmp.Compare(a.key, b.key) }) {
		t.Errorf("drained %d of %d, or out of order", len(drained), len(in))
	}
}

func TestQueueLeavesElementsOfOthersAlone(t *testing.T) {
	var q, other fairQueue[*item]
	a, b := &item{name: "a"}, &item{name: "b"}
	q.Put(a)
	other.Put(b)
	if q.Contains(b) {
		t.Error("contains an element of another queue")
	}
	if q.Remove(b); q.Len() != 1 || other.Len() != 1 || !other.Contains(b) {
		t.Errorf("%d and %d elements", q.Len(), other.Len())
	}
}

// check reports what is not a heap, or not where it says.
func check(t *testing.T, q *fairQueue[*item]) {
	t.Helper()
	for i, m := range q.elements {
		if m.position != i+1 {
			t.Fatalf("%s is at %d, and says %d", m.name, i+1, m.position)
		}
		if i > 0 && m.precedes(q.elements[(i-1)/2]) {
			t.Fatal("a heap is out of order")
		}
	}
}
