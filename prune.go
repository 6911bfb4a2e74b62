package ratelimit

import (
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/periodic"
	"dappco.re/go/core/go-ratelimit/internal/ring"
	"dappco.re/go/core/go-ratelimit/internal/tally"
	"dappco.re/go/core/go-ratelimit/internal/yield"
)

// stateLocked returns the state of a model, and makes a missing one; nil when there is no room
// for it.
func (rl *RateLimiter) stateLocked(name string, instant int64, now time.Time) *UsageStats {
	if stats := rl.statsRLocked(name); stats != nil {
		return stats
	}
	if !rl.unlistedLocked().makePlaceLocked(name, instant) {
		return nil
	}
	return rl.newStateLocked(name, instant, now)
}

// mustStateLocked is stateLocked for a charge that must be counted, even without room.
func (rl *RateLimiter) mustStateLocked(name string, instant int64, now time.Time) *UsageStats {
	if stats := rl.statsRLocked(name); stats != nil {
		return stats
	}
	rl.unlistedLocked().makePlaceLocked(name, instant)
	return rl.newStateLocked(name, instant, now)
}

func (rl *RateLimiter) newStateLocked(name string, instant int64, now time.Time) *UsageStats {
	stats := &UsageStats{DayStart: now.Round(0)}
	name = strings.Clone(name) // it may be a part of a longer string, which must not stay for it
	rl.putStatsLocked(name, stats)
	rl.unlistedLocked().addLocked(name, rl.makeWindowLocked(name, stats, instant))
	return stats
}

// windowLocked returns the window of stats in order: made anew if stats was changed from outside,
// without expired charges, in the right day.
func (rl *RateLimiter) windowLocked(name string, stats *UsageStats, instant int64) *window {
	w := stats.window
	if !w.mirrors(stats, rl) {
		w = rl.makeWindowLocked(name, stats, instant)
		rl.unlisted.state = nil // a program has changed what was indexed
	}
	w.followQuotaLocked(name, instant)
	if instant > w.leaveAt {
		w.prune(instant, rl.span())
	}
	if wall := rl.clock.UnixNano(instant); stats.DayCount != w.dayWas || !w.period.Holds(wall) {
		w.rollDay(rl.clock.At(instant))
	}
	return w
}

// existingWindowLocked returns the window of a model in order; nil when the model has no state.
func (rl *RateLimiter) existingWindowLocked(name string, instant int64) *window {
	stats := rl.statsRLocked(name)
	if stats == nil {
		return nil
	}
	return rl.windowLocked(name, stats, instant)
}

// windowToChargeLocked returns the window of a model in order, and makes a missing one; nil when
// there is no place for it.
func (rl *RateLimiter) windowToChargeLocked(name string, instant int64, now time.Time) *window {
	stats := rl.stateLocked(name, instant, now)
	if stats == nil {
		return nil
	}
	return rl.windowLocked(name, stats, instant)
}

// makeWindowLocked makes the window of a model anew.
func (rl *RateLimiter) makeWindowLocked(name string, stats *UsageStats, instant int64) *window {
	old := stats.window
	var q ModelQuota
	rl.coverRLocked(name, &q)
	w := rl.newWindow(stats, q.DayZone, instant, rl.clock.At(instant))
	w.continueLocked(old)
	w.keepOpenLocked(old)
	w.quotaVersion, w.adapts = rl.quotaVersion, q.adapts()
	rl.linesLocked().joinLocked(name, w)
	return w
}

// followQuotaLocked makes the day of the window's model end where its quota says, after a change
// of quotas that may concern it.
func (w *window) followQuotaLocked(name string, instant int64) {
	if rl := w.home; w.quotaVersion != rl.quotaVersion {
		var q ModelQuota
		rl.coverRLocked(name, &q)
		w.quotaVersion, w.adapts = rl.quotaVersion, q.adapts()
		rl.rezoneLocked(w.stats, q.DayZone, instant)
	}
}

// pruneLocked brings one entry of State in order, and removes it when nothing
// in it is counted any more.
func (rl *RateLimiter) pruneLocked(name string, stats *UsageStats, instant int64) (removed bool) {
	if stats != nil {
		w := rl.windowLocked(name, stats, instant)
		if !w.empty() || instant < w.owes || w.unlisted != nil && rl.unlistedLocked().isAttendedLocked(w) {
			return false
		}
	}
	rl.forgetLocked(name)
	return true
}

