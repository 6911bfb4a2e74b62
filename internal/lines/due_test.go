package lines

import (
	"container/heap"
	"math/rand/v2"
	"slices"
	"testing"
)

type instants []int

func (h instants) Len() int           { return len(h) }
func (h instants) Less(i, j int) bool { return h[i] < h[j] }
func (h instants) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *instants) Push(at any)       { *h = append(*h, at.(int)) }
func (h *instants) Pop() any          { panic("nobody takes one") }

// The first of some in a heap is found as by a look at all of it, and none that is due later than
// asked for is looked at.
func TestDueOf(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		var all instants
		for range random.IntN(40) {
			heap.Push(&all, random.IntN(100))
		}
		before, divisor := int64(random.IntN(120)), 1+random.IntN(9)
		is := func(at int) bool {
			if int64(at) >= before {
				t.Errorf("%d is looked at, which is not before %d", at, before)
			}
			return at%divisor == 0
		}
		want := before
		for _, at := range all {
			if at%divisor == 0 {
				want = min(want, int64(at))
			}
		}
		if got := DueOf(slices.Clone(all), before, func(at int) int64 { return int64(at) }, is); got != want {
			t.Fatalf("of %v before %d, those that %d divides: %d, want %d", all, before, divisor, got, want)
		}
	}
}
