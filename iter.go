package ratelimit

import (
	"iter"
	"slices"

	"dappco.re/go/core/go-ratelimit/internal/catalog"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// Models returns the names of all models that have a quota or usage, sorted. The names are those at
// the start of the iteration; the loop's body may call any method of the limiter.
func (rl *RateLimiter) Models() iter.Seq[string] {
	return func(yield func(string) bool) {
		rl.shared.freshen(background)
		rl.mu.RLock()
		names := make([]string, 0, len(rl.Quotas)+len(rl.State))
		add := func(model string) {
			if names = append(names, model); len(names)%1024 == 0 { // it takes milliseconds for 100,000
				rl.mu.RUnlock()
				rl.mu.RLock()
			}
		}
		for model := range rl.Quotas {
			if model != catalog.Every && !catalog.IsPattern(model) {
				add(model)
			}
		}
		for model := range rl.State {
			add(model)
		}
		rl.mu.RUnlock()
		slices.Sort(names)
		for _, model := range slices.Compact(names) {
			if !yield(model) {
				return
			}
		}
	}
}

// Iter returns the same models as [RateLimiter.Models], each with its stats at the moment it is
// reached. The loop's body may call any method of the limiter.
func (rl *RateLimiter) Iter() iter.Seq2[string, ModelStats] {
	return withStats(rl.Models(), rl.Stats)
}

// withStats returns names, each with its stats at the moment it is reached.
func withStats(names iter.Seq[string], stats func(string) ModelStats) iter.Seq2[string, ModelStats] {
	return func(yield func(string, ModelStats) bool) {
		for name := range names {
			if !yield(name, stats(name)) {
				return
			}
		}
	}
}

// Pools returns the names of all pools, sorted. The names are those at the start of the iteration;
// the loop's body may call any method of the limiter.
func (rl *RateLimiter) Pools() iter.Seq[string] {
	return func(yield func(string) bool) {
		rl.shared.freshen(background)
		rl.mu.Lock()
		rl.readyLocked()
		names := rl.engine.Catalog.PoolNames()
		rl.mu.Unlock()
		for _, counted := range names {
			if name, _ := state.PoolOf(counted); !yield(name) {
				return
			}
		}
	}
}

// IterPools returns the same pools as [RateLimiter.Pools], each with its stats at the moment it is
// reached. The loop's body may call any method of the limiter.
func (rl *RateLimiter) IterPools() iter.Seq2[string, ModelStats] {
	return withStats(rl.Pools(), rl.PoolStats)
}
