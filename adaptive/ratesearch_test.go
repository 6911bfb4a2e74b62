package adaptive_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/adaptive"
	"dappco.re/go/core/go-ratelimit/limit"
)

// newRateSearch returns a search of 1 to 1,000 a second that begins at 10, with a seed, but for
// what change changes.
func newRateSearch(t testing.TB, change func(*adaptive.RateConfig)) *adaptive.RateSearch {
	t.Helper()
	c := adaptive.RateConfig{Floor: limit.PerSecond(1), Ceiling: limit.PerSecond(1000), Start: limit.PerSecond(10), Seed: 20}
	if change != nil {
		change(&c)
	}
	s, err := adaptive.NewRateSearch(c)
	if err != nil {
		t.Fatal(err)
	}
	return &s
}

const sec = int64(time.Second)

// count counts a unit every so often for a time, until the rate is to be raised, and returns
// when that is.
func count(s *adaptive.RateSearch, at, every, d int64) int64 {
	for end := at + d; at < end && !s.Ready(at); at += every {
		s.Count(at, 1)
	}
	return at
}

// A window is ready when it is clean, long enough, and was really used.
func TestRateSearchReady(t *testing.T) {
	known := func(s *adaptive.RateSearch) { s.Refused(0, 0); s.Refused(2*sec, 0) } // 8.55 a second
	for _, c := range []struct {
		name string
		do   func(s *adaptive.RateSearch) (end int64)
		want bool
	}{
		{"nothing was counted", func(*adaptive.RateSearch) int64 { return 10 * sec }, false},
		{"used", func(s *adaptive.RateSearch) int64 { return count(s, 0, sec/10, 3*sec) }, true},
		{"too short", func(s *adaptive.RateSearch) int64 { return count(s, 0, sec/10, 19*sec/10) }, false},
		{"three quarters", func(s *adaptive.RateSearch) int64 { return count(s, 0, sec/8, 5*sec/2) }, true},
		{"a half", func(s *adaptive.RateSearch) int64 { return count(s, 0, sec/5, 5*sec/2) }, false},
		{"all at once", func(s *adaptive.RateSearch) int64 { s.Count(0, 30); return 3 * sec }, true},
		{"less than none", func(s *adaptive.RateSearch) int64 { s.Count(0, -30); s.Count(0, math.MinInt); return 3 * sec }, false},
		{"a refusal", func(s *adaptive.RateSearch) int64 { s.Refused(count(s, 0, sec/10, 2*sec), 0); return 3 * sec }, false},
		{"a failure", func(s *adaptive.RateSearch) int64 { s.Failed(count(s, 0, sec/10, 2*sec)); return 3 * sec }, false},
		{"units before a wait", func(s *adaptive.RateSearch) int64 { s.Failed(9 * sec); return count(s, 0, sec/10, 8*sec) }, false},
		{"few units, nothing known", func(s *adaptive.RateSearch) int64 {
			s.Resume(adaptive.SearchState{Level: 1e9}, 0, 0)
			return count(s, 0, sec, 3*sec)
		}, true},
		{"few units, a knee", func(s *adaptive.RateSearch) int64 {
			s.Resume(adaptive.SearchState{Level: 1e9, Knee: 2e9}, 0, 0)
			return count(s, 0, sec, 4*sec)
		}, false},
		{"few units, a knee, 5 seconds", func(s *adaptive.RateSearch) int64 {
			s.Resume(adaptive.SearchState{Level: 1e9, Knee: 2e9}, 0, 0)
			return count(s, 0, sec, 5*sec)
		}, true},
		{"refusals that take long", func(s *adaptive.RateSearch) int64 {
			s.Refused(0, 8*sec)
			return count(s, 0, sec/10, 7*sec)
		}, false},
		{"resumed", func(s *adaptive.RateSearch) int64 {
			end := count(s, 0, sec/10, 2*sec)
			s.Resume(s.State(end), end, 0)
			return 3 * sec
		}, false},
		{"a knee and all used", func(s *adaptive.RateSearch) int64 { known(s); return count(s, 2*sec, sec/10, 5*sec/2) }, true},
	} {
		s := newRateSearch(t, nil)
		end := c.do(s)
		if got := s.Ready(end); got != c.want {
			t.Errorf("%s: ready is %v at %v", c.name, got, time.Duration(end))
		}
	}
}

// A window that is over and was not used ends with the next unit, so that what was not used
// does not count against what is.
func TestRateSearchCountEndsWindows(t *testing.T) {
	s := newRateSearch(t, nil)
	s.Count(0, 1)
	s.Count(100*sec, 1)
	if end := count(s, 100*sec, sec/10, 3*sec); !s.Ready(end) {
		t.Error("100 seconds of silence count")
	}
	s.Count(103*sec, 1) // without Raise: the window is over
	if s.Ready(103*sec) || s.Gap() != time.Second/10 {
		t.Errorf("a window that was ready did not end; gap %v", s.Gap())
	}
}

