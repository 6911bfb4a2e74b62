package limit

import (
	"slices"
	"testing"
)

// A log takes memory by doubling, and never for more than its limit.
func TestRingGrowsToTheLimit(t *testing.T) {
	for _, c := range []struct {
		limit int
		sizes []int
	}{
		{1, []int{1}},
		{63, []int{63}},
		{64, []int{64}},
		{65, []int{64, 65}},
		{128, []int{64, 128}},
		{129, []int{64, 129}},
		{1000, []int{64, 128, 256, 512, 1000}},
	} {
		r := ring{entries: make([]record, min(c.limit, firstEntries))}
		sizes := []int{len(r.entries)}
		for i := range c.limit {
			r.insert(int64(i), 1, c.limit)
			if size := len(r.entries); size != sizes[len(sizes)-1] {
				sizes = append(sizes, size)
			}
		}
		if !slices.Equal(sizes, c.sizes) {
			t.Errorf("limit %d: room for %v, want %v", c.limit, sizes, c.sizes)
		}
	}
}
