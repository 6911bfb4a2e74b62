package adaptive

import (
	"math"
	"time"

	"dappco.re/go/core/go-ratelimit/limit"
)

// RateState is what a Rate has found, in whole numbers, to be kept while the program is not
// running. The zero RateState is nothing.
type RateState struct {
	// Units is the rate, in units in 10^9 seconds.
	Units int64 `json:"units"`
	// Knee is the rate at which the provider last refused, in units in 10^9 seconds, and 0
	// if that is not known.
	Knee int64 `json:"knee,omitzero"`
	// At is when the state was read, in nanoseconds since 1970.
	At int64 `json:"at"`
	// Gate is until when the provider wants nothing to be sent, in nanoseconds since 1970,
	// and 0 if that is over.
	Gate int64 `json:"gate,omitzero"`
	// Step, Raised, Streak and Lowered are as in SearchState. They count for a minute.
	Step    int64 `json:"step,omitzero"`
	Raised  int64 `json:"raised,omitzero"`
	Streak  int64 `json:"streak,omitzero"`
	Lowered int64 `json:"lowered,omitzero"`
}

// Rate returns the rate, which is not valid for the zero RateState. It is exact on 64-bit
// machines.
func (s RateState) Rate() limit.Rate { return rateOf(s.Units) }

// rateOf returns a rate of units in perSpan.
func rateOf(units int64) limit.Rate {
	per := perSpan
	for units > math.MaxInt {
		units, per = units>>1, per>>1
	}
	return limit.Rate{Count: int(units), Per: time.Duration(per)}
}

// State is StateAt time.Now.
func (r *Rate) State() RateState { return r.StateAt(time.Now()) }

// StateAt returns what was found until now.
func (r *Rate) StateAt(now time.Time) RateState {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.time.at(now)
	found := r.search.State(at)
	s := RateState{
		Units: found.Level, Knee: found.Knee, At: now.UnixNano(),
		Step: found.Step, Raised: found.Raised, Streak: found.Streak, Lowered: found.Lowered,
	}
	if wait := r.gate - at; r.time.begun && wait > 0 {
		s.Gate = now.Add(time.Duration(wait)).UnixNano()
	}
	return s
}

// Restore makes what was found before the limit again, aged by the time since: every HalfLife
// it loses half of its distance to the floor. From there the rate at most doubles in a clean
// window, up to where the provider last refused, so that many programs that start again do
// not meet the provider with all that it once allowed. Values out of range are brought into
// it, and the zero RateState changes nothing. A gate that has not passed is kept.
func (r *Rate) Restore(s RateState, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.beginLocked(now, r.time.at(now))
	if wait := sub(s.Gate, now.UnixNano()); s.Gate > 0 && wait > 0 {
		r.gate = max(r.gate, at+min(wait, far/2))
	}
	if s.Units < 1 {
		return
	}
	gap, lowered := r.search.gap, r.search.lowered
	r.search.resume(SearchState{
		Level: s.Units, Knee: s.Knee, Step: s.Step, Raised: s.Raised, Streak: s.Streak, Lowered: s.Lowered,
	}, at, sub(now.UnixNano(), s.At))
	r.search.lowered = max(r.search.lowered, lowered) // refusals from before either are late
	r.search.gap = gapOf(r.search.level)
	r.respaceLocked(at, gap)
	r.search.open(max(at, r.gate))
}
