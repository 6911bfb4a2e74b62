package ratelimit

import (
	"time"

	"dappco.re/go/core/go-ratelimit/internal/state"
)

// FoundLimits is the limits of a model that are searched for, at one moment: see
// ModelQuota.AdaptiveFloorRPM. Those of a limit that is not searched for are zero.
type FoundLimits struct {
	RPM        int `json:"rpm,omitempty"` // the present rate, in requests per minute, rounded
	FloorRPM   int `json:"floor_rpm,omitempty"`
	CeilingRPM int `json:"ceiling_rpm,omitempty"`
	// RefusedRPM is the rate at which the provider last refused; zero if that is not known.
	RefusedRPM    int       `json:"refused_rpm,omitempty"`
	RateLoweredAt time.Time `json:"rate_lowered_at,omitzero"` // when a refusal last lowered the rate

	InFlight        int `json:"in_flight,omitempty"` // how many calls may be in flight
	FloorInFlight   int `json:"floor_in_flight,omitempty"`
	CeilingInFlight int `json:"ceiling_in_flight,omitempty"`
	// OverloadedInFlight is the limit at which the provider was last overloaded; zero if that is not
	// known.
	OverloadedInFlight int       `json:"overloaded_in_flight,omitempty"`
	InFlightLoweredAt  time.Time `json:"in_flight_lowered_at,omitzero"` // when overload last lowered it

	// Told reports that the headers of the provider say its limits of the minute
	// (Config.LearnQuotas), so that the rate does not apply.
	Told bool `json:"told,omitempty"`
}

// foundLimits returns what f, or nothing, has found for the quota of a view.
func (r *view) foundLimits(f *found) *FoundLimits {
	if !r.adapts || r.found == nil {
		return nil
	}
	if f == nil {
		f = r.found // the beginning of a search
	}
	known, b := f.present(r.instant, r.wall), f.bounds
	l := &FoundLimits{
		FloorRPM: b.floorRPM, CeilingRPM: b.ceilingRPM, RefusedRPM: scaledInt(known.Rate.Knee, 60, 1e9),
		FloorInFlight: b.floorSlots, CeilingInFlight: b.ceilingSlots, OverloadedInFlight: scaledInt(known.Slots.Knee, 1, 1000),
		Told: f.told,
	}
	l.RPM, l.InFlight = f.limits(r.instant, r.wall)
	l.RateLoweredAt, l.InFlightLoweredAt = r.loweredAt(&known.Rate), r.loweredAt(&known.Slots)
	return l
}

// loweredAt returns when a limit was last lowered; the zero time for never.
func (r *view) loweredAt(s *state.Search) time.Time {
	if s.Lowered == 0 {
		return time.Time{}
	}
	return time.Unix(0, r.wall).Add(-time.Duration(s.Lowered))
}
