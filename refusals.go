package ratelimit

import (
	"time"

	"dappco.re/go/core/go-ratelimit/internal/tokens"
)

// refusals counts the calls of a model that this limiter refused in the last minute, in cells of
// ten seconds. With Config.Shared it counts the calls that it admitted, too, because the windows
// have those of all processes.
type refusals struct {
	cells [refusalCells]refusalCell
	last  Refused // its At is made of the instant when somebody asks
	at    int64   // the instant of the last
	any   bool    // there was one
}

type refusalCell struct {
	of                int64 // the instants of the cell, in cells since instant 0
	refused, admitted int
}

const (
	refusalSpan  = int64(10 * time.Second)
	refusalCells = 7 // a minute, and the cell that is not over
)

// cell returns the cell of an instant.
func (r *refusals) cell(instant int64) *refusalCell {
	of := instant / refusalSpan
	c := &r.cells[uint64(of)%refusalCells]
	if c.of != of {
		*c = refusalCell{of: of}
	}
	return c
}

// lastMinute returns how many calls were refused, and with Config.Shared admitted, in the last
// minute or up to ten seconds more.
func (r *refusals) lastMinute(instant int64) (refused, admitted int) {
	if r == nil {
		return 0, 0
	}
	of := instant / refusalSpan
	for i := range r.cells {
		if c := &r.cells[i]; c.of <= of && of-c.of < refusalCells {
			refused += c.refused
			admitted += c.admitted
		}
	}
	return refused, admitted
}

// tallyLocked returns the refusals of a model, to be changed.
func (g *slots) tallyLocked() *refusals {
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
	r := g.tallyLocked()
	r.cell(instant).refused++
	r.at, r.any = instant, true
	r.last.Code, r.last.Reason, r.last.RetryAfter = d.Code, d.Reason, d.RetryAfter
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
	if g == nil || g.refusals == nil || !g.refusals.any {
		return nil
	}
	last := g.refusals.last
	last.At = g.home.clock.At(g.refusals.at).Round(0)
	return &last
}

// settlements compares the tokens of calls with their estimates. It forgets by number, not by time.
// The zero value has none.
type settlements struct {
	calls           int32
	estimated, used int64
}

const (
	mostSettlements = 128     // then they count half
	mostOfOne       = 1 << 48 // tokens of one call, so that the sums stay in range
)

// add adds a call.
func (s *settlements) add(estimate, used tokens.Count) {
	if s.calls >= mostSettlements {
		s.calls, s.estimated, s.used = s.calls/2, s.estimated/2, s.used/2
	}
	s.calls++
	s.estimated += min(int64(estimate.Total()), mostOfOne)
	s.used += min(int64(used.Total()), mostOfOne)
}

// settledLocked notes what a call used that was estimated. One that used nothing failed, and tells
// nothing of the estimate.
func (g *slots) settledLocked(estimate, used tokens.Count) {
	if used != (tokens.Count{}) {
		g.estimates.add(estimate, used)
	}
}
