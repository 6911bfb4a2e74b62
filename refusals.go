package ratelimit

import (
	"dappco.re/go/core/go-ratelimit/internal/clock"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/tally"
	"dappco.re/go/core/go-ratelimit/internal/tokens"
)

// refusals is the calls of a model that this limiter refused.
type refusals struct {
	tally.Minute
	last Refused // without At
	at   int64   // the instant of the last
}

// refusedLocked notes that a call of a model was refused, which gets no entry in State by it.
func (rl *RateLimiter) refusedLocked(name string, instant int64, d *Decision) {
	r := rl.refusals.Use(name, len(rl.Quotas), func(name string) bool { _, own := rl.Quotas[name]; return own })
	if r == nil {
		return
	}
	r.At(instant).Refused++
	r.at = instant
	r.last.Code, r.last.Reason, r.last.Pool, r.last.RetryAfter = d.Code, d.Reason, d.Pool, d.RetryAfter
}

// admittedLocked notes that this limiter, which shares a store, admitted a call: the windows have
// the calls of all processes.
func (g *slots) admittedLocked(instant int64) {
	if g.admitted == nil {
		g.admitted = new(tally.Minute)
	}
	g.admitted.At(instant).Admitted++
}

// settledLocked notes what a call used that was estimated. One that used nothing failed, and tells
// nothing of the estimate. A pool has no estimates but those of its models.
func (g *slots) settledLocked(estimate, used tokens.Count) {
	if used != (tokens.Count{}) && !state.IsPool(g.name) {
		g.estimates.Add(estimate.Total(), used.Total())
	}
}

// told returns the last refusal; nil for none.
func (r *refusals) told(c *clock.Clock) *Refused {
	if r == nil {
		return nil
	}
	last := r.last
	last.At = c.At(r.at).Round(0)
	return &last
}
