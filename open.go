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
		w.open = opencalls.New(w.home.span())
	}
	w.open.Open(r.instant, r.estimate)
	if w.days == r.days {
		w.open.OpenToday(r.estimate)
	}
}

// shutLocked is the end of openLocked: before a charge moves, or when its slot is given back.
func (r *Reservation) shutLocked() {
	w := r.window
	if w == nil || w.open == nil {
		return
	}
	w.open.Close(r.instant, r.estimate)
	today := w.days == r.days
	if w.stats.window != w || w.gone {
		current := r.currentWindowLocked()
		today = current != nil && current.open == w.open && current.inDay(r)
	}
	if today {
		w.open.CloseToday(r.estimate)
	}
}

// keepOpenLocked lets a window that replaces an old one of its model know the open calls.
func (w *window) keepOpenLocked(old *window) {
	if old != nil && old.home == w.home {
		w.open = old.open
	}
}

// nextDay begins another day.
func (w *window) nextDay() {
	w.days++
	w.open.EndDay()
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
		return used - int(min(pick(free, of), int64(used)))
	}
	from := instant - r.span
	free, border, end := r.open.Since(from)
	n := pick(free, of)
	if at := pick(border, of); at > 0 {
		n += min(at, int64(r.usedBetween(of, from, end)))
	}
	return used - int(min(n, int64(used)))
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
func pick(c opencalls.Charges, of state.Dimension) int64 {
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
