package ratelimit

import (
	"maps"
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
	was, exists := rl.cooldowns[name]
	if !until.After(now) || !until.After(was) {
		return
	}
	if !exists && len(rl.cooldowns) >= rl.mostModels() {
		rl.cooldowns.dropOver(now)
		if _, own := rl.Quotas[name]; !own && len(rl.cooldowns) >= rl.mostModels() {
			return
		}
	}
	rl.cooldowns.set(strings.Clone(name), until) // see stateLocked
	rl.changedNowLocked()
	l := rl.linesLocked()
	l.reviewAllLaterLocked(l.allSlots[name])
	l.settleLocked()
}

// cooldowns are the times before which nothing is admitted, by model. Nil has none.
type cooldowns map[string]time.Time

// set notes a cooldown, whether there is another one or not.
func (c *cooldowns) set(name string, until time.Time) {
	if *c == nil {
		*c = make(cooldowns)
	}
	(*c)[name] = until
}

// raise notes a cooldown that is not over and ends later than the one there is. It reports
// whether it did.
func (c *cooldowns) raise(name string, until, now time.Time) bool {
	if !until.After(now) || !until.After((*c)[name]) {
		return false
	}
	c.set(name, until)
	return true
}

// dropOver drops the cooldowns that are over.
func (c cooldowns) dropOver(now time.Time) {
	maps.DeleteFunc(c, func(_ string, until time.Time) bool { return !until.After(now) })
}
