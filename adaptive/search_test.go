package adaptive

import (
	"math"
	"math/rand/v2"
	"testing"
)

// model is what doc.go says of a limit, in floats: it keeps the whole history of a search, and
// works out from it where the limit is.
type model struct {
	floor, ceiling float64
	levels         []float64 // after each event
	clean          []bool    // what each event was
}

// row returns how many refusals came last, without a clean window between.
func (m *model) row() (n int) {
	for i := len(m.clean) - 1; i >= 0 && !m.clean[i]; i-- {
		n++
	}
	return n
}

// knee returns the level that was refused last, and 0 if nothing is known. start is that of
// the search.
func (m *model) knee(start float64) float64 {
	row := 0
	for i := len(m.clean) - 1; i >= 0; i-- {
		if m.clean[i] {
			continue
		}
		for j := i; j >= 0 && !m.clean[j]; j-- {
			row++
		}
		if row >= 6 {
			return 0
		}
		if i == 0 {
			return start
		}
		return m.levels[i-1]
	}
	return 0
}

func (m *model) next(level, start float64, clean bool, beyond int) float64 {
	if !clean {
		switch row := m.row(); {
		case row == 0 && len(m.clean) > 0:
			before := start
			if len(m.levels) > 1 {
				before = m.levels[len(m.levels)-2]
			}
			level = min(level*.95, before)
		case row == 0:
			level *= .95
		case row == 1:
			level *= .9
		default:
			level *= .7
		}
		return max(level, m.floor)
	}
	knee := m.knee(start)
	least := max(level*.002, min(m.floor/64, level/16))
	add := level
	if knee > level {
		add = max((knee-level)/7, least)
	} else if knee > 0 {
		add = least * math.Pow(3, float64(beyond))
	}
	return min(level+min(add, level), m.ceiling)
}

// The search does what the model says. Beyond the knee the model knows the size of a step by
// counting them, so the test ends a way there after a few steps, before the least one grows.
func TestSearchOracle(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 20))
		floor := 1 + rng.Int64N(1e12)
		ceiling := floor + rng.Int64N(1e15)
		start := floor + rng.Int64N(ceiling-floor+1)
		s := search{floor: floor, ceiling: ceiling, keep: 950, grow: 2, level: start}
		m := model{floor: float64(floor), ceiling: float64(ceiling)}
		beyond := 0
		for range 500 {
			clean := rng.IntN(4) > 0 && beyond < 1
			if rng.IntN(40) == 0 {
				clean = false
			}
			want := m.next(float64(s.level), float64(start), clean, 0)
			if !clean {
				s.refused()
				beyond = 0
			} else {
				if s.knee > 0 && s.level >= s.knee {
					beyond++
				}
				s.passed()
			}
			if got := float64(s.level); math.Abs(got-want) > 3+want*1e-9 {
				t.Fatalf("seed %d, event %d, clean %v: %v, want %v; %+v", seed, len(m.clean), clean, got, want, s)
			}
			m.levels, m.clean = append(m.levels, float64(s.level)), append(m.clean, clean)
		}
	}
}

// Beyond the knee each step is three times the one before, until each doubles the level.
func TestSearchBeyondTheKnee(t *testing.T) {
	s := search{floor: 1e6, ceiling: 1e15, keep: 950, grow: 2, level: 1e9}
	s.refused()
	windows := 0
	for s.level < 1e9 {
		s.passed()
		windows++
	}
	if windows > 20 {
		t.Errorf("%d windows to the knee", windows)
	}
	last := s.level
	want := int64(2e6)
	for step := range 5 {
		s.passed()
		if got := s.level - last; got < want || got > want*11/10 {
			t.Errorf("step %d: %d, want about %d", step, got, want)
		}
		last = s.level
		want *= 3
	}
	for range 8 {
		s.passed()
	}
	last = s.level
	if s.passed(); s.level < last*19/10 || s.level > 2*last {
		t.Errorf("from %d to %d, want twice as much", last, s.level)
	}
}

