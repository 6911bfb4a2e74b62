package ratelimit

import (
	"time"

	"dappco.re/go/core/go-ratelimit/internal/clock"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// ModelStats is what a model has used and what it may use, at one moment. A
// maximum of zero is unlimited. Minutes are longer by Config.Margin. ModelStats
// can be compared with ==.
type ModelStats struct {
	RPM, MaxRPM int       // requests in the last minute
	TPM, MaxTPM int       // tokens in the last minute
	RPD, MaxRPD int       // requests in the current day
	DayStart    time.Time // when the current day began; zero when nothing was used

	ITPM, MaxITPM         int       // input tokens in the last minute
	OTPM, MaxOTPM         int       // output tokens in the last minute
	TPD, MaxTPD           int       // tokens in the current day
	InFlight, MaxInFlight int       // reservations that are not settled
	Waiting               int       // who waits in Acquire, AcquireAll or WaitForCapacity
	CooldownUntil         time.Time // nothing is admitted before; zero when there is no cooldown
}

// limits fills in the maxima.
func (s *ModelStats) limits(q *ModelQuota) {
	s.MaxRPM, s.MaxTPM, s.MaxRPD = q.MaxRPM, q.MaxTPM, q.MaxRPD
	s.MaxITPM, s.MaxOTPM, s.MaxTPD, s.MaxInFlight = q.MaxITPM, q.MaxOTPM, q.MaxTPD, q.MaxInFlight
}

// used returns what is used of a dimension.
func (s *ModelStats) used(of state.Dimension) int {
	switch of {
	case state.RPM:
		return s.RPM
	case state.TPM:
		return s.TPM
	case state.RPD:
		return s.RPD
	case state.ITPM:
		return s.ITPM
	case state.OTPM:
		return s.OTPM
	case state.TPD:
		return s.TPD
	default:
		return s.InFlight
	}
}

// Stats returns what model has used, after forgetting what is no longer
// counted. For an unknown model it is zero. It is safe for concurrent use.
func (rl *RateLimiter) Stats(model string) (stats ModelStats) {
	var q ModelQuota
	var r reading
	rl.ledger.fresh()
	rl.mu.RLock()
	name, _ := rl.findRLocked(model, &q)
	ok := rl.readRLocked(name, &q, &r)
	if ok {
		r.modelStats(&stats, &q)
	}
	rl.mu.RUnlock()
	if !ok {
		rl.statsSlowly(&stats, model)
	}
	return stats
}

func (rl *RateLimiter) statsSlowly(stats *ModelStats, model string) {
	var q ModelQuota
	var r reading
	rl.mu.Lock()
	defer rl.mu.Unlock()
	name, known := rl.findRLocked(model, &q)
	r.instant = rl.clock.Sync()
	rl.readLocked(name, &q, known, &r)
	r.modelStats(stats, &q)
}

// AllStats returns the stats of every model that has a quota or was used, after
// forgetting what is no longer counted. Each is of the moment at which it was
// read; other calls may come between two of them. AllStats is safe for
// concurrent use.
func (rl *RateLimiter) AllStats() map[string]ModelStats {
	names := rl.names()
	all := make(map[string]ModelStats, len(names))
	for _, model := range names {
		all[model] = rl.Stats(model)
	}
	return all
}

// lookRLocked returns a model's window and the present instant, when nothing has
// to be changed for that: the window is in order and holds something, none of its
// entries is due to leave, its day lasts, its buckets are those of the quota, there is no
// cooldown and no external usage, and the clocks were compared lately. That is so at
// nearly every call, and it lets readers run beside each other. It returns unused where
// there is no state, and nil where something has to be done first.
func (rl *RateLimiter) lookRLocked(name string, q *ModelQuota) (w *window, instant int64) {
	if len(rl.cooldowns) > 0 || len(rl.external) > 0 {
		if _, cools := rl.cooldowns[name]; cools || rl.external[name] != nil {
			return nil, 0
		}
	}
	if rl.ledger.maybeUsed() {
		return nil, 0
	}
	stats, exists := rl.State[name]
	if stats == nil {
		if exists || len(rl.State) >= rl.mostModels() || q.DayZone != "" || len(rl.gates) > 0 && rl.gates[name] != nil {
			return nil, 0
		}
		return unused, 0
	}
	instant = rl.clock.Now()
	wall := rl.clock.UnixNano(instant)
	w = stats.window
	if rl.clock.Due(instant) || !w.mirrors(stats, rl) || instant > w.leaveAt ||
		wall < w.dayBegin || wall >= w.dayEnd || stats.DayCount != w.dayWas || w.zone != q.DayZone || w.empty() ||
		q.paces() && w.paceOf(q) == nil {
		return nil, 0
	}
	return w, instant
}

// readRLocked reads what a model has used as lookRLocked does.
func (rl *RateLimiter) readRLocked(name string, q *ModelQuota, r *reading) (ok bool) {
	w, instant := rl.lookRLocked(name, q)
	if w == nil {
		return false
	}
	r.instant, r.wall, r.span = instant, rl.clock.UnixNano(instant), rl.span()
	r.take(w)
	return true
}

// readLocked reads what a model has used, after bringing its window in order.
func (rl *RateLimiter) readLocked(name string, q *ModelQuota, known bool, r *reading) {
	stats, exists := rl.State[name]
	rl.readNowLocked(name, r)
	rl.rezoneLocked(stats, q.DayZone, r.instant)
	if exists && !rl.pruneLocked(name, stats, r.instant) {
		r.take(stats.window)
		r.followPacing(q, r.instant)
		return
	}
	r.window = unused
	r.gate, r.badZone = rl.gates[name], clock.BadZone(q.DayZone)
	if known {
		r.full, r.freeAt = rl.fullLocked(name, r.instant)
	}
}

// readToChargeLocked is readLocked for what is about to be charged: an empty
// window stays.
func (rl *RateLimiter) readToChargeLocked(name string, q *ModelQuota, known bool, r *reading) {
	stats := rl.State[name]
	if stats == nil {
		rl.readLocked(name, q, known, r)
		return
	}
	rl.readNowLocked(name, r)
	rl.rezoneLocked(stats, q.DayZone, r.instant)
	r.take(rl.windowLocked(name, stats, r.instant))
	r.followPacing(q, r.instant)
}

// rezoneLocked follows a quota whose day ends at the midnight of another zone now.
// What was used in the day that lasts counts to the one that lasts there: when it
// was used, nobody knows any more.
func (rl *RateLimiter) rezoneLocked(stats *UsageStats, zone string, instant int64) {
	if stats == nil || stats.window == nil || stats.window.zone == zone {
		return
	}
	w, now := stats.window, rl.clock.At(instant)
	w.rollDay(now)
	w.setZone(zone)
	if w.location != nil {
		w.startDay(now)
	} else {
		w.settleDay(now)
	}
}

// take makes a window the one that is read.
func (r *reading) take(w *window) { r.window, r.gate, r.badZone = w, w.gate, w.badZone }

// readNowLocked reads what is not of the window, as of r.instant.
func (rl *RateLimiter) readNowLocked(name string, r *reading) {
	r.wall, r.span = rl.clock.UnixNano(r.instant), rl.span()
	r.used = rl.ledger.usedAtLocked(r.instant)
	if len(rl.external) > 0 {
		r.external = rl.external.Of(name, r.instant, r.wall)
	}
	if len(rl.cooldowns) > 0 {
		if until, ok := rl.cooldowns[name]; ok {
			if r.cool = clock.UnixNano(until); r.cool <= r.wall {
				delete(rl.cooldowns, name)
			}
		}
	}
}

// countLocked reads what a model has used and leaves its entry as it is, also
// what is no longer counted. The window of r is as good as unused.
func (rl *RateLimiter) countLocked(name string, q *ModelQuota, r *reading, counted *ModelStats) {
	rl.readNowLocked(name, r)
	r.window, r.badZone, r.gate = unused, clock.BadZone(q.DayZone), rl.gates[name]
	counted.limits(q)
	r.present(counted)
	stats := rl.State[name]
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
	if now.UnixNano() < w.dayEnd {
		if counted.RPD, counted.TPD = w.dayCount(), w.dayTokens(); counted.RPD|counted.TPD != 0 {
			counted.DayStart = w.dayShown
		}
	}
}
