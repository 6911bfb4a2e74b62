package ratelimit

import "time"

// ModelStats is what a model has used and what it may use, at one moment. A
// maximum of zero is unlimited. ModelStats can be compared with ==.
type ModelStats struct {
	RPM, MaxRPM int       // requests in the last minute (and Config.Margin)
	TPM, MaxTPM int       // tokens in the last minute (and Config.Margin)
	RPD, MaxRPD int       // requests in the current day
	DayStart    time.Time // when the current day began; zero when nothing was used
}

// Stats returns what model has used, after forgetting what is no longer
// counted. For an unknown model it is zero. It is safe for concurrent use.
func (rl *RateLimiter) Stats(model string) ModelStats {
	rl.mu.RLock()
	quota := rl.Quotas[model]
	if r, ok := rl.readRLocked(model); ok {
		stats := r.modelStats(quota)
		rl.mu.RUnlock()
		return stats
	}
	rl.mu.RUnlock()
	return rl.statsSlowly(model)
}

func (rl *RateLimiter) statsSlowly(model string) ModelStats {
	rl.mu.Lock()
	defer rl.mu.Unlock()
	return rl.readLocked(model).modelStats(rl.Quotas[model])
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

// readRLocked reads what a model has used, when that takes no change of
// anything: its window is in order and holds something, none of its entries is
// due to leave, its day lasts, and the clocks were compared lately. That is so at nearly every
// call, and it lets readers run beside each other.
func (rl *RateLimiter) readRLocked(model string) (r reading, ok bool) {
	stats, exists := rl.State[model]
	if stats == nil {
		return reading{window: unused}, !exists
	}
	instant := rl.clock.now()
	wall := instant + rl.clock.wall
	w := stats.window
	if instant >= rl.clock.next || !w.mirrors(stats, rl) || instant > w.leaveAt ||
		wall < w.dayBegin || wall >= w.dayEnd || w.empty() {
		return reading{}, false
	}
	return reading{w, instant, wall, rl.span()}, true
}

// readLocked reads what a model has used, after bringing its window in order.
func (rl *RateLimiter) readLocked(model string) reading {
	stats, exists := rl.State[model]
	if !exists {
		return reading{window: unused}
	}
	instant := rl.clock.sync()
	if rl.pruneLocked(model, stats, instant, rl.clock.at(instant)) {
		return reading{window: unused}
	}
	return reading{stats.window, instant, instant + rl.clock.wall, rl.span()}
}

// countLocked reads what a model has used and leaves its entry as it is, also
// what is no longer counted.
func (rl *RateLimiter) countLocked(model string, quota ModelQuota) ModelStats {
	stats := rl.State[model]
	if stats == nil {
		return reading{window: unused}.modelStats(quota)
	}
	instant := rl.clock.sync()
	now := rl.clock.at(instant)
	counted := ModelStats{MaxRPM: quota.MaxRPM, MaxTPM: quota.MaxTPM, MaxRPD: quota.MaxRPD}
	w := stats.window
	if !w.mirrors(stats, rl) {
		entry := *stats
		w = rl.newWindow(&entry, now, instant)
	}
	cut := instant - rl.span()
	counted.RPM = w.requests.len() - w.requests.before(cut)
	if n := w.tokens.before(cut); n < w.tokens.len() {
		counted.TPM = w.counts.sum(w.counts.head+n, w.counts.head+w.tokens.len())
	}
	if now.UnixNano() < w.dayEnd {
		counted.RPD, counted.DayStart = w.dayCount(), w.stats.DayStart
	}
	return counted
}
