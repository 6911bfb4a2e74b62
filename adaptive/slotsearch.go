package adaptive

import (
	"fmt"
	"time"
)

// SlotSearch is the part of a Concurrency that finds how many calls may be in flight. It has no
// clock, no lock and no slots: its caller counts the calls under way, and says when one has
// ended. Instants are nanoseconds on a line of time of the caller's, and may be any.
//
// After each call that ended without overload, the caller asks whether the limit is to be
// raised:
//
//	s.Ended(at)
//	if s.Ready(at) {
//		s.Raise(at)
//	}
//
// Make it with NewSlotSearch: the zero SlotSearch panics. It is a value, and a copy of it goes
// its own way. No method but those of its bytes allocates. It is not safe for concurrent use.
//
// The first window is of any length, since nobody said when it began.
type SlotSearch struct {
	course       // in thousandths of a slot
	ended  int64 // calls that have ended in the window
	full   bool  // the limit was reached in the window
}

// NewSlotSearch returns a SlotSearch at its start. It returns an error that matches
// limit.ErrInvalid and names the field that is out of range.
func NewSlotSearch(config ConcurrencyConfig) (SlotSearch, error) {
	s, err := newSlotSearch(config)
	if err != nil {
		return SlotSearch{}, fmt.Errorf("new adaptive slot search: %w", err)
	}
	return s, nil
}

func newSlotSearch(config ConcurrencyConfig) (SlotSearch, error) {
	c, start, err := config.complete()
	if err != nil {
		return SlotSearch{}, err
	}
	return SlotSearch{course: course{
		search: start, coolDown: int64(c.CoolDown), window: int64(c.Window), halfLife: int64(c.HalfLife),
		chance: chance(c.Seed), lowered: never,
	}}, nil
}

// Limit returns how many calls may be in flight.
func (s *SlotSearch) Limit() int { return int(s.level / 1000) }

// Full tells that as many calls are in flight as may be. A window in which that was never so
// raises nothing.
func (s *SlotSearch) Full() { s.full = true }

// Ended tells of a call that has ended at an instant, and met no overloaded provider. It ends a
// window in which the limit was not reached, and begins the next.
func (s *SlotSearch) Ended(at int64) {
	s.ended = min(s.ended, mostSlots) + 1
	if s.over(at) && !s.full {
		s.open(at)
	}
}

// Ready reports whether the limit is to be raised: a window ends at an instant that had no
// overload, was long enough, in which as many calls have ended as may be in flight, and in which
// the limit was reached. With few slots a quarter more calls have to end before the slot that was
// too many is tried again.
func (s *SlotSearch) Ready(at int64) bool { return s.full && s.over(at) }

// Raise raises the limit and begins a window.
func (s *SlotSearch) Raise(at int64) {
	s.passed()
	s.open(at)
}

// Overloaded tells of a call that has ended at an instant, took nanoseconds after it was sent or
// 0 if that is not known, and met an overloaded provider. It reports whether the limit was
// lowered: overload within the cool-down, and that of a call that was sent before the limit was
// last lowered, lowers nothing. In either case the window is not clean.
func (s *SlotSearch) Overloaded(at, took int64) (lowered bool) {
	return s.overloadedUntil(at, took, at)
}

// overloadedUntil is Overloaded, with when the next window begins.
func (s *SlotSearch) overloadedUntil(at, took, until int64) (lowered bool) {
	lowered, _ = s.lower(at, took)
	s.open(until)
	return lowered
}

// State returns what was found until an instant.
func (s *SlotSearch) State(at int64) SearchState { return s.state(at) }

// Resume takes over what was found before, aged as by RateSearch.Resume. A window begins at the
// instant. A state without a positive Level is nothing, and changes nothing.
func (s *SlotSearch) Resume(state SearchState, at int64, age time.Duration) {
	if state.Level < 1 {
		return
	}
	s.resume(state, at, int64(age))
	s.open(at)
}

// begin begins the first window, for a caller that knows when that is.
func (s *SlotSearch) begin(at int64) {
	if !s.begun {
		s.openFrom(at, s.window)
	}
}

// open begins a window.
func (s *SlotSearch) open(at int64) {
	s.openFrom(at, s.window)
	s.ended, s.full = 0, false
}

// over reports whether the window is long enough and enough calls have ended in it.
func (s *SlotSearch) over(at int64) bool {
	return s.ended >= s.calls() && (!s.begun || s.lasted(at) >= s.length)
}

// fewSlots bounds the limits of which one slot more is much, so that trying it costs much.
const fewSlots = 20

// calls returns how many calls have to end in a window: as many as may be in flight, and with
// few slots a quarter more where the next slot is the one that was too many.
func (s *SlotSearch) calls() int64 {
	n := int64(s.Limit())
	if s.knee > s.level && n+1 >= s.knee/1000 {
		n = max(n, min(n+n/4, fewSlots))
	}
	return n
}
