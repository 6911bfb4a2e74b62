package ratelimit

import (
	"dappco.re/go/core/go-ratelimit/internal/tally"
	"dappco.re/go/core/go-ratelimit/internal/tokens"
)

// refusals is what this limiter refused of a model. With Config.Shared it counts what it admitted,
// too, because the windows have the calls of all processes.
type refusals struct {
	tally.Minute
	last Refused // without At
	at   int64   // the instant of the last
}

// talliesLocked returns the refusals of a model, to be changed.
func (g *slots) talliesLocked() *refusals {
	if g.refusals == nil {
		g.refusals = new(refusals)
	}
	return g.refusals
}

// refusedLocked notes that a call was refused. Nil slots note nothing.
func (g *slots) refusedLocked(instant int64, d *Decision) {
	if g == nil {
		return
	}
	r := g.talliesLocked()
	r.At(instant).Refused++
	r.at = instant
	r.last.Code, r.last.Reason, r.last.Pool, r.last.RetryAfter = d.Code, d.Reason, d.Pool, d.RetryAfter
}

// admittedLocked notes that this limiter, which shares a store, admitted a call.
func (g *slots) admittedLocked(instant int64) { g.talliesLocked().At(instant).Admitted++ }

// settledLocked notes what a call used that was estimated. One that used nothing failed, and tells
// nothing of the estimate.
func (g *slots) settledLocked(estimate, used tokens.Count) {
	if used != (tokens.Count{}) {
		g.estimates.Add(estimate.Total(), used.Total())
	}
}

// refusalSlotsLocked returns the slots in which refusals of a model are noted; nil where the model
// has no state, so that names that are only asked for take no memory.
func (rl *RateLimiter) refusalSlotsLocked(name string) *slots {
	if g := rl.lines.allSlots[name]; g != nil {
		return g
	}
	if stats := rl.State[name]; stats == nil || !stats.window.mirrors(stats, rl) {
		return nil
	}
	return rl.linesLocked().slotsLocked(name)
}

// lastRefusalLocked returns the last refusal of a model; nil for none.
func (g *slots) lastRefusalLocked() *Refused {
	if g == nil || g.refusals == nil || g.refusals.last.Code == "" {
		return nil
	}
	last := g.refusals.last
	last.At = g.home.clock.At(g.refusals.at).Round(0)
	return &last
}
