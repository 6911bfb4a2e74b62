package ratelimit

import (
	"math"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/tokens"
)

// lineSlack is how much more may be charged to a model before one of the waiters in its line could
// not pass by its deadline, even alone. As long as it lasts, nobody in the line has to be looked at
// when the model is charged. It may be less than there is, never more.
type lineSlack struct {
	room [dimensions]int // how much more of each dimension
	full [paced]int64    // the instant until which each bucket may have something in it
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

// meet leaves a request that passes by an instant enough.
func (s *lineSlack) meet(r *reading, q *ModelQuota, c *cost, deadline int64) {
	p := r.paceOf(q)
	for of := range dimensions {
		limit := *q.limitOf(of)
		if limit <= 0 {
			continue
		}
		s.room[of] = min(s.room[of], limit-c.of(of)-r.usedBy(of, deadline))
		switch {
		case of >= paced || !q.paces():
		case p == nil:
			s.room[of] = -1 // there are no buckets yet
		default:
			price, _ := p.price(of, c.of(of), p.roundUp(of))
			s.full[of] = min(s.full[of], deadline+int64(max(p.burst-price, 0)))
		}
	}
}

// take takes a charge away, and reports whether anything is left.
func (s *lineSlack) take(c *cost, p *pace) (left bool) {
	left = true
	for of := range dimensions {
		s.room[of] -= c.of(of)
		left = left && s.room[of] >= 0
	}
	if p != nil {
		for of := range paced {
			left = left && int64(p.lanes[of].Empty()) <= s.full[of]
		}
	}
	return left
}

// usedBy returns how much of what is used and held back now still counts at an instant to come.
func (r *reading) usedBy(of dimension, instant int64) (used int) {
	switch n := r.tokens.before(instant - r.span); {
	case of.daily():
		if instant+r.wall-r.instant < r.dayEnd {
			used = r.usedOf(of)
		}
	case of == ofRPM:
		used = r.requests.len() - r.requests.before(instant-r.span)
	case n < r.tokens.len():
		used = r.amounts.sum(r.amounts.head+n, r.amounts.head+r.tokens.len()).Of(of.kind())
	}
	if r.held != nil {
		end := instant
		if of.daily() {
			end += r.wall - r.instant
		}
		if h := r.held[of]; h.until > end {
			used = tokens.AddSaturated(used, h.amount)
		}
	}
	return used
}

// isLateLocked reports whether a waiter could not even alone pass before its deadline.
func (rl *RateLimiter) isLateLocked(w *waiter, b *batch) bool {
	return !w.deadline.IsZero() && w.deadline.Sub(rl.clock.at(rl.clock.sync())) < b.wait
}

// boundLocked notes what a waiter in its lines, which was weighed, needs to pass by its deadline.
func (rl *RateLimiter) boundLocked(w *waiter, b *batch) {
	if w.deadline.IsZero() {
		return
	}
	instant := rl.clock.sync()
	left := min(w.deadline.Sub(rl.clock.at(instant)), time.Duration(math.MaxInt64/4))
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

// loadedLocked notes that a model was charged. The waiters whose deadlines that may have passed by
// are looked at by settleLinesLocked.
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

// reviewLaterLocked has settleLinesLocked look at all who wait in a line. A nil gate has none.
func (rl *RateLimiter) reviewLaterLocked(g *gate) {
	if g.waiting() > 0 && !g.reviewed {
		g.reviewed = true
		rl.reviews = append(rl.reviews, g)
	}
}

// settleLinesLocked does what a change of any model means for those who wait: it serves those for
// whom there is a place, and refuses those whose deadlines the change has passed by.
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

// reviewLocked refuses the waiters of a line that would come too late, wherever in it they stand.
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
