package ratelimit

import (
	"math"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/headroom"
	"dappco.re/go/core/go-ratelimit/internal/opencalls"
	"dappco.re/go/core/go-ratelimit/internal/pace"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/tokens"
)

// slackOf returns the slack of a request that passes by an instant, of a model that was read.
func (g *slots) slackOf(m *modelCost, deadline int64) *headroom.Slack {
	s, q, r := headroom.Unbounded(), &m.quota, &m.view
	p := r.paceOf(q)
	for of := range state.InFlight {
		limit, more := *q.limit(of), m.cost.Of(of)
		if !m.known || limit <= 0 {
			continue
		}
		room := max(limit-more-r.remainsBy(of, deadline), 0)
		switch {
		case state.Limits[of].Window != state.Minute || !q.paces() || r.mayGiveBack(of, r.instant):
		case p == nil:
			room = 0 // there are no buckets yet
		default:
			unit := unitOf(of)
			s.Full[unit] = p.MostFull(unit, more, deadline)
		}
		s.Load[of] = g.headroom.LoadWith(room, of)
	}
	return s
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

// isLateLocked reports whether a waiter cannot pass before its deadline, even alone and if all open
// calls are given back.
func (l *waitLines) isLateLocked(w *waiter, b *batch) bool {
	if w.deadline.IsZero() {
		return false
	}
	instant := l.rl.clock.Sync()
	left := w.deadline.Sub(l.rl.clock.At(instant))
	if left >= b.wait {
		return false
	}
	for i := range b.costs {
		if m := &b.costs[i]; !m.passesBy(instant+int64(left), int64(left)) {
			return true
		}
	}
	return false
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
		p.slots.headroom.Join(p.slack)
	}
	if b.newcomers > 0 {
		l.forPlace.bound.Add(w, b.newcomers, deadline)
	}
}

// loadedLocked notes that a model was charged for good: nothing gives that back. settleLocked then
// looks at the waiters whose deadlines the charge may have passed by.
func (l *waitLines) loadedLocked(g *slots, w *window, c cost) {
	if g.waiting() == 0 {
		return
	}
	l.openedLocked(w)
	if head := g.head(); head != nil && (head.hasPools() || len(l.rl.classes) > 0) && !l.shared {
		l.vacated = append(l.vacated, g) // it may wait for long now, and then keeps nobody
	}
	if g.headroom.Charge(&c, w.pace) {
		l.reviewLaterLocked(g)
	}
}

// openedLocked notes that a call of a model was charged, which a settlement may give back.
func (l *waitLines) openedLocked(w *window) {
	if head := w.slots.head(); head != nil && head.rank > 0 {
		l.reviewAllLaterLocked(w.slots) // the place that it waits for may be there now
	}
}

