package adaptive

import "testing"

// A first refusal far below the last one is that of a rival, one beyond it or a row of them is
// not.
func TestSearchRivals(t *testing.T) {
	const knee = 10e9
	for _, c := range []struct {
		name   string
		levels []int64 // that are refused, after clean windows
		row    int     // refusals that follow the last one
		want   bool
	}{
		{"nothing is refused", nil, 0, false},
		{"the first refusal", []int64{8e9}, 0, false},
		{"beyond the knee", []int64{knee, 101e8}, 0, false},
		{"just below the knee", []int64{knee, 98e8}, 0, false},
		{"further below", []int64{knee, 979e7}, 0, true},
		{"and another one", []int64{knee, 979e7}, 1, true},
		{"and a row", []int64{knee, 979e7}, 2, false},
		{"below, and three times beyond", []int64{knee, 97e8, 98e8, 99e8, knee}, 0, true},
		{"below, and four times beyond", []int64{knee, 97e8, 98e8, 99e8, knee, 101e8}, 0, false},
	} {
		for _, shares := range []bool{true, false} {
			s := search{floor: 1e9, ceiling: 1e12, keep: 950, grow: 2, level: 1e9, shares: shares}
			for _, level := range c.levels {
				s.level, s.streak = level, 0
				s.refused()
			}
			for range c.row {
				s.refused()
			}
			if got := s.rivals > 0; got != (c.want && shares) {
				t.Errorf("%s, looks for them %v: rivals %v", c.name, shares, got)
			}
			s.late = true
			if s.refused(); s.rivals > 0 {
				t.Errorf("%s: rivals by a late refusal", c.name)
			}
		}
	}
}

// A rate that has doubled beyond the limit is refused further below next: that is no rival.
func TestNoRivalsAfterDoubling(t *testing.T) {
	s := search{floor: 1e9, ceiling: 1e12, keep: 950, grow: 2, level: 64e8, shares: true}
	s.passed()
	s.refused()
	for s.level < 10e9 {
		s.passed()
	}
	if s.refused(); s.rivals > 0 {
		t.Errorf("rivals after the first two refusals: %+v", s)
	}
}

// Among rivals a first refusal takes less off a lower level: 5 % at 5 a second, and no less than
// half of that.
func TestSearchDecreaseAmongRivals(t *testing.T) {
	for _, c := range []struct{ level, keep, want int64 }{
		{100e9, 950, 95e9}, {5e9, 950, 475e7}, {32e8, 950, 32e8 / 100 * 96}, {2e9, 950, 2e9 / 1000 * 969},
		{1e9, 950, 975e6}, {1e8, 950, 975e5}, {1e9, 500, 75e7}, {1e9, 999, 999e6},
	} {
		s := search{
			floor: 1e6, ceiling: 1e12, keep: c.keep, grow: 2, level: c.level, knee: c.level * 2, near: true, shares: true,
		}
		if s.refused(); s.level != c.want {
			t.Errorf("a refusal at %d left %d, want %d", c.level, s.level, c.want)
		}
		if s.refused(); s.level != c.want/1000*max(1000-2*(1000-c.keep), 500) {
			t.Errorf("the second refusal left %d of %d", s.level, c.want)
		}
	}
}

// Among rivals windows are equally long for one that has 2 a second and one that has 100.
func TestWindowAmongRivals(t *testing.T) {
	for _, c := range []struct {
		level  int64
		rivals int64
		least  float64 // seconds
		most   float64
	}{
		{100e9, 0, 2, 2.6}, {100e9, 1, 3, 3.8}, {2e9, 0, 4.4, 5.6}, {2e9, 1, 3, 4.3}, {2e8, 1, 5, 10.1},
	} {
		s := RateSearch{
			course: course{window: 2e9, search: search{
				floor: 1, ceiling: 1e15, level: c.level, knee: 2 * c.level, rivals: c.rivals, shares: true,
			}},
			windowUnits: 10, gap: gapOf(c.level),
		}
		at := int64(0)
		for s.Count(at, 1); !s.Ready(at) && at < 60e9; s.Count(at, 1) {
			if at += s.gap; s.Ready(at) {
				break
			}
		}
		if took := float64(at) / 1e9; took < c.least || took > c.most {
			t.Errorf("%v a second, rivals %d: a window takes %v s", c.level/1e9, c.rivals, took)
		}
	}
}

// What was found before the last minute says nothing about rivals.
func TestRivalsAfterResume(t *testing.T) {
	for age, want := range map[int64]int64{0: 3, fresh - 1: 3, fresh: 0} {
		c := course{halfLife: 3600e9, search: search{floor: 1, ceiling: 1e12, level: 1e9, rivals: 3, shares: true}}
		if c.resume(SearchState{Level: 1e9}, 0, age); c.rivals != want {
			t.Errorf("age %d: rivals %d, want %d", age, c.rivals, want)
		}
	}
}
