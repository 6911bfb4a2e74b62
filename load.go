package ratelimit

import (
	"maps"
	"slices"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/provenance"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/yield"
)

// loading is a Load under way.
type loading struct {
	rl *RateLimiter
	*state.Snapshot
}

// index takes over the loaded quotas, and returns the usage, indexed: before the lock is taken,
// so that no other call waits for that.
func (l loading) index() map[string]*UsageStats {
	l.mergeQuotas()
	zones := l.zones()
	instant, now := l.rl.present()
	all := make(map[string]*UsageStats, len(l.Usage))
	for model, u := range l.Usage {
		all[model] = statsOf(u)
		l.rl.newWindow(all[model], zones[model], instant, now)
	}
	return all
}

// present returns the present instant, and what the clocks show.
func (rl *RateLimiter) present() (instant int64, now time.Time) {
	rl.mu.Lock()
	defer rl.mu.Unlock()
	instant = rl.clock.Sync()
	return instant, rl.clock.At(instant)
}

// replace takes over the loaded cooldowns, what was learned and found, and the indexed usage.
func (l loading) replace(usage map[string]*UsageStats) {
	l.mergeCooldowns()
	l.rl.answers.Merge(l.Answers, l.rl.mostModels())
	rl := l.rl
	rl.mu.Lock()
	defer rl.mu.Unlock()
	was := maps.Collect(rl.allStatsRLocked)
	rl.State = rl.takePoolStatsLocked(usage)
	rl.external = nil
	rl.stateVersion++
	rl.unlisted = unlistedModels{}
	rl.takeFoundsLocked(l.Found)
	for name, g := range rl.lines.allSlots {
		if stats := rl.statsRLocked(name); stats != nil {
			rl.linesLocked().joinLocked(name, stats.window)
			g.continueLocked(stats.window)
			if old := was[name]; old != nil {
				stats.window.keepOpenLocked(old.window)
			}
		} else {
			g.leftLocked()
		}
	}
	rl.requoteLocked()
}

// zones returns the zones of the models' days, where they have one.
func (l loading) zones() map[string]string {
	rl := l.rl
	zones := make(map[string]string)
	rl.mu.RLock()
	defer rl.mu.RUnlock()
	n := 0
	for model := range l.Usage {
		if zone := rl.zoneRLocked(model); zone != "" {
			zones[model] = zone
		}
		if n++; n%1024 == 0 { // let writers in, as names does
			rl.mu.RUnlock()
			rl.mu.RLock()
		}
	}
	return zones
}

// mergeCooldowns takes over the lasting cooldowns of a file, unless memory has a later one: a
// program may persist and load in turns to see the changes of others, and must not lose a
// cooldown by that.
func (l loading) mergeCooldowns() {
	rl := l.rl
	rl.mu.Lock()
	defer rl.mu.Unlock()
	work := yield.New(&rl.mu, &rl.clock)
	now := rl.clock.At(work.Instant)
	for model, c := range l.Cooldowns {
		rl.cooldowns.Raise(model, c, now)
		work.Next()
	}
}

// mergeQuotas takes over the quotas of a file, below those that the program said: by Config.Quotas,
// by SetQuota, or in the Quotas map, where it shows as a value that nobody else said. What was
// learned of a model that had no quota at all does not stand beside one that covers it now.
func (l loading) mergeQuotas() {
	rl := l.rl
	rl.mu.Lock()
	defer rl.mu.Unlock()
	work := yield.New(&rl.mu, &rl.clock)
	rl.loadPoolsLocked(l.Pools)
	for model, q := range l.Quotas {
		rl.sayLocked(model, byFile, func(p *provenance.Quotas) { p.Loaded(model, q, l.Said[model], rl.learns) })
		work.Next()
	}
	covered := slices.DeleteFunc(rl.provenance.Alone(), func(model string) bool {
		_, is := rl.Quotas[rl.sharedCoverRLocked(model)]
		return !is || state.IsPool(model)
	})
	for _, model := range covered {
		rl.sayLocked(model, byFile, func(p *provenance.Quotas) { p.Forget(model) })
		work.Next()
	}
}
