package account

import "dappco.re/go/core/go-ratelimit/internal/state"

// ProviderRefusal is a refusal by the provider, or a call without an answer.
type ProviderRefusal struct {
	Overload bool  // by an overloaded provider, or no answer; else by the provider's limit of requests
	Took     int64 // how long ago the call was sent, in nanoseconds; 0 where that is not known
	Wait     int64 // for how long the provider asks to send nothing, in nanoseconds; 0 for none
}

// Concerns reports whether a refusal says anything of a limit that is searched for.
func (b SearchBounds) Concerns(r ProviderRefusal) bool {
	return b.FloorRPM > 0 || r.Overload && b.FloorSlots > 0
}

// Refuse searches on after a refusal. It returns which of the windows begin anew, and whether a
// limit was lowered.
func (l *FoundLimits) Refuse(r ProviderRefusal, instant int64) (anew int64, lowered bool) {
	if !l.bounds.Concerns(r) || l.told && !r.Overload {
		return 0, false
	}
	if l.age(instant) {
		anew = state.RateAnew | state.SlotsAnew
	}
	switch {
	case r.Overload:
		if l.bounds.FloorRPM > 0 {
			l.rate.Failed(instant) // so that it does not grow while nothing is answered
			anew |= state.RateAnew
		}
		if l.bounds.FloorSlots > 0 {
			lowered = l.slots.Overloaded(instant, r.Took)
			anew |= state.SlotsAnew
		}
	default:
		lowered = l.rate.RefusedUntil(instant, r.Took, instant+min(r.Wait, longestWait))
		l.gap = int64(l.rate.Gap())
		anew |= state.RateAnew
	}
	return anew, lowered
}
