package ratelimit

import (
	"iter"
	"slices"
)

// names returns the models that have a quota or usage, sorted. It lets writers in now and then:
// walking over 100,000 names takes milliseconds.
func (rl *RateLimiter) names() []string {
	rl.ledger.fresh()
	rl.mu.RLock()
	names := make([]string, 0, len(rl.Quotas)+len(rl.State))
	add := func(model string) {
		if names = append(names, model); len(names)%1024 == 0 {
			rl.mu.RUnlock()
			rl.mu.RLock()
		}
	}
	for model := range rl.Quotas {
		if model != everyModel {
			add(model)
		}
	}
	for model := range rl.State {
		add(model)
	}
	rl.mu.RUnlock()
	slices.Sort(names)
	return slices.Compact(names)
}

// Models returns the names of all models that have a quota or usage, sorted. The names are those
// at the start of the iteration; the loop's body may call any method of the limiter. Models is
// safe for concurrent use.
func (rl *RateLimiter) Models() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, model := range rl.names() {
			if !yield(model) {
				return
			}
		}
	}
}

// Iter returns the same models as [RateLimiter.Models], each with its stats at the moment it is
// reached. The loop's body may call any method of the limiter. Iter is safe for concurrent use.
func (rl *RateLimiter) Iter() iter.Seq2[string, ModelStats] {
	return func(yield func(string, ModelStats) bool) {
		for model := range rl.Models() {
			if !yield(model, rl.Stats(model)) {
				return
			}
		}
	}
}
