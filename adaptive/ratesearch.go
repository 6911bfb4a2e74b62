package adaptive

import (
	"fmt"
	"math"
	"time"

	"dappco.re/go/core/go-ratelimit/limit"
)

// rivalUnits divides the units of a window while there are rivals, whose windows are half as long
// again.
const rivalUnits = 3

// RateSearch is the part of a Rate that finds the rate. It has no clock, no lock and no bucket:
// its caller spaces the units by Gap, and says at which instant each passes. Instants are
// nanoseconds on a line of time of the caller's, and may be any.
//
// Before units are counted, the caller asks whether the rate is to be raised:
//
//	if s.Ready(at) {
//		s.Raise(at)
//	}
//	s.Count(at, 1)
//
// Gap may change by Raise, Refused and Resume, and by nothing else.
//
// Make it with NewRateSearch: the zero RateSearch panics. It is a value, and a copy of it goes
// its own way. No method but those of its bytes allocates. It is not safe for concurrent use.
type RateSearch struct {
	course      // in units in perSpan
	drought     drought
	crowd       crowd
	windowUnits int64
	gap         int64 // between units
	passed      int64 // units in the window
	lag         int64 // how long refusals take to come back
	pause       int64 // how long the latest one kept units back; 0 for longer than a window
}

// NewRateSearch returns a RateSearch at its start. Burst of the config counts for nothing. It
// returns an error that matches limit.ErrInvalid and names the field that is out of range.
func NewRateSearch(config RateConfig) (RateSearch, error) {
	config.Burst = 0
	s, err := newRateSearch(config)
	if err != nil {
		return RateSearch{}, fmt.Errorf("new adaptive rate search: %w", err)
	}
	return s, nil
}

func newRateSearch(config RateConfig) (RateSearch, error) {
	c, start, err := config.complete()
	if err != nil {
		return RateSearch{}, err
	}
	return RateSearch{
		course: course{
			search: start, coolDown: int64(c.CoolDown), window: int64(c.Window), halfLife: int64(c.HalfLife),
			chance: chance(c.Seed), lowered: never,
		},
		drought:     drought{probed: never, until: never},
		crowd:       newCrowd(),
		windowUnits: int64(c.WindowUnits),
		gap:         gapOf(start.level),
	}, nil
}

// Gap returns the time between units, rounded up to a nanosecond.
func (s *RateSearch) Gap() time.Duration { return time.Duration(s.gap) }

// Rate returns the rate. It is exact on 64-bit machines.
func (s *RateSearch) Rate() limit.Rate { return rateOf(s.level) }

// Ready reports whether the rate is to be raised: a window ends at an instant that had no
// refusal, was long enough, and in which three quarters of what could pass did. Of the units
// that pass now nobody knows yet whether they are refused, so ask before Count.
func (s *RateSearch) Ready(at int64) bool {
	if s.crowd.holds {
		return s.stepReady(at)
	}
	if s.drought.holds {
		return s.probePassed(at)
	}
	if !s.over(at) {
		return false
	}
	return s.passed >= s.lasted(at)/4*3/s.gap
}

// Raise raises the rate and begins a window.
func (s *RateSearch) Raise(at int64) {
	switch {
	case s.crowd.holds:
		s.stepUp(at)
	case s.drought.holds:
		s.end()
	default:
		s.search.passed()
		s.crowd.trial = false
	}
	s.gap = gapOf(s.level)
	s.open(at)
}

// Count counts n units that pass at an instant; n below 1 is none. It ends a window that is
// over, and begins the next: one in which the rate was not really used says nothing.
func (s *RateSearch) Count(at int64, n int) {
	s.begin(at)
	if s.over(at) {
		s.open(at)
	}
	units := int64(max(n, 0))
	s.passed = min(s.passed, math.MaxInt64-units) + units
	s.drought.count(at, units)
	s.crowd.sent = min(s.crowd.sent, longestSum-units) + units
}

// Uncount takes back n units that were counted and not sent; n below 1 is none.
func (s *RateSearch) Uncount(n int) {
	units := int64(max(n, 0))
	s.passed = max(s.passed-units, 0)
	s.drought.uncount(units)
	s.crowd.sent = max(s.crowd.sent-units, 0)
}

