package ratelimit

import (
	"time"

	"dappco.re/go/core/go-ratelimit/internal/external"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// division is how the limiters of a remote log divide what is left of the quotas while they cannot
// reach it. Each has an equal share of what it knew to be left, so that together they stay within
// the quota.
type division struct {
	sharers int
	since   int64 // the instant from which charges are this limiter's own
	// As of then, by model:
	days  map[string]state.DayUsage
	slots map[string]int // calls in flight
	spent map[string]state.Spend
}

// divideLocked begins to divide the quotas, unless that is so already.
func (s *ledger) divideLocked() {
	if s.remote == nil || s.failClosed || s.division != nil {
		return
	}
	n := s.remote.Sharers()
	if n <= 1 {
		return
	}
	d := &division{sharers: n, since: s.rl.clock.Sync(), days: make(map[string]state.DayUsage), slots: make(map[string]int)}
	if s.pending != nil {
		d.since = s.pending.instant // what is being written is this limiter's own
	}
	for model, stats := range s.rl.allStatsRLocked {
		if w := stats.window; w != nil {
			d.days[model] = dayOf(w)
		}
	}
	d.spent = s.rl.spends.All(s.rl.clock.UnixNano(d.since))
	for model, g := range s.rl.lines.allSlots {
		d.slots[model] = g.inFlight
	}
	s.division = d
}

// divides reports whether shareLocked has to be asked.
func (s *ledger) divides() bool { return s != nil && s.division != nil }

// sharersLocked returns among how many limiters the quotas are divided; 0 where they are not.
func (s *ledger) sharersLocked() int {
	if !s.divides() {
		return 0
	}
	return s.division.sharers
}

// shareLocked leaves of the quota in a view this limiter's share: it counts the shares of the
// others as usage of others.
func (s *ledger) shareLocked(name string, q *ModelQuota, r *view) {
	d := s.division
	rest := func(limit, before int) int {
		left := max(limit-before, 0)
		return left - left/d.sharers
	}
	var u external.Usage
	if r.external != nil {
		u = *r.external
	}
	before := r.before(d.since)
	day := d.days[name]
	if day.Start != r.period.Begin {
		day = state.DayUsage{}
	}
	before[state.RPD], before[state.TPD] = int(day.Count), int(day.Tokens)
	for of := range state.InFlight {
		limit := *q.limit(of)
		if limit <= 0 {
			continue
		}
		p := &u[of]
		p.Amount += rest(limit, before[of])
		// What others may use changes all the time. Who is denied is to ask again soon.
		p.Until = r.instant + int64(time.Second)
		if state.Limits[of].Window == state.Day {
			p.Until = r.wall + int64(time.Second)
		}
	}
	r.external = &u
	r.shareSpend(d, name, q)
	if q.MaxInFlight > 0 {
		share := q.MaxInFlight - rest(q.MaxInFlight, d.slots[name])
		q.MaxInFlight, r.shareless = max(share, 1), share == 0 // 0 would be no limit
	}
}

// before returns what of the minute's usage was charged before an instant, by dimension.
func (r *view) before(instant int64) (used [state.InFlight]int) {
	used[state.RPM] = r.requests.Before(instant)
	if n := r.tokens.Before(instant); n > 0 {
		sum := r.sums.Sum(0, n)
		used[state.ITPM], used[state.OTPM], used[state.TPM] = sum.Input, sum.Output, sum.Total()
	}
	return used
}

// doubt is keepPlan for a plan that has admitted what could not be written. That was decided by the
// whole quota, and every limiter may have done so: it is taken back, and its requests are decided
// again in memory.
func (s *ledger) doubt(p *plan) {
	p.jobs = s.jobs.Leave(p.jobs)
	var over []*waiter
	served := s.keepPlan(p)
	s.rl.mu.Lock()
	for _, w := range served {
		if len(w.reservations) == 0 || w.err != nil {
			over = append(over, w)
			continue
		}
		w.reservations, w.over = nil, false
		s.lines.againLocked(w)
	}
	s.rl.mu.Unlock()
	made := p.made
	s.inMemory(func(p *plan) {
		for _, r := range made {
			p.cancel(r)
		}
	})
	wake(over)
}
