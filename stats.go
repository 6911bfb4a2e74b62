package ratelimit

import "time"

// ModelStats is what a model has used and what it may use, at one moment. A
// maximum of zero is unlimited. ModelStats can be compared with ==.
type ModelStats struct {
	RPM, MaxRPM int       // requests in the last minute
	TPM, MaxTPM int       // tokens in the last minute
	RPD, MaxRPD int       // requests in the current day
	DayStart    time.Time // when the current day began; zero when nothing was used
}

// Stats returns what model has used, after forgetting what is no longer
// counted. For an unknown model it is zero. It is safe for concurrent use.
func (rl *RateLimiter) Stats(model string) ModelStats {
	rl.mu.RLock()
	if u, ok := rl.readRLocked(model); ok {
		stats := u.stats(rl.Quotas[model])
		rl.mu.RUnlock()
		return stats
	}
	rl.mu.RUnlock()

	rl.mu.Lock()
	defer rl.mu.Unlock()
	u := rl.usageLocked(model)
	return u.stats(rl.Quotas[model])
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
// anything: its window is in order, none of its entries is due to leave, its
// day lasts, and the clocks were compared lately. That is so at nearly every
// call, and it lets readers run beside each other.
func (rl *RateLimiter) readRLocked(model string) (u usage, ok bool) {
	stats, exists := rl.State[model]
	if stats == nil {
		return usage{}, !exists
	}
	instant := rl.clock.now()
	w := stats.window
	if instant >= rl.clock.next || !w.mirrors(stats) || instant > w.leaveAt {
		return usage{}, false
	}
	if wall := instant + rl.clock.wall; wall < w.dayBegin || wall >= w.dayEnd {
		return usage{}, false
	}
	return w.usage(instant, rl.clock.wall, rl.span()), true
}

// usageLocked reads what a model has used, after bringing its window in order.
func (rl *RateLimiter) usageLocked(model string) usage {
	stats, exists := rl.State[model]
	if !exists {
		return usage{}
	}
	instant := rl.clock.sync()
	if rl.pruneLocked(model, stats, instant, rl.clock.at(instant)) {
		return usage{}
	}
	return stats.window.usage(instant, rl.clock.wall, rl.span())
}

// countRLocked reads what a model has used and leaves everything as it is, also
// what is no longer counted.
func (rl *RateLimiter) countRLocked(model string) (u usage) {
	stats := rl.State[model]
	if stats == nil {
		return usage{}
	}
	now := time.Now()
	if w := stats.window; w.mirrors(stats) {
		cut := rl.clock.now() - rl.span()
		u.requests = w.requests.len() - w.requests.before(cut)
		if n := w.tokens.before(cut); n < w.tokens.len() {
			u.tokens = w.counts.sum(w.counts.head+n, w.counts.head+w.tokens.len())
		}
	} else {
		span := time.Duration(rl.span())
		for _, t := range stats.Requests {
			if now.Sub(t) <= span {
				u.requests++
			}
		}
		for _, e := range stats.Tokens {
			if now.Sub(e.Time) <= span {
				u.tokens = addSaturated(u.tokens, max(e.Count, 0))
			}
		}
	}
	if wall := now.UnixNano(); wall < unixNano(stats.DayStart)+day {
		u.day, u.dayStart = max(stats.DayCount, 0), stats.DayStart
	}
	return u
}

// usage reads the window, which must be in order.
func (w *window) usage(instant, wall, span int64) usage {
	return usage{
		requests: w.requests.len(),
		tokens:   w.counts.total,
		day:      max(w.stats.DayCount, 0),
		window:   w,
		instant:  instant,
		span:     span,
		dayStart: w.stats.DayStart,
		dayLeft:  time.Duration(w.dayEnd - wall - instant),
	}
}
