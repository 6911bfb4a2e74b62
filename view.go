package ratelimit

import (
	"time"

	"dappco.re/go/core/go-ratelimit/internal/clock"
	"dappco.re/go/core/go-ratelimit/internal/external"
	"dappco.re/go/core/go-ratelimit/internal/found"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// view is the usage of a model at one instant. Its window is in order: nothing in it is due to
// leave.
type view struct {
	*window
	slots     *slots          // nil without calls in flight and waiters
	instant   int64           // now, on the limiter's time line
	wall      int64           // now, in UnixNano
	span      int64           // how long a charge of the minute counts
	cool      int64           // in UnixNano: nothing is admitted before
	cause     string          // why
	full      bool            // there is no place for the state of another model
	badZone   bool            // the quota's zone is not known
	shareless bool            // this limiter's share of the calls in flight is none
	freeAt    int64           // with full: when there will be, as far as is known
	used      int64           // until this instant all minutes count as used
	external  *external.Usage // nil for none
	adapts    bool            // the quota searches for limits, and has the calls in flight that were found
	found     *found.Limits   // what was found; nil where the quota is invalid
	slotLimit int             // MaxInFlight of the quota as it is
	class     string          // that asks
	slotsKept int             // calls in flight that are kept for other classes,
	keptFor   time.Duration   // and how long they are, if those do not ask again
	keeps     bool            // external has what is kept, too, and not in reported
	reported  *external.Usage
	spent     *state.Spend // nil for none
	apart     spentApart   // the shares of other limiters in what is left to spend
}

// unused is the window of an unused model. It is never changed.
var unused = &window{stats: &UsageStats{}, leaveAt: never}

// modelStats fills in s, which is large enough for copies of it to show.
func (r *view) modelStats(s *ModelStats, q *ModelQuota) {
	s.limits(q)
	s.RPM, s.RPD, s.TPD = r.requests.Len(), r.dayCount(), r.dayTokens()
	s.TPM, s.ITPM, s.OTPM = r.sums.Total().Total(), r.sums.Total().Input, r.sums.Total().Output
	if s.RPD|s.TPD != 0 {
		s.DayStart = r.period.Shown
	}
	if r.slots != nil {
		s.InFlight, s.Waiting = r.slots.inFlight, r.slots.waiting()
	}
	if r.cool > r.wall || r.external != nil || r.adapts || r.spent != nil {
		r.rareStats(s)
	}
}

// rareStats fills in what few models have: a cooldown, usage of others, and limits that were found.
func (r *view) rareStats(s *ModelStats) {
	if r.adapts {
		s.MaxInFlight = r.slotLimit
		s.AdaptiveRPM, s.AdaptiveInFlight = r.found.Found(r.instant)
	}
	if r.cool > r.wall {
		s.CooldownUntil = time.Unix(0, r.cool)
	}
	s.SpendDay, s.SpendMonth = r.daySpend(), r.monthSpend()
	u := r.external
	if r.keeps {
		u = r.reported
	}
	if u != nil {
		s.ExternalRPM, s.ExternalTPM, s.ExternalRPD = u[state.RPM].Amount, u[state.TPM].Amount, u[state.RPD].Amount
		s.ExternalITPM, s.ExternalOTPM, s.ExternalTPD = u[state.ITPM].Amount, u[state.OTPM].Amount, u[state.TPD].Amount
	}
}

// lookRLocked returns a model's window and the present instant if the window can be read without
// a change: it is in order and not empty, none of its entries is due to leave, its day lasts, its
// buckets are those of the quota, there is no cooldown and no external usage, and the clocks were
// compared lately. That is so at nearly every call, and it lets readers run beside each other. It
// returns unused for a model without state, and nil where something has to be done first.
func (rl *RateLimiter) lookRLocked(name string, q *ModelQuota) (w *window, instant int64) {
	if len(rl.cooldowns) > 0 || len(rl.external) > 0 {
		if _, cools := rl.cooldowns[name]; cools || rl.external[name] != nil {
			return nil, 0
		}
	}
	if rl.ledger.maybeUsed() || rl.ledger.divides() {
		return nil, 0
	}
	stats, exists := rl.State[name]
	if stats == nil && rl.pools.all != nil {
		stats = rl.pools.stats(name)
	}
	if stats == nil {
		if exists || q.adapts() || len(rl.State) >= rl.mostModels() || q.DayZone != "" || len(rl.lines.allSlots) > 0 && rl.lines.allSlots[name] != nil {
			return nil, 0
		}
		return unused, 0
	}
	instant = rl.clock.Now()
	wall := rl.clock.UnixNano(instant)
	w = stats.window
	if rl.clock.Due(instant) || !w.mirrors(stats, rl) || instant > w.leaveAt ||
		!w.period.Holds(wall) || stats.DayCount != w.dayWas || w.period.Zone != q.DayZone || w.empty() ||
		q.paces() && w.paceOf(q) == nil {
		return nil, 0
	}
	if q.adapts() {
		f := rl.found.of(name, q)
		if f == nil {
			return nil, 0
		}
		q.limitSlots(f.MostSlots(w.slots.calls(), instant))
	}
	return w, instant
}

// readRLocked reads the usage of a model as lookRLocked does.
func (rl *RateLimiter) readRLocked(name string, q *ModelQuota, r *view) (ok bool) {
	slotLimit := q.MaxInFlight
	w, instant := rl.lookRLocked(name, q)
	if w == nil {
		return false
	}
	r.instant, r.wall, r.span = instant, rl.clock.UnixNano(instant), rl.span()
	r.take(w)
	if q.adapts() {
		r.adapts, r.found, r.slotLimit = true, rl.found[name], slotLimit
	}
	return len(rl.spends) == 0 || w != unused && r.readSpend(rl, name) // unused comes without an instant
}

// findLocked has the quota limit the calls in flight as was found.
func (r *view) findLocked(rl *RateLimiter, name string, q *ModelQuota, keeps bool) {
	r.adapts, r.slotLimit = true, q.MaxInFlight
	if r.found = rl.foundLocked(name, q, r.instant, keeps); r.found != nil {
		q.limitSlots(r.found.MostSlots(r.slots.calls(), r.instant))
	}
}

// readLocked reads the usage of a model, after bringing its window in order.
func (rl *RateLimiter) readLocked(name string, q *ModelQuota, known bool, r *view) {
	stats, exists := rl.State[name]
	if stats == nil && rl.pools.all != nil {
		stats = rl.pools.stats(name)
		exists = exists || stats != nil
	}
	r.readOutsideLocked(rl, name)
	rl.rezoneLocked(stats, q.DayZone, r.instant)
	if exists && !rl.pruneLocked(name, stats, r.instant) {
		r.take(stats.window)
		r.followPacing(q, r.instant)
		rl.shareLocked(name, q, r, true)
		return
	}
	r.window = unused
	r.slots, r.badZone = rl.lines.allSlots[name], clock.BadZone(q.DayZone)
	if known {
		r.full, r.freeAt = rl.unlistedLocked().fullLocked(name, r.instant)
	}
	rl.shareLocked(name, q, r, false)
}

// shareLocked adds the limits that were found to a quota, and leaves of it this limiter's share
// while the others cannot be heard of. Where there is state, a search begins.
func (rl *RateLimiter) shareLocked(name string, q *ModelQuota, r *view, stateful bool) {
	if q.adapts() {
		r.findLocked(rl, name, q, stateful)
	}
	if rl.ledger.divides() {
		rl.ledger.shareLocked(name, q, r)
	}
}

// readToChargeLocked is readLocked before a charge: an empty window stays.
func (rl *RateLimiter) readToChargeLocked(name string, q *ModelQuota, known bool, r *view) {
	stats := rl.statsRLocked(name)
	if stats == nil {
		rl.readLocked(name, q, known, r)
		return
	}
	r.readOutsideLocked(rl, name)
	rl.rezoneLocked(stats, q.DayZone, r.instant)
	r.take(rl.windowLocked(name, stats, r.instant))
	r.followPacing(q, r.instant)
	rl.shareLocked(name, q, r, true)
}

// rezoneLocked follows a quota whose day now ends at the midnight of another zone. The usage of
// the present day counts to the day that is present there, because its times are no longer known.
func (rl *RateLimiter) rezoneLocked(stats *UsageStats, zone string, instant int64) {
	if stats == nil || stats.window == nil || stats.window.period.Zone == zone {
		return
	}
	w, now := stats.window, rl.clock.At(instant)
	w.rollDay(now)
	w.period.SetZone(zone)
	if w.period.Location != nil {
		w.startDay(now)
	} else {
		w.settleDay(now)
	}
}

// take sets the window that is read.
func (r *view) take(w *window) { r.window, r.slots, r.badZone = w, w.slots, w.period.BadZone }

// readOutsideLocked reads everything outside the window, as of r.instant.
func (r *view) readOutsideLocked(rl *RateLimiter, name string) {
	r.wall, r.span = rl.clock.UnixNano(r.instant), rl.span()
	r.used = rl.ledger.usedAtLocked(r.instant)
	if len(rl.external) > 0 {
		r.external = rl.external.Of(name, r.instant, r.wall)
	}
	if len(rl.cooldowns) > 0 {
		r.cool, r.cause = rl.cooldowns.Of(name, r.wall)
	}
	if len(rl.spends) > 0 {
		r.settleSpendLocked(rl, name)
	}
}

// countLocked reads the usage of a model and leaves its entry as it is, expired charges included.
// The window of r is as good as unused.
func (rl *RateLimiter) countLocked(name string, q *ModelQuota, r *view, counted *ModelStats) {
	r.readOutsideLocked(rl, name)
	r.window, r.badZone, r.slots = unused, clock.BadZone(q.DayZone), rl.lines.allSlots[name]
	if q.adapts() {
		r.findLocked(rl, name, q, false)
	}
	counted.limits(q)
	counted.InFlight, counted.Waiting = r.slots.calls(), r.slots.waiting()
	r.rareStats(counted)
	stats := rl.statsRLocked(name)
	if stats == nil {
		return
	}
	now := rl.clock.At(r.instant)
	w := stats.window
	if !w.mirrors(stats, rl) {
		entry := *stats
		w = rl.newWindow(&entry, q.DayZone, r.instant, now)
	}
	cut := r.instant - r.span
	counted.RPM = w.requests.Len() - w.requests.Before(cut)
	if n := w.tokens.Before(cut); n < w.tokens.Len() {
		sum := w.sums.Sum(n, w.tokens.Len())
		counted.TPM, counted.ITPM, counted.OTPM = sum.Total(), sum.Input, sum.Output
	}
	if now.UnixNano() < w.period.End {
		if counted.RPD, counted.TPD = w.dayCount(), w.dayTokens(); counted.RPD|counted.TPD != 0 {
			counted.DayStart = w.period.Shown
		}
	}
}
