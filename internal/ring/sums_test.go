package ring

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/state"
)

// naiveSums is the same as sums, counted out.
type naiveSums []state.Count

func (n naiveSums) sum() state.Count { return state.SumCounts(n) }

func (n naiveSums) lastOver(of state.TokenKind, budget int) int {
	for i := len(n) - 1; i >= 0; i-- {
		if n[i:].sum().Of(of) > budget {
			return i
		}
	}
	return -1
}

func randomAmount(random *rand.Rand, huge bool) state.Count {
	a := state.Count{Input: random.IntN(50), Output: random.IntN(50)}
	switch {
	case random.IntN(4) == 0:
		a = state.Count{}
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
		s := Sums{head: []int{0, 7, period - 500}[seed/3%3]}
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
				of := state.TokenKind(random.IntN(3))
				budget := random.IntN(state.AddSaturated(naive.sum().Of(of), 1))
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
	out := func(counts ...int) (amounts []state.Count) {
		for _, c := range counts {
			amounts = append(amounts, state.Count{Output: c})
		}
		return amounts
	}
	tests := []struct {
		name    string
		amounts []state.Count
		of      state.TokenKind
		budget  int
		want    int
	}{
		{"all fit", out(1, 2, 3), state.AllTokens, 6, -1},
		{"one too many", out(1, 2, 3), state.AllTokens, 5, 0},
		{"only the newest too large", out(1, 2, 3), state.AllTokens, 2, 2},
		{"nothing may stay", out(1, 0, 0), state.AllTokens, 0, 0},
		{"zeros never leave", out(0, 0, 0), state.AllTokens, 0, -1},
		{"saturated", out(math.MaxInt, math.MaxInt, 1), state.AllTokens, math.MaxInt - 1, 1},
		{"saturated to the full", out(math.MaxInt, math.MaxInt), state.AllTokens, math.MaxInt, -1},
		{"saturated only together", []state.Count{{Input: math.MaxInt, Output: 1}, {Input: 0, Output: 1}}, state.AllTokens, math.MaxInt - 1, 0},
		{"the other kind", []state.Count{{Input: 9, Output: 1}, {Input: 9, Output: 2}}, state.OutputTokens, 2, 0},
		{"one kind of two", []state.Count{{Input: 9, Output: 1}, {Input: 5, Output: 2}}, state.InputTokens, 5, 0},
		{"the other kind is saturated", []state.Count{{Input: math.MaxInt, Output: 1}, {Input: math.MaxInt, Output: 2}}, state.OutputTokens, 2, 0},
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
		of := state.TokenKind(random.IntN(3))
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

// sumsPlay plays operations on Sums and on a slice, and looks whether both agree.
type sumsPlay struct {
	t     testing.TB
	sums  Sums
	naive naiveSums
}

func (p *sumsPlay) play(op byte, n int) {
	at := 0
	if len(p.naive) > 0 {
		at = n % len(p.naive)
	}
	c := state.Count{Input: n % 97, Output: n % 89}
	push := func() {
		p.sums.Push(c)
		p.naive = append(p.naive, c)
		c.Input, c.Output = c.Output+1, c.Input
	}
	switch op % 8 {
	case 0:
		for range n % 3000 {
			push()
		}
	case 1:
		for range n % 40 {
			push()
		}
	case 2:
		n %= min(len(p.naive), 1<<(n%13)) + 1
		p.sums.Drop(n)
		p.naive = p.naive[n:]
	case 3:
		for range min(n%6000, len(p.naive)) {
			push()
			p.sums.Drop(1)
			p.naive = p.naive[1:]
		}
	case 4, 5:
		for i := 0; i < 5 && len(p.naive) > 0; i++ {
			p.sums.Set(at, c)
			p.naive[at] = c
			at = (at + n + 1) % len(p.naive)
		}
	case 6:
		for i := len(p.naive) - 1; i >= max(len(p.naive)-1-n%40, 0); i-- {
			p.sums.Remove(i)
			p.naive = p.naive[:i]
		}
	case 7:
		if len(p.naive) > 0 && n%3 == 0 {
			p.sums.Remove(at)
			p.naive = slices.Delete(p.naive, at, at+1)
		} else {
			p.sums.Insert(at, c)
			p.naive = slices.Insert(p.naive, at, c)
		}
	}
	p.check(op%8, n)
}

func (p *sumsPlay) check(op byte, n int) {
	if !slices.Equal(p.sums.Values(), p.naive) {
		p.t.Fatalf("after operation %d with %d there are %d counts that differ from the %d of the slice", op, n, p.sums.Len(), len(p.naive))
	}
	if total := p.naive.sum(); p.sums.Total() != total {
		p.t.Fatalf("after operation %d with %d the total is %d, want %d", op, n, p.sums.Total(), total)
	}
	for range 3 {
		i := n % (len(p.naive) + 1)
		j := i + (n*7)%(len(p.naive)-i+1)
		if got, want := p.sums.Sum(i, j), p.naive[i:j].sum(); got != want {
			p.t.Fatalf("after operation %d with %d, %d to %d of %d sum to %d, want %d", op, n, i, j, len(p.naive), got, want)
		}
		n = n*31 + 17
	}
	if p.sums.head >= period {
		p.t.Fatalf("the place of the oldest is %d, beyond the period", p.sums.head)
	}
	for k := 1; k < len(p.sums.levels); k++ {
		for i, node := range p.sums.levels[k].live() {
			if want := p.sums.node(k, i); i > 0 && node != want {
				p.t.Fatalf("after operation %d with %d node %d of level %d is %d, want %d", op, n, i, k, node, want)
			}
		}
	}
	if k := len(p.sums.levels) - 1; k >= 0 && p.sums.levels[k].len() >= 2*fan {
		p.t.Fatalf("the topmost of %d levels has %d nodes", k+1, p.sums.levels[k].len())
	}
}

func TestSumsAgreeWithCountingOutWhileTheyMove(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 16))
		p := sumsPlay{t: t}
		p.sums.head = []int{0, period - 20_000, 5}[seed%3]
		for range 300 {
			op := byte(random.IntN(8))
			if len(p.sums.levels) > 0 && p.sums.levels[0].move != nil {
				op = []byte{1, 4, 6, 7}[random.IntN(4)]
			}
			p.play(op, random.IntN(1<<15))
		}
	}
}

