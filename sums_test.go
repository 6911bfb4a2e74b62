package ratelimit

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// naiveSums is the same as sums, counted out.
type naiveSums []amount

func (n naiveSums) sum() amount { return sumOf(n) }

func (n naiveSums) lastOver(of share, budget int) int {
	for i := len(n) - 1; i >= 0; i-- {
		if n[i:].sum().of(of) > budget {
			return i
		}
	}
	return -1
}

func randomAmount(random *rand.Rand, huge bool) amount {
	a := amount{random.IntN(50), random.IntN(50)}
	switch {
	case random.IntN(4) == 0:
		a = amount{}
	case huge && random.IntN(40) == 0:
		a.output = math.MaxInt - random.IntN(100)
	case huge && random.IntN(40) == 0:
		a.input = math.MaxInt/2 + random.IntN(100)
	}
	return a
}

func TestSumsAgreeWithCountingOut(t *testing.T) {
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 4))
		huge := seed%3 == 0
		var s sums
		var naive naiveSums
		for range 3000 {
			a := randomAmount(random, huge)
			switch op := random.IntN(20); {
			case op < 13:
				s.push(a)
				naive = append(naive, a)
			case op < 15:
				n := random.IntN(min(len(naive), 60) + 1)
				s.drop(n)
				naive = naive[n:]
			case len(naive) == 0:
			case op < 17:
				i := random.IntN(len(naive))
				s.set(i, a)
				naive[i] = a
			case op < 19:
				i := random.IntN(len(naive))
				s.remove(i)
				naive = slices.Delete(slices.Clone(naive), i, i+1)
			default:
				i := random.IntN(len(naive) + 1)
				s.insert(i, a)
				naive = slices.Insert(slices.Clone(naive), i, a)
			}
			if s.total != naive.sum() {
				t.Fatalf("seed %d: total %d, want %d of %d amounts", seed, s.total, naive.sum(), len(naive))
			}
			if len(naive) > 0 && random.IntN(20) == 0 {
				of := share(random.IntN(3))
				budget := random.IntN(addSaturated(naive.sum().of(of), 1))
				if got, want := s.lastOver(of, budget), naive.lastOver(of, budget); got != want {
					t.Fatalf("seed %d: lastOver(%d, %d) = %d, want %d of %d amounts", seed, of, budget, got, want, len(naive))
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
	out := func(counts ...int) (amounts []amount) {
		for _, c := range counts {
			amounts = append(amounts, amount{output: c})
		}
		return amounts
	}
	tests := []struct {
		name    string
		amounts []amount
		of      share
		budget  int
		want    int
	}{
		{"all fit", out(1, 2, 3), allTokens, 6, -1},
		{"one too many", out(1, 2, 3), allTokens, 5, 0},
		{"only the newest too large", out(1, 2, 3), allTokens, 2, 2},
		{"nothing may stay", out(1, 0, 0), allTokens, 0, 0},
		{"zeros never leave", out(0, 0, 0), allTokens, 0, -1},
		{"saturated", out(math.MaxInt, math.MaxInt, 1), allTokens, math.MaxInt - 1, 1},
		{"saturated to the full", out(math.MaxInt, math.MaxInt), allTokens, math.MaxInt, -1},
		{"saturated only together", []amount{{math.MaxInt, 1}, {0, 1}}, allTokens, math.MaxInt - 1, 0},
		{"the other share", []amount{{9, 1}, {9, 2}}, outputTokens, 2, 0},
		{"one share of two", []amount{{9, 1}, {5, 2}}, inputTokens, 5, 0},
		{"the other share is saturated", []amount{{math.MaxInt, 1}, {math.MaxInt, 2}}, outputTokens, 2, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var s sums
			for _, a := range tt.amounts {
				s.push(a)
			}
			if got := s.lastOver(tt.of, tt.budget); got != tt.want {
				t.Errorf("lastOver(%d, %d) of %v = %d, want %d", tt.of, tt.budget, tt.amounts, got, tt.want)
			}
		})
	}
}

func TestSumsOfManyAmounts(t *testing.T) {
	const n = 200_000
	random := rand.New(rand.NewPCG(1, 6))
	var s sums
	var naive naiveSums
	for range n {
		a := randomAmount(random, false)
		s.push(a)
		naive = append(naive, a)
	}
	s.drop(n / 3)
	naive = naive[n/3:]
	for range 2000 {
		i, a := random.IntN(len(naive)), randomAmount(random, false)
		s.set(i, a)
		naive[i] = a
	}
	for range 300 {
		of := share(random.IntN(3))
		budget := random.IntN(naive.sum().of(of))
		want, left := len(naive)-1, budget
		for naive[want].of(of) <= left {
			left -= naive[want].of(of)
			want--
		}
		if got := s.lastOver(of, budget); got != want {
			t.Fatalf("lastOver(%d, %d) = %d, want %d", of, budget, got, want)
		}
	}
}
