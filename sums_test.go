package ratelimit

import (
	"math"
	"math/rand/v2"
	"testing"
)

// naiveSums is the same as sums, counted out.
type naiveSums []int

func (n naiveSums) sum() int {
	total := 0
	for _, c := range n {
		total = addSaturated(total, c)
	}
	return total
}

func (n naiveSums) lastOver(budget int) int {
	for i := len(n) - 1; i >= 0; i-- {
		if n[i:].sum() > budget {
			return i
		}
	}
	return -1
}

func TestSumsAgreeWithCounting(t *testing.T) {
	for seed := range uint64(40) {
		random := rand.New(rand.NewPCG(seed, 0))
		var s sums
		var naive naiveSums
		huge := seed%4 == 0
		for range 3000 {
			switch {
			case random.IntN(10) < 7 || len(naive) == 0:
				c := random.IntN(100)
				if huge && random.IntN(20) == 0 {
					c = math.MaxInt - random.IntN(3)
				}
				s.push(c)
				naive = append(naive, c)
			default:
				n := random.IntN(min(len(naive), 60) + 1)
				s.drop(n)
				naive = naive[n:]
			}
			if s.total != naive.sum() {
				t.Fatalf("seed %d: total %d, want %d of %d counts", seed, s.total, naive.sum(), len(naive))
			}
			if len(naive) > 0 && random.IntN(20) == 0 {
				budget := random.IntN(addSaturated(naive.sum(), 1))
				if got, want := s.lastOver(budget), naive.lastOver(budget); got != want {
					t.Fatalf("seed %d: lastOver(%d) = %d, want %d of %d counts", seed, budget, got, want, len(naive))
				}
				i := random.IntN(len(naive))
				j := i + random.IntN(len(naive)-i+1)
				if got, want := s.sum(s.head+i, s.head+j), naive[i:j].sum(); got != want {
					t.Fatalf("seed %d: sum of %d to %d = %d, want %d", seed, i, j, got, want)
				}
			}
		}
	}
}

func TestSumsLastOverAtTheEdges(t *testing.T) {
	tests := []struct {
		name   string
		counts []int
		budget int
		want   int
	}{
		{"all fit", []int{1, 2, 3}, 6, -1},
		{"one too many", []int{1, 2, 3}, 5, 0},
		{"only the newest too large", []int{1, 2, 3}, 2, 2},
		{"nothing may stay", []int{1, 0, 0}, 0, 0},
		{"zeros never leave", []int{0, 0, 0}, 0, -1},
		{"saturated", []int{math.MaxInt, math.MaxInt, 1}, math.MaxInt - 1, 1},
		{"saturated to the full", []int{math.MaxInt, math.MaxInt}, math.MaxInt, -1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var s sums
			for _, c := range tt.counts {
				s.push(c)
			}
			if got := s.lastOver(tt.budget); got != tt.want {
				t.Errorf("lastOver(%d) of %v = %d, want %d", tt.budget, tt.counts, got, tt.want)
			}
		})
	}
}
