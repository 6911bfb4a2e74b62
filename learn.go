package ratelimit

import "dappco.re/go/core/go-ratelimit/internal/catalog"

// ForgetLearned forgets what Observe has learned of a model's limits (Config.LearnQuotas), also in
// the file from the next Persist on; ForgetLearned("") does so for all models. The quota before the
// corrections applies again, and a model that had none has none. Aliases and MatchVersions apply.
//
// Waiters are served or refused at once. ForgetLearned is safe for concurrent use.
func (rl *RateLimiter) ForgetLearned(model string) {
	defer rl.teller.flush()
	rl.mu.Lock()
	defer rl.mu.Unlock()
	rl.readyLocked()
	if model != "" {
		model = rl.nameRLocked(model)
	}
	rl.settingLocked(byProgram, func(c *catalog.Catalog) []catalog.Change { return c.ForgetLearned(model) })
	if model == "" {
		rl.engine.ForgetTold()
	}
}
