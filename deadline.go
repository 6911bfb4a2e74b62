package ratelimit

import (
	"math"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/pace"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/tokens"
)

// lineSlack is how much more may be charged to a model before one of the waiters in its line
// could not pass by its deadline, even alone. As long as it lasts, a charge of the model needs no
// look at the line. It may be too small, never too large.
type lineSlack struct {
	room [state.InFlight]int // how much more of each dimension
	full [pace.Units]int64   // the instant until which each bucket may have something in it
}

func newSlack() *lineSlack {
	s := new(lineSlack)
	for of := range s.room {
		s.room[of] = math.MaxInt
	}
	for of := range s.full {
		s.full[of] = never
	}
	return s
}

// meet lowers the slack so that a request can pass by an instant.
func (s *lineSlack) meet(r *reading, q *ModelQuota, c *cost, deadline int64) {
	p := r.paceOf(q)
	for of := range state.InFlight {
		limit := *q.limit(of)
		if limit <= 0 {
			continue
		}
		s.room[of] = min(s.room[of], limit-c.of(of)-r.usedBy(of, deadline))
		switch {
		case state.Limits[of].Window != state.Minute || !q.paces():
		case p == nil:
			s.room[of] = -1 // there are no buckets yet
		default:
			unit := unitOf(of)
			s.full[unit] = min(s.full[unit], p.MostFull(unit, c.of(of), deadline))
		}
	}
}

// take deducts a charge, and reports whether any slack is left.
func (s *lineSlack) take(c *cost, p *pace.Buckets) (left bool) {
	left = true
	for of := range state.InFlight {
		s.room[of] -= c.of(of)
		left = left && s.room[of] >= 0
	}
	if p != nil {
		for of := range pace.Units {
			left = left && p.Empty(of) <= s.full[of]
		}
	}
	return left
}

// usedBy returns how much of the present usage, external usage included, still counts at a later
// instant.
func (r *reading) usedBy(of state.Dimension, instant int64) (used int) {
	switch n := r.tokens.Before(instant - r.span); {
	case state.Limits[of].Window == state.Day:
		if instant+r.wall-r.instant < r.dayEnd {
			used = r.usedOf(of)
		}
	case of == state.RPM:
		used = r.requests.Len() - r.requests.Before(instant-r.span)
	case n < r.tokens.Len():
		used = r.sums.Sum(n, r.tokens.Len()).Of(state.Limits[of].Tokens)
	}
	if r.external != nil {
		end := instant
		if state.Limits[of].Window == state.Day {
			end += r.wall - r.instant
		}
		if h := r.external[of]; h.Until > end {
			used = tokens.AddSaturated(used, h.Amount)
		}
	}
	return used
}

// isLateLocked reports whether a waiter cannot pass before its deadline, even alone.
func (rl *RateLimiter) isLateLocked(w *waiter, b *batch) bool {
	return !w.deadline.IsZero() && w.deadline.Sub(rl.clock.At(rl.clock.Sync())) < b.wait
}

// boundLocked notes the needs of a waiter in its lines, which was decided upon, to pass by its
// deadline.
func (rl *RateLimiter) boundLocked(w *waiter, b *batch) {
	if w.deadline.IsZero() {
		return
	}
	instant := rl.clock.Sync()
	left := min(w.deadline.Sub(rl.clock.At(instant)), time.Duration(math.MaxInt64/4))
	deadline := instant + int64(left)
	for i := range b.costs {
		m, g := &b.costs[i], w.places[i].gate
		if !m.known {
			continue
		}
		if g.slack == nil {
			g.slack = newSlack()
		}
		g.slack.meet(&m.reading, &m.quota, &m.cost, deadline)
	}
	if b.newcomers > 0 {
		rl.forPlace.bind(w, b.newcomers, deadline)
	}
}

// loadedLocked notes that a model was charged. settleLinesLocked then looks at the waiters whose
// deadlines the charge may have passed by.
func (rl *RateLimiter) loadedLocked(w *window, c cost) {
	g := w.gate
	if g.waiting() == 0 {
		return
	}
	// One that waits for a place may not need that one any more.
	if first := g.line.Front().Value.(*waiter); first.rank > 0 || g.slack != nil && !g.slack.take(&c, w.pace) {
		rl.reviewLaterLocked(g)
	}
}

// reviewLaterLocked makes settleLinesLocked look at all waiters in a line. A nil gate has none.
func (rl *RateLimiter) reviewLaterLocked(g *gate) {
	if g.waiting() > 0 && !g.reviewed {
		g.reviewed = true
		rl.reviews = append(rl.reviews, g)
	}
}

// settleLinesLocked applies a change of any model to the waiters: it serves those with a place,
// and refuses those whose deadlines the change has passed by.
func (rl *RateLimiter) settleLinesLocked() {
	for {
		rl.servePlacesLocked()
		if len(rl.reviews) == 0 {
			return
		}
		for last := len(rl.reviews) - 1; last >= 0; last = len(rl.reviews) - 1 {
			g := rl.reviews[last]
			rl.reviews[last] = nil
			rl.reviews = rl.reviews[:last]
			g.reviewed = false
			rl.reviewLocked(g)
		}
	}
}

// reviewLocked refuses the waiters of a line that would come too late, at any place in it.
func (rl *RateLimiter) reviewLocked(g *gate) {
	g.slack = nil
	moved := []*gate{g}
	for e := g.line.Front(); e != nil; {
		w := e.Value.(*waiter)
		e = e.Next()
		if w.process != 0 || w.deadline.IsZero() {
			continue
		}
		places := w.places
		if b := rl.weighLocked(w.requests); !rl.refuseLocked(w, b) {
			rl.boundLocked(w, b)
			continue
		}
		for _, p := range places {
			if p.gate != g {
				moved = append(moved, p.gate)
			}
		}
	}
	for _, g := range moved {
		rl.serveLineLocked(g)
	}
}
