package account

import (
	"math"

	"dappco.re/go/core/go-ratelimit/internal/state"
)

// pacing returns the part of a quota that spreads calls inside the minute; ok is false where it
// spreads nothing. A burst of a minute is the minute itself.
func pacing(q *state.Quota) (p paceQuota, ok bool) {
	if q.Burst <= 0 || int64(q.Burst) >= Minute || q.MaxRPM|q.MaxTPM|q.MaxITPM|q.MaxOTPM == 0 {
		return paceQuota{}, false
	}
	p.Burst = q.Burst
	p.PerMinute[unitRequests], p.PerMinute[unitTokens] = q.MaxRPM, q.MaxTPM
	p.PerMinute[unitInput], p.PerMinute[unitOutput] = q.MaxITPM, q.MaxOTPM
	return p, true
}

// unitOf returns the unit of the bucket of a limit of the minute.
func unitOf(of state.Dimension) unit {
	if limit := &state.Limits[of]; !limit.Counts {
		return unitTokens + unit(limit.Tokens)
	}
	return unitRequests
}

// repace makes the buckets those of the present quota. Buckets of another quota keep their
// content, at its price.
func (a *Account) repace(now Now, span int64) {
	p, paces := pacing(&a.Quota)
	switch {
	case !paces:
		a.pace = nil
	case !a.pace.Of(p):
		was, charged := a.pace, charges{&a.Window}
		if a.pace = newBuckets(p, now.Instant, span, charged); was != nil {
			a.pace.Take(was, now.Instant, charged)
		}
	}
}

// Paced reports whether the buckets let a request start now. An account that has charged nothing
// since its quota spreads calls has none.
func (a *Account) Paced(c *state.Cost, instant int64) bool {
	return a.pace == nil || a.pace.Admit(c.Requests, c.Count, instant)
}

// PacedIn returns how long the bucket of a limit of the minute keeps more of it from starting; zero
// or less where it does not.
func (a *Account) PacedIn(of state.Dimension, more int, instant int64) int64 {
	if a.pace == nil {
		return 0
	}
	return int64(a.pace.Opens(unitOf(of), more, instant))
}

// PaceEmpty returns the instant at which the bucket of a limit of the minute will have drained.
func (a *Account) PaceEmpty(of state.Dimension) int64 {
	if a.pace == nil {
		return math.MinInt64 / 2
	}
	return a.pace.Empty(unitOf(of))
}

// charges shows the charges of a window to its buckets.
type charges struct{ *Window }

func (c charges) Requests() int         { return c.requests.Len() }
func (c charges) RequestAt(i int) int64 { return c.requests.When(i) }
func (c charges) Tokens() int           { return c.tokens.Len() }
func (c charges) TokensAt(i int) (instant int64, count state.Count) {
	return c.tokens.When(i), c.sums.Values()[i]
}