// Refused tells of a call that was refused because of one's own quota, took nanoseconds after
// it was sent, or 0 if that is not known. It reports whether the rate was lowered. A refusal
// within the cool-down lowers nothing, but the window is not clean. One of a call that was sent
// before the rate was last lowered says nothing about the present rate, and changes nothing.
func (s *RateSearch) Refused(at, took int64) (lowered bool) { return s.RefusedUntil(at, took, at) }

// RefusedUntil is Refused, and says until when nothing is sent, as the provider asks: the next
// window begins then.
func (s *RateSearch) RefusedUntil(at, took, until int64) (lowered bool) {
	s.begin(at)
	if took > 0 {
		s.lag = max(min(took, int64(longestLag)), s.lag/8*7)
		s.late = s.lag > s.window/2
	}
	s.drought.tally.remove(1)
	before := s.search
	lowered, late := s.lower(at, took)
	if late {
		return false
	}
	s.drought.refused++
	s.drought.probed = never
	switch {
	case s.crowd.holds:
		s.search = before
		s.missed(at)
	case lowered && s.crowd.trial:
		s.retreat(at)
	case lowered:
		s.dry(at, took, until, &before)
	}
	s.gap = gapOf(s.level)
	if s.pause = max(sub(until, at), 0); s.pause > s.window {
		s.pause = 0
	}
	s.open(until)
	return lowered
}

// dry looks for a drought after a refusal that has lowered the rate.
func (s *RateSearch) dry(at, took, until int64, before *search) {
	if s.drought.holds { // what is refused in it says nothing about the rate
		s.search = *before
	}
	if s.countsMinute(at) {
		s.rivals = 0
		if before.streak == 0 {
			s.knee = max(scaled(s.knee, enterWith, 1000), s.floor)
		}
	}
	s.judge(at, took, before.level)
	s.awaited(at, until, before.level)
}

// Failed tells that the window is not clean: a call failed by the provider's fault, but not
// because of one's own quota. The next one begins at the instant, which may lie ahead: the end
// of a wait that the provider asked for.
func (s *RateSearch) Failed(at int64) { s.open(at) }

// State returns what was found until an instant.
func (s *RateSearch) State(at int64) SearchState { return s.state(at) }

// Resume takes over what was found before, aged: in each HalfLife it loses half of its distance
// to the floor. After an age of a minute the steps and the row of refusals are forgotten, and an
// age of 0 or less changes nothing. Values out of range are brought into it. A window begins at
// the instant. A state without a positive Level is nothing, and changes nothing.
func (s *RateSearch) Resume(state SearchState, at int64, age time.Duration) {
	if state.Level < 1 {
		return
	}
	s.resume(state, at, int64(age))
	s.gap = gapOf(s.level)
	s.open(at)
}

// begin begins the first window.
func (s *RateSearch) begin(at int64) {
	if !s.begun {
		s.open(at)
	}
}

// open begins a window, which is no shorter than refusals take to come back. On the way to the
// knee it is longer by the pause that the refusal there will cost again.
func (s *RateSearch) open(at int64) {
	least := max(s.window, s.lag)
	if s.knee > s.level {
		least += s.pause
	}
	s.openFrom(at, least)
	s.passed = 0
}

// over reports whether the window is long enough and has enough units.
func (s *RateSearch) over(at int64) bool {
	lasted := s.lasted(at)
	if !s.begun || lasted < s.length || s.passed == 0 {
		return false
	}
	if s.knee == 0 { // each window doubles the rate, so it may be short
		return true
	}
	if s.countsMinute(at) && s.level >= max(s.knee, s.drought.allowed/2) && lasted < minute {
		return false
	}
	units := s.windowUnits
	if s.rivals > 0 {
		// Windows that are longer for the one that has less would keep it there.
		if lasted < s.length/2*3 {
			return false
		}
		units /= rivalUnits
	}
	return s.passed >= units || lasted >= int64(longestWindow)
}

// resume takes over a state of a positive level.
func (s *RateSearch) resume(state SearchState, at, age int64) {
	s.course.resume(state, at, age)
	s.drought.forget(age >= fresh)
	s.crowd.forget()
}

// shift makes an instant the new origin.
func (s *RateSearch) shift(by int64) {
	s.course.shift(by)
	s.drought.shift(by)
	s.crowd.shift(by)
}
