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

// newSlotSearch returns a search of 1 to 1,000 slots that begins at 10, with a seed, but for
// what change changes.
func newSlotSearch(t testing.TB, change func(*adaptive.ConcurrencyConfig)) *adaptive.SlotSearch {
	t.Helper()
	c := adaptive.ConcurrencyConfig{Floor: 1, Ceiling: 1000, Start: 10, Seed: 20}
	if change != nil {
		change(&c)
	}
	s, err := adaptive.NewSlotSearch(c)
	if err != nil {
		t.Fatal(err)
	}
	return &s
}

// A window is ready when it is clean, long enough, and the limit was reached in it.
func TestSlotSearchReady(t *testing.T) {
	end := func(s *adaptive.SlotSearch, at int64, n int) int64 {
		for range n {
			s.Ended(at)
		}
		return at
	}
	for _, c := range []struct {
		name string
		do   func(s *adaptive.SlotSearch) (end int64)
		want bool
	}{
		{"no call has ended", func(s *adaptive.SlotSearch) int64 { s.Full(); return 10 * sec }, false},
		{"the first window", func(s *adaptive.SlotSearch) int64 { s.Full(); return end(s, 0, 10) }, true},
		{"the first window, not full", func(s *adaptive.SlotSearch) int64 { return end(s, 0, 10) }, false},
		{"too few calls", func(s *adaptive.SlotSearch) int64 { s.Full(); return end(s, 0, 9) }, false},
		{"too short", func(s *adaptive.SlotSearch) int64 { s.Overloaded(0, 0); s.Full(); return end(s, 19*sec/10, 20) }, false},
		{"used", func(s *adaptive.SlotSearch) int64 { s.Overloaded(0, 0); s.Full(); return end(s, 5*sec/2, 11) }, true},
		{"before a slot that was too many", func(s *adaptive.SlotSearch) int64 { s.Overloaded(0, 0); s.Full(); return end(s, 5*sec/2, 10) }, false},
		{"never full", func(s *adaptive.SlotSearch) int64 { s.Overloaded(0, 0); return end(s, 5*sec/2, 20) }, false},
		{"full in the next window", func(s *adaptive.SlotSearch) int64 {
			end(s, 0, 10)
			s.Full()
			return end(s, sec, 10)
		}, false},
		{"overload", func(s *adaptive.SlotSearch) int64 {
			s.Full()
			end(s, sec, 9)
			s.Overloaded(2*sec, sec)
			return end(s, 3*sec, 1)
		}, false},
		{"resumed", func(s *adaptive.SlotSearch) int64 {
			s.Full()
			end(s, sec, 10)
			s.Resume(s.State(sec), sec, 0)
			return end(s, 2*sec, 10)
		}, false},
	} {
		s := newSlotSearch(t, nil)
		at := c.do(s)
		if got := s.Ready(at); got != c.want {
			t.Errorf("%s: ready is %v at %v", c.name, got, time.Duration(at))
		}
	}
}

func TestSlotSearchLevels(t *testing.T) {
	s := newSlotSearch(t, nil)
	s.Raise(0)
	if s.Limit() != 20 {
		t.Errorf("raised to %d, want twice as many", s.Limit())
	}
	for _, c := range []struct {
		at, took int64
		lowered  bool
		limit    int
	}{
		{10 * sec, 0, true, 10},         // back to where it was
		{11 * sec, sec / 2, false, 10},  // within the cool-down
		{30 * sec, 20 * sec, false, 10}, // sent before the decrease
		{30 * sec, 20*sec - 1, true, 9},
		{32 * sec, 0, true, 6},
	} {
		if lowered := s.Overloaded(c.at, c.took); lowered != c.lowered || s.Limit() != c.limit {
			t.Errorf("overloaded at %v: lowered %v to %d, want %v, %d", time.Duration(c.at), lowered, s.Limit(), c.lowered, c.limit)
		}
	}
}

// Overload takes a slot at least, however few there are, and the slot that was too many is tried
// again after so many calls.
func TestSlotSearchFewSlots(t *testing.T) {
	for _, c := range []struct{ start, limit, calls int }{
		{2, 1, 21}, {3, 2, 36}, {5, 4, 75}, {9, 8, 110}, {17, 16, 140}, {21, 19, 119}, {100, 95, 580},
	} {
		s := newSlotSearch(t, func(config *adaptive.ConcurrencyConfig) { config.Start = c.start })
		s.Overloaded(0, 0)
		if s.Limit() != c.limit {
			t.Errorf("%d slots, after overload: %d, want %d", c.start, s.Limit(), c.limit)
		}
		calls, at := 0, int64(0)
		for s.State(0).Level < int64(c.start)*1000 || calls == 0 {
			s.Full()
			at += 3 * sec
			calls++
			if s.Ended(at); s.Ready(at) {
				s.Raise(at)
			}
		}
		if calls != c.calls {
			t.Errorf("%d slots are tried again after %d calls, want %d", c.start, calls, c.calls)
		}
	}
}

// A Concurrency is a SlotSearch with slots: with calls counted by hand it decides alike, on
// another line of time.
func TestSlotSearchOracle(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 22))
		start := func(c *adaptive.ConcurrencyConfig) { c.Seed, c.Start = seed+1, 5 }
		c, s := newConcurrency(t, start), newSlotSearch(t, start)
		offset := rng.Int64N(math.MaxInt64 >> 1)
		s.Resume(s.State(offset), offset, 0) // begins a window, as the first slot does
		type call struct {
			slot adaptive.Slot
			at   int64
		}
		var calls []call
		now := int64(0)
		for range 5000 {
			at, instant := offset+now, noon.Add(time.Duration(now))
			passes := len(calls) < s.Limit()
			slot, ok := c.TryAcquireAt(instant)
			if ok != passes {
				t.Fatalf("seed %d, at %d: %v, want %v", seed, now, ok, passes)
			}
			if passes {
				calls = append(calls, call{slot, at})
			}
			if len(calls) >= s.Limit() {
				s.Full()
			}
			now += rng.Int64N(sec / 5)
			at, instant = offset+now, noon.Add(time.Duration(now))
			for len(calls) > 0 && rng.IntN(3) > 0 {
				i := rng.IntN(len(calls))
				last := calls[i]
				calls = append(calls[:i], calls[i+1:]...)
				if rng.IntN(100) == 0 {
					lowered := s.Overloaded(at, at-last.at)
					if last.slot.OverloadedAt(instant, 0) != lowered {
						t.Fatalf("seed %d, at %d: lowered is not %v", seed, now, lowered)
					}
					continue
				}
				last.slot.ReleaseAt(instant)
				if s.Ended(at); s.Ready(at) {
					s.Raise(at)
				}
			}
			if a, b := c.StateAt(instant).Slots, s.State(at).Level; a != b {
				t.Fatalf("seed %d, at %d: %d and %d", seed, now, a, b)
			}
		}
	}
}

func TestNewSlotSearchErrors(t *testing.T) {
	for field, c := range map[string]adaptive.ConcurrencyConfig{
		"Floor is 0":     {Ceiling: 1},
		"Ceiling is 1":   {Floor: 2, Ceiling: 1},
		"Window is -1ns": {Floor: 1, Ceiling: 1, Window: -1},
	} {
		_, err := adaptive.NewSlotSearch(c)
		if !errors.Is(err, limit.ErrInvalid) || !strings.Contains(err.Error(), field) ||
			!strings.HasPrefix(err.Error(), "new adaptive slot search: ") {
			t.Errorf("%s: %v", field, err)
		}
	}
}
