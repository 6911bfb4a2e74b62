package ratelimit

import (
	"fmt"
	"maps"
	"slices"

	"dappco.re/go/core/go-ratelimit/internal/clock"
	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// Pool is a limit that several models share: a bucket of the provider, the limit of an organisation
// over all its models, or one of your own. A call is charged to its model and to each pool that the
// model is in, all of them or none. The zero value is a pool of no model that limits nothing.
type Pool struct {
	// Models are the members: names of models, and patterns, in which "*" stands for any run of
	// bytes. The pattern "*" is all models together, where the quota "*" is one for each model that
	// has none of its own. A model is in the pool if a member names or covers the name under which
	// it is counted (Config.Aliases, Config.MatchVersions), or the one that the caller used.
	Models []string   `yaml:"models" json:"models"`
	Quota  ModelQuota `yaml:"quota" json:"quota"` // what the members may use together; its fields mean what they mean for a model
}

// SetPool adds a pool, or replaces the one of that name. What was charged to a pool of that name
// stays charged to it. With an invalid quota the pool admits nothing (DecisionInvalidQuota). With
// an empty name, or Models that are not UTF-8, nothing changes, and Config.OnError gets an error.
// Waiters are served or refused at once. With Config.Shared or Config.Store the pool is that of all
// processes, and the last SetPool of any of them holds. RemovePool takes it back.
func (rl *RateLimiter) SetPool(name string, pool Pool) {
	if err := state.CheckPool(name, pool.Models); err != nil {
		rl.reporter.Report(fmt.Errorf("set pool: %w", err))
		return
	}
	clock.LoadZone(pool.Quota.DayZone) // as SetQuota does
	set := engine.SetPool{Counted: state.PoolName(name), Models: pool.Models, Quota: state.Quota(pool.Quota)}
	rl.say(byProgram, set, pool.Quota.DayZone)
}

// RemovePool takes back what the program said of a pool, by Config.Pools or SetPool, and what an
// earlier run of it said and a file holds. A pool of that name of a provider's profile comes back;
// any other is none any more, and what was charged to it is forgotten, but for money: a pool of
// that name which SetPool makes in the same month has spent it. Calls that are open stay charged to
// their models. A Load does not bring it back. With Config.Shared or Config.Store this is for all
// processes. Waiters are served at once.
func (rl *RateLimiter) RemovePool(name string) {
	rl.say(byProgram, engine.RemovePool{Counted: state.PoolName(name)})
}

// Pool returns a pool: one of Config.Pools or SetPool, of the state file, or of a provider's
// profile, whose Models are the names and patterns of the profile, and whose members are the models
// that have the profile's quota. The caller may change the copy.
func (rl *RateLimiter) Pool(name string) (pool Pool, ok bool) {
	rl.shared.freshen()
	rl.mu.Lock()
	defer rl.mu.Unlock()
	rl.readyLocked()
	is, ok := rl.engine.Catalog.Pool(state.PoolName(name))
	if !ok {
		return Pool{}, false
	}
	return Pool{Models: is.Members, Quota: ModelQuota(is.Quota)}, true
}

// PoolStats returns the usage of a pool without expired charges; zero for an unknown pool.
func (rl *RateLimiter) PoolStats(name string) (stats ModelStats) {
	counted := state.PoolName(name)
	rl.shared.freshen()
	rl.mu.Lock()
	defer rl.mu.Unlock()
	now := rl.nowLocked()
	if rl.engine.Catalog.IsPool(counted) {
		stats.count(rl.engine.Account(counted), rl.span(), now)
	}
	return stats
}

// PoolsOf returns the names of the pools that a call of model is charged to, sorted.
func (rl *RateLimiter) PoolsOf(model string) (names []string) {
	rl.mu.Lock()
	defer rl.mu.Unlock()
	_, t := rl.enterLocked(model)
	for _, a := range t.Pools {
		name, _ := state.PoolOf(a.Name)
		names = append(names, name)
	}
	return names
}

// validatePools returns an error that names the first pool that is out of range.
func validatePools(pools map[string]Pool) error {
	for _, name := range slices.Sorted(maps.Keys(pools)) {
		pool, quota := pools[name], state.Quota(pools[name].Quota)
		if err := state.CheckPool(name, pool.Models); err != nil {
			return inField("Pools", err)
		}
		if err := quota.Validate(state.PoolName(name)); err != nil {
			return err
		}
	}
	return nil
}
