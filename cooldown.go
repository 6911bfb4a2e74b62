package ratelimit

import (
	"strings"
	"time"
)

// Cooldown notes that the provider said to wait: nothing is admitted for model
// before until, also without a quota. A denial says so with DecisionCooldown, and
// its RetryAfter is what is left. Another cooldown never shortens one that ends
// later; Reset ends it. It follows the wall clock, and Persist keeps it.
//
// A time that is over does nothing. Of models without a quota of their own no
// more than Config.MaxModels have a cooldown at a time; one beyond is not noted.
// Cooldown is safe for concurrent use.
func (rl *RateLimiter) Cooldown(model string, until time.Time) {
	until = until.Round(0)
	if !rl.ledger.update(func(p *plan) { p.cool(model, until) }) {
		rl.mu.Lock()
		defer rl.mu.Unlock()
		rl.coolLocked(model, until)
	}
}

func (rl *RateLimiter) coolLocked(model string, until time.Time) {
	now := rl.clock.At(rl.clock.Sync())
	name := rl.nameRLocked(model)
	was, exists := rl.cooldowns[name]
	if !until.After(now) || !until.After(was) {
		return
	}
	if !exists && len(rl.cooldowns) >= rl.mostModels() {
		rl.thawLocked(now)
		if _, own := rl.Quotas[name]; !own && len(rl.cooldowns) >= rl.mostModels() {
			return
		}
	}
	rl.setCooldownLocked(strings.Clone(name), until) // see stateLocked
	rl.changedNowLocked()
}

func (rl *RateLimiter) setCooldownLocked(name string, until time.Time) {
	if rl.cooldowns == nil {
		rl.cooldowns = make(map[string]time.Time)
	}
	rl.cooldowns[name] = until
}

// thawLocked drops the cooldowns that are over.
func (rl *RateLimiter) thawLocked(now time.Time) {
	for name, until := range rl.cooldowns {
		if !until.After(now) {
			delete(rl.cooldowns, name)
		}
	}
}
