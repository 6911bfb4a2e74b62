package ratelimit

import (
	"math"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/pace"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/tokens"
)

// slack is how far the charges of a model may go before a waiter could not pass by its deadline,
// even alone. As long as it lasts, a charge of the model needs no look at the waiter. It may be too
// small, never too large.
type slack struct {
	load [state.InFlight]int // the most that slots.load may grow to
	full [pace.Units]int64   // the instant until which each bucket may have something in it
}

// unbounded is the slack of a waiter that passes whatever is charged.
func unbounded() *slack {
	s := new(slack)
	for of := range s.load {
		s.load[of] = math.MaxInt
	}
	for of := range s.full {
		s.full[of] = never
	}
	return s
}

// slackOf returns the slack of a request that passes by an instant, of a model that was read.
func (g *slots) slackOf(m *modelCost, deadline int64) *slack {
	s, q, r := unbounded(), &m.quota, &m.view
	p := r.paceOf(q)
	for of := range state.InFlight {
		limit, more := *q.limit(of), m.cost.of(of)
		if !m.known || limit <= 0 {
			continue
		}
		room := max(limit-more-r.usedBy(of, deadline), 0)
		s.load[of] = tokens.AddSaturated(g.load[of], room)
		switch {
		case state.Limits[of].Window != state.Minute || !q.paces():
		case p == nil:
			s.load[of] = g.load[of] // there are no buckets yet
		default:
			unit := unitOf(of)
			s.full[unit] = p.MostFull(unit, more, deadline)
		}
	}
	return s
}

// join makes s the less of both.
func (s *slack) join(other *slack) {
	for of := range s.load {
		s.load[of] = min(s.load[of], other.load[of])
	}
	for of := range s.full {
		s.full[of] = min(s.full[of], other.full[of])
	}
}

// holds reports whether a waiter in a line, whose model has the buckets p, need not be looked at.
func (s *slack) holds(g *slots, p *pace.Buckets) bool {
	for of := range s.load {
		if g.load[of] > s.load[of] {
			return false
		}
	}
	if p != nil {
		for of := range pace.Units {
			if p.Empty(of) > s.full[of] {
				return false
			}
		}
	}
	return true
}

// usedBy returns how much of the present usage, external usage included, still counts at a later
// instant.
func (r *view) usedBy(of state.Dimension, instant int64) (used int) {
	switch n := r.tokens.Before(instant - r.span); {
	case state.Limits[of].Window == state.Day:
		if instant+r.wall-r.instant < r.period.End {
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
func (l *waitLines) isLateLocked(w *waiter, b *batch) bool {
	return !w.deadline.IsZero() && w.deadline.Sub(l.rl.clock.At(l.rl.clock.Sync())) < b.wait
}

// boundLocked notes the needs of a waiter in its lines, which was decided upon, to pass by its
// deadline.
func (l *waitLines) boundLocked(w *waiter, b *batch) {
	if w.deadline.IsZero() {
		return
	}
	instant := l.rl.clock.Sync()
	left := min(w.deadline.Sub(l.rl.clock.At(instant)), time.Duration(math.MaxInt64/4))
	deadline := instant + int64(left)
	for i := range b.costs {
		p := &w.places[i]
		p.slack = p.slots.slackOf(&b.costs[i], deadline)
		p.slots.joinSlack(p.slack)
	}
	if b.newcomers > 0 {
		l.forPlace.bind(w, b.newcomers, deadline)
	}
}

// joinSlack notes the slack of a waiter in the line.
func (g *slots) joinSlack(s *slack) {
	if g.slack == nil {
		g.slack = unbounded()
	}
	g.slack.join(s)
}

// loadedLocked notes that a model was charged. settleLocked then looks at the waiters whose
// deadlines the charge may have passed by.
func (l *waitLines) loadedLocked(w *window, c cost) {
	g := w.slots
	if g.waiting() == 0 {
		return
	}
	if first := g.line.Front().Value.(*waiter); first.rank > 0 {
		l.reviewAllLaterLocked(g) // the place that it waits for may be there now
	}
	if g.slack == nil {
		return
	}
	for of := range state.InFlight {
		g.load[of] = tokens.AddSaturated(g.load[of], c.of(of))
	}
	if !g.slack.holds(g, w.pace) {
		l.reviewLaterLocked(g)
	}
}

// reviewAllLaterLocked makes settleLocked look at all waiters in a line. Nil slots have none.
func (l *waitLines) reviewAllLaterLocked(g *slots) {
	if g.waiting() > 0 {
		g.stale = true
		l.reviewLaterLocked(g)
	}
}

// reviewLaterLocked makes settleLocked look at the waiters in a line whose slack is used up.
func (l *waitLines) reviewLaterLocked(g *slots) {
	if !g.reviewed {
		g.reviewed = true
		l.reviews = append(l.reviews, g)
	}
}

// settleLocked applies a change of any model to the waiters: it serves those with a place,
// and refuses those whose deadlines the change has passed by.
func (l *waitLines) settleLocked() {
	if l.rl.ledger.serveLaterLocked() {
		return
	}
	for {
		l.servePlacesLocked()
		if len(l.reviews) == 0 {
			return
		}
		for last := len(l.reviews) - 1; last >= 0; last = len(l.reviews) - 1 {
			g := l.reviews[last]
			l.reviews[last] = nil
			l.reviews = l.reviews[:last]
			g.reviewed = false
			l.reviewLocked(g)
		}
	}
}

// reviewLocked refuses the waiters of a line that would come too late, at any place in it.
func (l *waitLines) reviewLocked(g *slots) {
	var buckets *pace.Buckets
	if stats := l.rl.State[g.name]; stats != nil && stats.window != nil {
		buckets = stats.window.pace
	}
	all := g.stale
	g.stale, g.slack = false, nil
	moved := []*slots{g}
	for e := g.line.Front(); e != nil; {
		w := e.Value.(*waiter)
		e = e.Next()
		if w.process != 0 || w.deadline.IsZero() {
			continue
		}
		if s := w.slackIn(g); !all && s != nil && s.holds(g, buckets) {
			g.joinSlack(s)
			continue
		}
		places := w.places
		if b := l.rl.decideBatchLocked(w.requests); !l.refuseLocked(w, b) {
			l.boundLocked(w, b)
			continue
		}
		for _, p := range places {
			if p.slots != g {
				moved = append(moved, p.slots)
			}
		}
	}
	for _, g := range moved {
		l.serveLineLocked(g)
	}
}

// slackIn returns the slack of a waiter in one of its lines; nil where it is not known.
func (w *waiter) slackIn(g *slots) *slack {
	for i := range w.places {
		if w.places[i].slots == g {
			return w.places[i].slack
		}
	}
	return nil
}
