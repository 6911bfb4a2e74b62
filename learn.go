package ratelimit

import "dappco.re/go/core/go-ratelimit/internal/engine"

// ForgetLearned forgets what Observe has learned of a model's limits (Config.LearnQuotas), also in
// the file from the next Persist on; ForgetLearned("") does so for all models. The quota before the
// corrections applies again, and a model that had none has none. Aliases and MatchVersions apply.
//
// Waiters are served or refused at once. ForgetLearned is safe for concurrent use.
func (rl *RateLimiter) ForgetLearned(model string) {
	if model != "" {
		model = rl.CountedAs(model)
	}
	rl.say(byProgram, engine.ForgetLearned{Counted: model})
}
