package chain

import (
	"math/rand/v2"
	"slices"
	"testing"
)

type element struct {
	id  int
	all Links[element]
	odd Links[element]
}

func inAll(e *element) *Links[element] { return &e.all }
func inOdd(e *element) *Links[element] { return &e.odd }

// ids returns the elements of a chain, in order; forward and backward they must be the same.
func ids(t *testing.T, c *Chain[element], links func(*element) *Links[element]) (got []int) {
	for e := c.First(); e != nil; e = links(e).after {
		got = append(got, e.id)
	}
	var back []int
	for e := c.last; e != nil; e = links(e).before {
		back = append(back, e.id)
	}
	if slices.Reverse(back); !slices.Equal(got, back) {
		t.Fatalf("%v forward, %v backward", got, back)
	}
	return got
}

// Two chains with common elements are what two slices are.
func TestChainsAreSlices(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var all, odd Chain[element]
	var elements []*element
	for id := range 3000 {
		if n := len(elements); n > 0 && random.IntN(2) == 0 {
			at := random.IntN(n)
			e := elements[at]
			elements = slices.Delete(elements, at, at+1)
			if all.Remove(e, inAll); e.id%2 == 1 {
				odd.Remove(e, inOdd)
			}
			if e.all != (Links[element]{}) || e.odd != (Links[element]{}) {
				t.Fatalf("%d keeps its links", e.id)
			}
		} else {
			e := &element{id: id}
			elements = append(elements, e)
			if all.Add(e, inAll); id%2 == 1 {
				odd.Add(e, inOdd)
			}
		}
		var want, wantOdd []int
		for _, e := range elements {
			if want = append(want, e.id); e.id%2 == 1 {
				wantOdd = append(wantOdd, e.id)
			}
		}
		if got, gotOdd := ids(t, &all, inAll), ids(t, &odd, inOdd); !slices.Equal(got, want) || !slices.Equal(gotOdd, wantOdd) {
			t.Fatalf("%v and %v, want %v and %v", got, gotOdd, want, wantOdd)
		}
	}
}
