package ratelimit

import (
	"iter"

	"dappco.re/go/core/go-ratelimit/internal/state"
)

// Pool is a limit that several models share: a bucket of the provider, the limit of an
// organisation over all its models, or one of your own. A call is charged to its model and to each
// pool that the model is in, all of them or none.
//
// The zero value is a pool of no model that limits nothing.
type Pool struct {
	// Models are the members: names of models, and patterns, in which "*" stands for any run of
	// bytes. The pattern "*" is all models together, where the quota "*" is one for each model that
	// has none of its own. A name counts as the methods of the limiter take names: Config.Aliases
	// and Config.MatchVersions apply; a model that no member names under the name by which it is
	// counted is in the pool if one names it as the caller does.
	Models []string `yaml:"models" json:"models"`
	// Quota is what the members may use together. All its fields mean what they mean for a model.
	Quota ModelQuota `yaml:"quota" json:"quota"`
}

// SetPool adds a pool, or replaces the one of that name. What was charged to a pool of that name
// stays charged to it. With an invalid quota the pool admits nothing, and Decide returns
// DecisionInvalidQuota. The name "" is none: it changes nothing.
//
// Waiters are served by the new pool at once, or refused if their request does not fit it. With
// Config.Shared or Config.Store the pool is that of all processes, unless it is invalid, and the
// last SetPool of any of them holds. SetPool is safe for concurrent use.
func (rl *RateLimiter) SetPool(name string, pool Pool) {}

// RemovePool takes a pool away, with what was charged to it; one that SetPool has replaced of a
// provider's profile comes back. A call that is open stays charged to its model. RemovePool is safe
// for concurrent use.
func (rl *RateLimiter) RemovePool(name string) {}

// Pool returns a pool: one of Config.Pools or SetPool, of the state file, or of a provider's
// profile. The caller may change the copy. Pool is safe for concurrent use.
func (rl *RateLimiter) Pool(name string) (pool Pool, ok bool) { return Pool{}, false }

// PoolStats returns the usage of a pool, after forgetting expired charges. For an unknown pool it is
// zero. It is safe for concurrent use.
func (rl *RateLimiter) PoolStats(name string) ModelStats { return ModelStats{} }

// Pools returns the names of all pools, sorted. The names are those at the start of the iteration;
// the loop's body may call any method of the limiter. Pools is safe for concurrent use.
func (rl *RateLimiter) Pools() iter.Seq[string] { return func(func(string) bool) {} }

// IterPools returns the same pools as [RateLimiter.Pools], each with its stats at the moment it is
// reached. The loop's body may call any method of the limiter. IterPools is safe for concurrent use.
func (rl *RateLimiter) IterPools() iter.Seq2[string, ModelStats] {
	return func(func(string, ModelStats) bool) {}
}

// PoolsOf returns the pools that a call of model is charged to, sorted by name. PoolsOf is safe for
// concurrent use.
func (rl *RateLimiter) PoolsOf(model string) []string { return nil }

var _ = state.PoolName