// forgetLocked removes the state of a model.
func (rl *RateLimiter) forgetLocked(name string) {
	rl.unlistedLocked().removeLocked(name)
	if stats := rl.statsRLocked(name); stats != nil && stats.window != nil {
		stats.window.gone = true
	}
	rl.putStatsLocked(name, nil)
	if g := rl.lines.allSlots[name]; g != nil {
		g.leftLocked()
	}
}

// forgetUsageLocked forgets the usage and the cooldown of a model; of all where the name
// is empty.
func (rl *RateLimiter) forgetUsageLocked(name string) {
	if name != "" {
		delete(rl.cooldowns, name)
		delete(rl.external, name)
		rl.found.forgetUsage(name)
		rl.refusals.Forget(name)
		rl.forgetLocked(name)
		return
	}
	rl.forgetAllStatsLocked()
	rl.cooldowns, rl.external, rl.refusals = nil, nil, tally.Table[refusals]{}
	rl.found.forgetUsage("")
	rl.unlisted = unlistedModels{}
	rl.stateVersion++
	for _, g := range rl.lines.allSlots {
		g.leftLocked()
	}
}

// walk visits every entry of State, and the usage of every pool, with the lock held, and lets other
// calls in at least every millisecond or so. Entries that come or go meanwhile may be missed.
func (rl *RateLimiter) walk(visit func(model string, stats *UsageStats, instant int64, now time.Time)) {
	rl.mu.Lock()
	defer rl.mu.Unlock()
	work := yield.New(&rl.mu, &rl.clock)
	for model, stats := range rl.State {
		// After others were let in, the entry may be another or gone.
		if current, ok := rl.State[model]; ok && current == stats {
			visit(model, stats, work.Instant, rl.clock.At(work.Instant))
		}
		work.Next()
	}
	for name, p := range rl.pools.all {
		if rl.pools.all[name] == p && p.stats != nil {
			visit(name, p.stats, work.Instant, rl.clock.At(work.Instant))
		}
		work.Next()
	}
}

// indexAll makes the missing windows of all models, without the lock: a program that filled State
// by hand may have left many entries. Nobody writes into the slices of an entry without a window.
func (rl *RateLimiter) indexAll() {
	room := 0
	rl.walk(func(_ string, stats *UsageStats, _ int64, _ time.Time) {
		if stats != nil && !stats.window.mirrors(stats, rl) {
			room++
		}
	})
	if room == 0 {
		return
	}
	type entry struct {
		model, zone string
		stats       UsageStats
	}
	bare := ring.Room[entry](room)
	var at int64
	var now time.Time
	rl.walk(func(model string, stats *UsageStats, instant int64, t time.Time) {
		if stats != nil && !stats.window.mirrors(stats, rl) {
			bare = append(bare, entry{model, rl.zoneRLocked(model), *stats})
		}
		at, now = instant, t
	})
	for _, before := range bare {
		after := before.stats
		w := rl.newWindow(&after, before.zone, at, now)
		rl.mu.Lock()
		stats := rl.statsRLocked(before.model)
		if stats != nil && !stats.window.mirrors(stats, rl) && stats.DayStart == before.stats.DayStart &&
			sameSlice(stats.Requests, before.stats.Requests) && sameSlice(stats.Tokens, before.stats.Tokens) {
			stats.Requests, stats.Tokens, stats.DayStart = after.Requests, after.Tokens, after.DayStart
			w.continueLocked(stats.window)
			w.keepOpenLocked(stats.window)
			stats.window, w.stats = w, stats
			rl.linesLocked().joinLocked(before.model, w)
			rl.unlisted.state = nil
		}
		rl.mu.Unlock()
	}
}

// prune forgets the expired usage of all models.
func (rl *RateLimiter) prune() {
	rl.indexAll()
	rl.walk(func(model string, stats *UsageStats, instant int64, _ time.Time) {
		rl.pruneLocked(model, stats, instant)
	})
	rl.mu.Lock()
	defer rl.mu.Unlock()
	instant := rl.clock.Sync()
	rl.external.DropOver(instant, rl.clock.UnixNano(instant))
}

// BackgroundPrune forgets expired usage at every interval, in a goroutine of its own, so that
// unused models do not hold memory. It holds up other calls for about a millisecond at a time at
// most. An interval of zero or less does nothing.
//
// The returned function stops it, and once that has returned no prune runs; it may be called more
// than once. Close stops it as well. BackgroundPrune is safe for concurrent use.
func (rl *RateLimiter) BackgroundPrune(interval time.Duration) (stop func()) {
	if interval <= 0 {
		return func() {}
	}
	rl.mu.Lock()
	closing := rl.closingLocked()
	rl.mu.Unlock()
	return periodic.Run(interval, closing, rl.prune)
}