// A clean window doubles the rate while nothing is known, and a refusal takes it back.
func TestRateSearchLevels(t *testing.T) {
	s := newRateSearch(t, nil)
	if s.Gap() != time.Second/10 || s.Rate().Limit() != 10 {
		t.Errorf("it begins at %v, %v", s.Gap(), s.Rate())
	}
	s.Raise(0)
	if s.Gap() != time.Second/20 {
		t.Errorf("raised to one in %v", s.Gap())
	}
	for _, c := range []struct {
		at, took int64
		lowered  bool
		gap      time.Duration
	}{
		{10 * sec, 0, true, time.Second / 10},         // back to where it was
		{11 * sec, sec / 2, false, time.Second / 10},  // within the cool-down
		{20 * sec, 10 * sec, false, time.Second / 10}, // sent before the decrease
		{12 * sec, 2*sec - 1, true, 111111112},        // sent after it: 10 % less
		{14*sec - 1, 0, false, 111111112},
		{14 * sec, 0, true, 158730159}, // 30 % less
		{9 * sec, 0, true, 226757370},  // the clock was set back
	} {
		if lowered := s.Refused(c.at, c.took); lowered != c.lowered || s.Gap() != c.gap {
			t.Errorf("refused at %v: lowered %v to one in %v, want %v, %v", time.Duration(c.at), lowered, s.Gap(), c.lowered, c.gap)
		}
	}
}

// Refusals that take more than half of a window are late: steps beyond the knee are then small.
func TestRateSearchLate(t *testing.T) {
	for took, fast := range map[int64]bool{0: true, sec: true, sec + 1: false, 20 * sec: false} {
		s := newRateSearch(t, nil)
		s.Refused(0, took)
		for range 25 {
			s.Raise(0)
		}
		if got := s.Rate().Limit() > 20; got != fast {
			t.Errorf("refused after %v: then %v a second", time.Duration(took), s.Rate().Limit())
		}
	}
}

// A copy goes its own way.
func TestRateSearchCopies(t *testing.T) {
	s := newRateSearch(t, nil)
	before := s.State(0)
	other := *s
	other.Refused(0, 0)
	other.Count(0, 1)
	if s.State(0) != before || other.State(0) == before {
		t.Errorf("%+v and %+v, want %+v", s.State(0), other.State(0), before)
	}
}

// A Rate is a RateSearch with a bucket: with one made by hand it decides alike, on another line
// of time.
func TestRateSearchOracle(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 21))
		start := func(c *adaptive.RateConfig) { c.Seed, c.Start = seed+1, limit.PerSecond(5) }
		r, s := newRate(t, start), newRateSearch(t, start)
		offset, next := rng.Int64N(math.MaxInt64>>1), int64(math.MinInt64)
		respaced := func(at int64, change func()) {
			gap := s.Gap()
			change()
			if owed := next - at; next > at {
				next = at + int64(math.Ceil(float64(owed)*float64(s.Gap())/float64(gap)-1e-6))
			}
		}
		now := int64(0)
		for range 5000 {
			now += rng.Int64N(sec / 20)
			at := offset + now
			instant := noon.Add(time.Duration(now))
			passes := at >= next
			if got := r.TakeAt(instant, 1); got.OK != passes {
				t.Fatalf("seed %d, at %d: %+v, want %v", seed, now, got, passes)
			}
			if passes {
				if s.Ready(at) {
					s.Raise(at)
				}
				s.Count(at, 1)
				next = at + int64(s.Gap())
			}
			switch took := rng.Int64N(3 * sec); rng.IntN(200) {
			case 0, 1:
				respaced(at, func() {
					lowered := s.Refused(at, took)
					if r.RefusedAt(instant, adaptive.Refusal{Sent: instant.Add(-time.Duration(took))}) != lowered {
						t.Fatalf("seed %d, at %d: lowered is not %v", seed, now, lowered)
					}
				})
			case 2:
				s.Failed(at)
				r.FailedAt(instant)
			case 3:
				r.Restore(r.StateAt(instant), instant)
				s.Resume(s.State(at), at, 0)
			}
			if a, b := r.StateAt(instant).Units, s.State(at).Level; a != b {
				t.Fatalf("seed %d, at %d: %d and %d", seed, now, a, b)
			}
		}
	}
}

func TestNewRateSearchErrors(t *testing.T) {
	second := limit.PerSecond(1)
	for field, c := range map[string]adaptive.RateConfig{
		"Floor is 0/0s":   {Ceiling: second},
		"Ceiling is 0/0s": {Floor: second},
		"Window is -1ns":  {Floor: second, Ceiling: second, Window: -1},
	} {
		_, err := adaptive.NewRateSearch(c)
		if !errors.Is(err, limit.ErrInvalid) || !strings.Contains(err.Error(), field) ||
			!strings.HasPrefix(err.Error(), "new adaptive rate search: ") {
			t.Errorf("%s: %v", field, err)
		}
	}
	if _, err := adaptive.NewRateSearch(adaptive.RateConfig{Floor: second, Ceiling: second, Burst: -1}); err != nil {
		t.Errorf("Burst counts: %v", err)
	}
}
