package ratelimit

import (
	"strings"
	"time"
)

// Cooldown follows a provider that said to wait: the model admits nothing before until, also
// without a quota. A denial has the code DecisionCooldown, and its RetryAfter is the rest of the
// cooldown. Another cooldown never shortens one that ends later; Reset ends it. It follows the
// wall clock, and Persist keeps it.
//
// A time in the past does nothing. At most Config.MaxModels models without a quota of their own
// have a cooldown at a time; further ones are ignored. Cooldown is safe for concurrent use.
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
	if !rl.takesCooldownLocked(name, until, now) {
		return
	}
	rl.cooldowns.Set(strings.Clone(name), until) // see stateLocked
	rl.changedNowLocked()
	l := rl.linesLocked()
	l.reviewAllLaterLocked(l.allSlots[name])
	l.settleLocked()
}

// takesCooldownLocked reports whether a cooldown is to be noted, and there is room for it.
func (rl *RateLimiter) takesCooldownLocked(name string, until, now time.Time) bool {
	return rl.cooldowns.Rises(name, until, now) &&
		(rl.cooldowns.HasRoom(name, rl.mostModels(), now) || rl.isListedRLocked(name))
}
