package ring

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/tokens"
)

// naiveSums is the same as sums, counted out.
type naiveSums []tokens.Count

func (n naiveSums) sum() tokens.Count { return tokens.Sum(n) }

func (n naiveSums) lastOver(of tokens.Kind, budget int) int {
	for i := len(n) - 1; i >= 0; i-- {
		if n[i:].sum().Of(of) > budget {
			return i
		}
	}
	return -1
}

func randomAmount(random *rand.Rand, huge bool) tokens.Count {
	a := tokens.Count{Input: random.IntN(50), Output: random.IntN(50)}
	switch {
	case random.IntN(4) == 0:
		a = tokens.Count{}
	case huge && random.IntN(40) == 0:
		a.Output = math.MaxInt - random.IntN(100)
	case huge && random.IntN(40) == 0:
		a.Input = math.MaxInt/2 + random.IntN(100)
	}
	return a
}

func TestSumsAgreeWithCountingOut(t *testing.T) {
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 4))
		huge := seed%3 == 0
		var s Sums
		var naive naiveSums
		for range 3000 {
			a := randomAmount(random, huge)
			switch op := random.IntN(20); {
			case op < 13:
				s.Push(a)
				naive = append(naive, a)
			case op < 15:
				n := random.IntN(min(len(naive), 60) + 1)
				s.Drop(n)
				naive = naive[n:]
			case len(naive) == 0:
			case op < 17:
				i := random.IntN(len(naive))
				s.Set(i, a)
				naive[i] = a
			case op < 19:
				i := random.IntN(len(naive))
				s.Remove(i)
				naive = slices.Delete(slices.Clone(naive), i, i+1)
			default:
				i := random.IntN(len(naive) + 1)
				s.Insert(i, a)
				naive = slices.Insert(slices.Clone(naive), i, a)
			}
			if s.Total() != naive.sum() {
				t.Fatalf("seed %d: total %d, want %d of %d amounts", seed, s.Total(), naive.sum(), len(naive))
			}
			if len(naive) > 0 && random.IntN(20) == 0 {
				of := tokens.Kind(random.IntN(3))
				budget := random.IntN(tokens.AddSaturated(naive.sum().Of(of), 1))
				if got, want := s.LastOver(of, budget), naive.lastOver(of, budget); got != want {
					t.Fatalf("seed %d: lastOver(%d, %d) = %d, want %d of %d amounts", seed, of, budget, got, want, len(naive))
				}
				i := random.IntN(len(naive))
				j := i + random.IntN(len(naive)-i+1)
				if got, want := s.Sum(i, j), naive[i:j].sum(); got != want {
					t.Fatalf("seed %d: sum of %d to %d = %d, want %d", seed, i, j, got, want)
				}
			}
		}
	}
}

func TestSumsLastOverAtTheEdges(t *testing.T) {
	out := func(counts ...int) (amounts []tokens.Count) {
		for _, c := range counts {
			amounts = append(amounts, tokens.Count{Output: c})
		}
		return amounts
	}
	tests := []struct {
		name    string
		amounts []tokens.Count
		of      tokens.Kind
		budget  int
		want    int
	}{
		{"all fit", out(1, 2, 3), tokens.All, 6, -1},
		{"one too many", out(1, 2, 3), tokens.All, 5, 0},
		{"only the newest too large", out(1, 2, 3), tokens.All, 2, 2},
		{"nothing may stay", out(1, 0, 0), tokens.All, 0, 0},
		{"zeros never leave", out(0, 0, 0), tokens.All, 0, -1},
		{"saturated", out(math.MaxInt, math.MaxInt, 1), tokens.All, math.MaxInt - 1, 1},
		{"saturated to the full", out(math.MaxInt, math.MaxInt), tokens.All, math.MaxInt, -1},
		{"saturated only together", []tokens.Count{{Input: math.MaxInt, Output: 1}, {Input: 0, Output: 1}}, tokens.All, math.MaxInt - 1, 0},
		{"the other kind", []tokens.Count{{Input: 9, Output: 1}, {Input: 9, Output: 2}}, tokens.Output, 2, 0},
		{"one kind of two", []tokens.Count{{Input: 9, Output: 1}, {Input: 5, Output: 2}}, tokens.Input, 5, 0},
		{"the other kind is saturated", []tokens.Count{{Input: math.MaxInt, Output: 1}, {Input: math.MaxInt, Output: 2}}, tokens.Output, 2, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var s Sums
			for _, a := range tt.amounts {
				s.Push(a)
			}
			if got := s.LastOver(tt.of, tt.budget); got != tt.want {
				t.Errorf("lastOver(%d, %d) of %v = %d, want %d", tt.of, tt.budget, tt.amounts, got, tt.want)
			}
		})
	}
}

func TestSumsOfManyAmounts(t *testing.T) {
	const n = 200_000
	random := rand.New(rand.NewPCG(1, 6))
	var s Sums
	var naive naiveSums
	for range n {
		a := randomAmount(random, false)
		s.Push(a)
		naive = append(naive, a)
	}
	s.Drop(n / 3)
	naive = naive[n/3:]
	for range 2000 {
		i, a := random.IntN(len(naive)), randomAmount(random, false)
		s.Set(i, a)
		naive[i] = a
	}
	for range 300 {
		of := tokens.Kind(random.IntN(3))
		budget := random.IntN(naive.sum().Of(of))
		want, left := len(naive)-1, budget
		for naive[want].Of(of) <= left {
			left -= naive[want].Of(of)
			want--
		}
		if got := s.LastOver(of, budget); got != want {
			t.Fatalf("lastOver(%d, %d) = %d, want %d", of, budget, got, want)
		}
	}
}