// The newest node of a level changes with each count. A move of the level must not miss that where
// so many counts were removed that the newest node is one which was copied before.
func TestSumsRemoveDuringAMove(t *testing.T) {
	p := sumsPlay{t: t}
	push := func() {
		c := state.Count{Input: len(p.naive), Output: 1}
		p.sums.Push(c)
		p.naive = append(p.naive, c)
	}
	for len(p.sums.levels) < 2 || p.sums.levels[1].move == nil || len(p.sums.levels[1].move.to) < step {
		push()
		runtime.Gosched() // to the goroutine that allocates the storage
	}
	for len(p.naive) > fan*step-100 {
		p.naive = p.naive[:len(p.naive)-1]
		p.sums.Remove(len(p.naive))
	}
	for p.sums.levels[1].move != nil {
		push()
	}
	p.check(0, 0)
}

// The place of the oldest count stays below the period, however many were pushed.
func TestSumsAtTheEndOfThePeriod(t *testing.T) {
	p := sumsPlay{t: t, sums: Sums{head: period - 300}}
	p.play(1, 39)
	for n := range 300 {
		p.play(1, n)
		if gone := len(p.naive) - 100; gone > 0 {
			p.sums.Drop(gone)
			p.naive = p.naive[gone:]
			p.check(2, gone)
		}
	}
}

func FuzzSums(f *testing.F) {
	f.Add([]byte("\x00\x0b\x00\x00\x0b\x00\x03\x17\x00\x02\x1f\xff\x06\x00\x20\x07\x01\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p := sumsPlay{t: t}
		for i := 0; i+2 < len(data) && i < 150; i += 3 {
			p.play(data[i], int(data[i+1])<<8|int(data[i+2]))
		}
	})
}

// Levels that few counts need are given back, and no call is ever far more than the others: the
// storage of all levels moves a few nodes at a time, see row.
func TestSumsGiveStorageBack(t *testing.T) {
	var s Sums
	for range 300_000 {
		s.Push(state.Count{Input: 1})
	}
	s.Drop(299_990)
	room := 0
	for k := range s.levels {
		room += cap(s.levels[k].buf)
	}
	if room > 2*step || len(s.levels) > 2 {
		t.Errorf("10 counts keep %d levels with room for %d", len(s.levels), room)
	}
	s.Drop(10)
	if len(s.levels) != 0 || s.Len() != 0 || s.Total() != (state.Count{}) {
		t.Errorf("emptied, there are %d levels, %d counts and a total of %d", len(s.levels), s.Len(), s.Total())
	}
}

func TestSumsSteadyStateDoesNotAllocate(t *testing.T) {
	for _, live := range []int{1, 9, 15, 17, 40, 300, 20_000} {
		var s Sums
		cycle := func() {
			s.Push(state.Count{Input: 1})
			if s.Len() > live {
				s.Drop(1)
			}
		}
		for range 10 * live {
			cycle()
		}
		const calls = 100_000
		if n := testing.AllocsPerRun(1, func() {
			for range calls {
				cycle()
			}
		}); n > 30 {
			t.Errorf("%d live counts: %v allocations in %d calls", live, n, calls)
		}
	}
}
