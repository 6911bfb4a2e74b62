package ratelimit

import (
	"dappco.re/go/core/go-ratelimit/internal/opencalls"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// openLocked counts a placed reservation to the open calls of its window, which a settlement may
// give back.
func (r *Reservation) openLocked() {
	w := r.window
	if w.open == nil {
		w.open = opencalls.New()
	}
	w.open.Open(r.instant, r.estimate)
}

// shutLocked is the end of openLocked: before a charge moves, or when its slot is given back.
func (r *Reservation) shutLocked() {
	if w := r.window; w != nil && w.open != nil {
		w.open.Close(r.instant, r.estimate)
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
		return less(used, pick(free, of))
	}
	from := instant - r.span
	free, border, end := r.open.Since(from)
	if used = less(used, pick(free, of)); pick(border, of) != 0 {
		n := r.usedBetween(of, from, end)
		used = less(used, n-less(n, pick(border, of)))
	}
	return used
}

// less returns what is left of usage without open calls. Their sum is negative where it is too
// large for an int.
func less(used, open int) int {
	if open < 0 {
		return 0
	}
	return max(used-open, 0)
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

// pick returns what a limit counts of charges.
func pick(c opencalls.Charges, of state.Dimension) int {
	switch of {
	case state.RPM, state.RPD:
		return c.Requests
	case state.ITPM:
		return c.Input
	case state.OTPM:
		return c.Output
	}
	return c.Total()
}

// hasOpen reports whether any call is open whose charge is in the minute.
func (w *window) hasOpen(instant int64) bool {
	if w.open == nil {
		return false
	}
	c, border, _ := w.open.Since(instant - w.home.span())
	return c.Requests+border.Requests > 0
}

// passesBy reports whether a request that is denied may pass by an instant that is left nanoseconds
// away, if all open calls of its model are given back. Calls in flight always end in time.
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
	p := r.paceOf(q)
	if p != nil && r.window.hasOpen(r.instant) {
		p = nil // which of the buckets' content is of open calls is not known
	}
	for of := range state.InFlight {
		limit, more := *q.limit(of), m.cost.Of(of)
		if limit <= 0 {
			continue
		}
		if !fits(r.remainsBy(of, instant), more, limit) ||
			p != nil && state.Limits[of].Window == state.Minute && int64(p.Opens(unitOf(of), more, r.instant)) > left {
			return false
		}
	}
	return true
}
