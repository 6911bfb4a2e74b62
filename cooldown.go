package ratelimit

import (
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/clock"
	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// Cause says in one word why a model is in a cooldown. The values are stable: programs may store
// and compare them.
type Cause string

const (
	// CauseDailyQuota: the provider said that the quota of the day is used up.
	CauseDailyQuota Cause = "daily_quota"
	// CauseRateLimited: the provider said that its rate limit is exceeded.
	CauseRateLimited Cause = "rate_limited"
	// CauseOverloaded: the provider said that it is overloaded.
	CauseOverloaded Cause = "overloaded"
	// CauseCaller: the program called Cooldown, or gave no cause.
	CauseCaller Cause = "caller"
)

// Cooldown follows a provider that said to wait: the model admits nothing before until, also
// without a quota. A denial has the code DecisionCooldown, and its RetryAfter is the rest of the
// cooldown. Another cooldown never shortens one that ends later; Reset ends it. It follows the
// wall clock, and Persist keeps it. Its cause is CauseCaller: see CooldownFor.
//
// A time in the past does nothing, and one after April 11 of 2262, the last that int64 nanoseconds
// reach, counts as that. At most Config.MaxModels models without a quota of their own have a
// cooldown at a time; further ones are ignored. Cooldown is safe for concurrent use.
func (rl *RateLimiter) Cooldown(model string, until time.Time) {
	rl.cool(model, state.Cooldown{Until: until.Round(0), Cause: state.CauseCaller})
}

// CooldownFor is Cooldown for d from now, with the cause that Decision.Cause then tells. Of two
// cooldowns of a model the one that ends later counts, with its cause; of two that end at the same
// time the first. Persist keeps the cause, and Config.Shared shares it.
//
// The cause may be one of the program's own: 1 to 64 bytes of a-z, 0-9 and "_". Any other counts
// as CauseCaller. A duration of zero or less does nothing. CooldownFor is safe for concurrent use.
func (rl *RateLimiter) CooldownFor(model string, d time.Duration, cause Cause) {
	if d > 0 {
		until := time.Now().Round(0).Add(d)
		rl.cool(model, state.Cooldown{Until: until, Cause: state.KeptCause(string(cause))})
	}
}

func (rl *RateLimiter) cool(model string, c state.Cooldown) {
	defer rl.teller.flush()
	defer rl.shared.send()
	rl.mu.Lock()
	defer rl.mu.Unlock()
	now, t := rl.enterLocked(model)
	if rl.shared != nil {
		name := engine.Name{Asked: strings.Clone(model), Counted: t.Counted}
		rl.shared.putLocked(engine.Cool{Name: name, Until: engine.ClampTime(rl.shared.wallOf(c.Until, now)), Cause: c.Cause})
		return
	}
	if rl.engine.Cool(t.Counted, strings.Clone(model), clock.UnixNano(c.Until), c.Cause, now) {
		rl.autosave.changedNowLocked(&rl.clock)
	}
	rl.leaveLocked(now)
}