// shutLocked notes that a call of a model has ended. After the last of them the buckets are what
// they are.
func (l *waitLines) shutLocked(g *slots, w *window) {
	if g.waiting() > 0 && w != nil && w.pace != nil && !w.mayGiveBack(state.TPM, l.rl.clock.Sync()) {
		l.reviewAllLaterLocked(g)
	}
	if l.rl.pricing != nil {
		l.spentLocked(g.name)
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
		if len(l.reviews)+len(l.vacated) == 0 {
			return
		}
		for last := len(l.vacated) - 1; last >= 0; last = len(l.vacated) - 1 {
			g := l.vacated[last]
			l.vacated[last] = nil
			l.vacated = l.vacated[:last]
			l.serveLineLocked(g)
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
	if stats := l.rl.statsRLocked(g.name); stats != nil && stats.window != nil {
		buckets = stats.window.pace
	}
	all := g.stale
	g.stale = false
	g.headroom.Forget()
	moved := []*slots{g}
	for e := range g.line.All() {
		w := e.Value
		if w.process != 0 || w.deadline.IsZero() {
			continue
		}
		if s := w.slackIn(g); !all && s != nil && g.headroom.Holds(s, buckets) {
			g.headroom.Join(s)
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
func (w *waiter) slackIn(g *slots) *headroom.Slack {
	for i := range w.places {
		if w.places[i].slots == g {
			return w.places[i].slack
		}
	}
	return nil
}

// openLocked counts a placed reservation to the open calls of its window, which a settlement may
// give back.
func (r *Reservation) openLocked() {
	w := r.window
	if w.open == nil {
		w.open = opencalls.New()
	}
	w.open.Open(r.instant, r.estimate)
	if r.hasArrived() {
		w.open.Arrive(r.instant, 1)
	}
}

// shutLocked is the end of openLocked: before a charge moves, or when its slot is given back.
func (r *Reservation) shutLocked() {
	if w := r.window; w.open != nil {
		w.open.Close(r.instant, r.estimate)
		if r.hasArrived() {
			w.open.Arrive(r.instant, -1)
		}
	}
}

// hasArrived reports whether the provider counted the call, so that its request is not given back.
func (r *Reservation) hasArrived() bool { return r.extra != nil && r.extra.arrived }

// arriveLocked moves the charge of a call that arrived at a time. Its request is not given back
// after that.
func (r *Reservation) arriveLocked(at time.Time) {
	if r.settled {
		return
	}
	if r.pool != nil {
		r.pool.arriveLocked(at)
	}
	r.shutLocked()
	changes := r.moveLocked(at) || !r.hasArrived()
	r.more().arrived = true
	if r.openLocked(); changes && r.home.lines.waiting > 0 {
		r.home.linesLocked().arrivedLocked(r)
		r.home.linesLocked().settleLocked()
	}
}

// arrivedLocked notes that a call of a model, whose charge may have moved, has arrived.
func (l *waitLines) arrivedLocked(r *Reservation) {
	if g := r.slots(); g.waiting() > 0 {
		r.keptLocked(r.estimate) // open calls are known to a piece of time, and it may be in another now
		if w := r.window; w.pace != nil && !w.mayGiveBack(state.RPM, l.rl.clock.Sync()) {
			l.reviewAllLaterLocked(g)
		}
	}
}

// keepOpenLocked lets a window that replaces an old one of its model know the open calls.
func (w *window) keepOpenLocked(old *window) {
	if old != nil && old.home == w.home && old.open != nil {
		w.open = old.open
		w.openDay()
	}
}

// openDay tells the open calls that a day began.
func (w *window) openDay() {
	if w.open != nil {
		w.open.BeginDay(w.home.clock.Instant(w.period.Begin))
	}
}

// remainsBy returns the usage that still counts at a later instant if all open calls are given
// back. It may be too small, by open calls that are about to leave the window, but not too large.
func (r *view) remainsBy(of state.Dimension, instant int64) int {
	used := r.usedBy(of, instant)
	if used == 0 || r.open == nil {
		return used
	}
	var free opencalls.Charges
	if state.Limits[of].Window == state.Day {
		if instant+r.wall-r.instant < r.period.End {
			free = r.open.Today()
		}
		return opencalls.Less(used, free.Of(of))
	}
	from := instant - r.span
	free, border, end := r.open.Since(from)
	if used = opencalls.Less(used, free.Of(of)); border.Of(of) != 0 {
		n := r.usedBetween(of, from, end)
		used = opencalls.Less(used, n-opencalls.Less(n, border.Of(of)))
	}
	return used
}

// usedBetween returns the own usage of the minute that was charged from an instant up to another.
func (r *view) usedBetween(of state.Dimension, from, end int64) int {
	if of == state.RPM {
		return r.requests.Before(end) - r.requests.Before(from)
	}
	i, j := r.tokens.Before(from), r.tokens.Before(end)
	if i == j {
		return 0
	}
	return r.sums.Sum(i, j).Of(state.Limits[of].Tokens)
}

// mayGiveBack reports whether any call in the minute is open that may give back what a limit
// counts.
func (w *window) mayGiveBack(of state.Dimension, instant int64) bool {
	if w.open == nil {
		return false
	}
	c, border, _ := w.open.Since(instant - w.home.span())
	if of == state.RPM {
		return c.Of(of)+border.Of(of) > 0
	}
	return c.Requests+border.Requests > 0
}

// passesBy reports whether a request that is denied may pass by an instant that is left nanoseconds
// away, if all open calls of its model are given back: of those that have arrived, the tokens.
// Calls in flight always end in time.
func (m *modelCost) passesBy(instant, left int64) bool {
	q, r := &m.quota, &m.view
	if r.cool > r.wall && r.cool-r.wall > left {
		return false
	}
	if !m.known || q.unlimited() {
		return true
	}
	if r.full && r.freeAt != never && r.freeAt > instant || r.used > instant && q.limitsMinute() {
		return false
	}
	if r.adapts && r.found.OpensAtBest(r.slots.calls()-r.open.Arrived()) > instant {
		return false
	}
	if q.limitsSpend() && !r.affordsBy(q, &m.cost, left) {
		return false
	}
	p := r.paceOf(q)
	for of := range state.InFlight {
		limit, more := *q.limit(of), m.cost.Of(of)
		if limit <= 0 {
			continue
		}
		if !fits(r.remainsBy(of, instant), more, limit) {
			return false
		}
		// Which of a bucket's content is of open calls is not known.
		if p != nil && state.Limits[of].Window == state.Minute && int64(p.Opens(unitOf(of), more, r.instant)) > left &&
			!r.mayGiveBack(of, r.instant) {
			return false
		}
	}
	return true
}