// While refusals come back late, steps beyond the knee are small, and a refusal beyond it takes
// the level back to it.
func TestSearchLate(t *testing.T) {
	s := search{floor: 1e6, ceiling: 1e15, keep: 950, grow: 2, late: true, level: 1e9}
	s.refused()
	if s.level != 95e7 {
		t.Errorf("below the knee a refusal left %d", s.level)
	}
	for s.level < 1e9 {
		s.passed()
	}
	knee := s.knee
	for step := range 20 {
		before, most := s.level, s.level/100*3+100
		if before > 13e8 {
			most = before/5 + 1
		}
		if s.passed(); s.level > before+most || s.level < before+most*9/10 && step > 3 && step < 11 {
			t.Errorf("step %d: from %d to %d", step, before, s.level)
		}
	}
	if s.level < 2*knee {
		t.Errorf("after 20 steps: %d", s.level)
	}
	if s.refused(); s.level != knee {
		t.Errorf("a refusal beyond the knee left %d, want %d", s.level, knee)
	}
}

// A decrease is no less than a unit.
func TestSearchUnit(t *testing.T) {
	s := search{floor: 1000, ceiling: 1e6, keep: 950, grow: 10, unit: 1000, level: 8500}
	for _, want := range []int64{7500, 6500, 4550, 3185, 2185, 1185, 1000, 1000} {
		if s.refused(); s.level != want {
			t.Errorf("a refusal left %d, want %d", s.level, want)
		}
	}
}

// Whatever happens, the limit stays within its bounds, and clean windows raise it.
func FuzzSearch(f *testing.F) {
	f.Add(int64(1), int64(1000), int64(10), []byte("\x01\x01\x00\x01"))
	f.Add(int64(1), int64(1e18), int64(1e18), []byte{0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1})
	f.Fuzz(func(t *testing.T, floor, ceiling, level int64, events []byte) {
		floor = min(max(floor, 1), 1e18)
		ceiling = min(max(ceiling, floor), 1e18)
		level = min(max(level, floor), ceiling)
		s := search{floor: floor, ceiling: ceiling, keep: 950, grow: 2, level: level}
		for _, e := range events {
			before := s.level
			s.late, s.unit = e&2 != 0, int64(e>>2)
			if e&1 == 0 {
				s.refused()
				if s.level >= before && before > floor {
					t.Fatalf("a refusal left %d of %d", s.level, before)
				}
			} else {
				s.passed()
				if s.level < min(before+1, ceiling) || s.level/2 > before {
					t.Fatalf("a clean window made %d of %d", s.level, before)
				}
			}
			if s.level < floor || s.level > ceiling {
				t.Fatalf("%d is not within %d and %d", s.level, floor, ceiling)
			}
		}
	})
}

func TestAged(t *testing.T) {
	for _, c := range []struct{ n, age, halfLife, want int64 }{
		{100, 0, 10, 100}, {100, -5, 10, 100}, {100, 5, 10, 75}, {100, 10, 10, 50}, {100, 15, 10, 38},
		{100, 20, 10, 25}, {100, 1000, 10, 0}, {1e18, math.MaxInt64, 1, 0}, {1e18, math.MaxInt64, 1 << 60, 1e18 >> 8},
	} {
		if got := aged(c.n, c.age, c.halfLife); got < c.want-1 || got > c.want+c.want/1000 {
			t.Errorf("%d after %d of %d: %d, want %d", c.n, c.age, c.halfLife, got, c.want)
		}
	}
}

func TestSub(t *testing.T) {
	for _, c := range []struct{ a, b, want int64 }{
		{3, 2, 1}, {2, 3, -1}, {0, 0, 0}, {5, 0, 5}, {math.MinInt64, 1, math.MinInt64}, {1, math.MinInt64, math.MaxInt64},
		{math.MaxInt64, -1, math.MaxInt64}, {-1, math.MinInt64, math.MaxInt64}, {math.MinInt64, 0, math.MinInt64},
	} {
		if got := sub(c.a, c.b); got != c.want {
			t.Errorf("%d - %d: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

func TestRoot(t *testing.T) {
	for n := range int64(1e6 + 1) {
		if got, want := root(n), int64(math.Sqrt(float64(n))); got != want {
			t.Fatalf("the root of %d is %d, want %d", n, got, want)
		}
	}
}
