package ratelimit

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"dappco.re/go/core/go-ratelimit/internal/account"
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
// that name which SetPool makes in the same month has spent it. A Load does not bring it back. With
// Config.Shared or Config.Store this is for all processes. Waiters are served at once.
func (rl *RateLimiter) RemovePool(name string) {
	rl.say(byProgram, engine.RemovePool{Counted: state.PoolName(name)})
}

// Pool returns a pool: one of Config.Pools or SetPool, of the state file, or of a provider's
// profile, whose Models are the names and patterns of the profile, and whose members are the models
// that have the profile's quota. The caller may change the copy.
func (rl *RateLimiter) Pool(name string) (pool Pool, ok bool) {
	rl.shared.freshen(background)
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
	rl.shared.freshen(background)
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
	rl.shared.freshen(background)
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

// Class says how the calls of one kind share a quota with those of other classes: see
// Config.Classes. The zero value has weight 1 and no reserve.
type Class struct {
	// Weight is the class's share of what becomes free while calls of other classes wait, too: of
	// the tokens where tokens deny, else of the requests. A class of weight 3 gets three times as
	// much as one of weight 1, and a class alone everything. Zero means 1; at most 1,000,000.
	Weight int `yaml:"weight,omitempty" json:"weight,omitempty"`
	// ReservePercent is the share of each limit, rounded down, that calls of other classes leave
	// free for this one while it is active: while it has calls that wait, or had one in the last
	// minute that asked for a reservation. A call that is too large for what the reserve leaves may
	// use the reserve, and so may the next waiter of a class that reserves have kept out for a
	// minute, except of limits of the day. The shares of all classes add up to 100 at most. Limits
	// of spend have no reserve, nor has the class "". Zero is none.
	ReservePercent int `yaml:"reserve_percent,omitempty" json:"reserve_percent,omitempty"`
	// MaxQueue bounds the waiters of the class per model; further callers of it get ErrQueueFull.
	// Config.MaxQueue bounds those of all classes together. Zero is no bound.
	MaxQueue int `yaml:"max_queue,omitempty" json:"max_queue,omitempty"`
	// Ahead lets waiters of the class go before those of all classes that do not have it, whatever
	// the weights. While others wait, every tenth service is theirs, so the n-th of them waits for
	// at most 9·n services of classes ahead.
	Ahead bool `yaml:"ahead,omitempty" json:"ahead,omitempty"`
}

// SetClasses replaces all classes: see Config.Classes. With Config.Shared and Config.Store it does
// so for all processes, and the last one said holds. Classes with a field out of range change
// nothing and are reported to Config.OnError. Waiters are put in order anew.
func (rl *RateLimiter) SetClasses(classes map[string]Class) {
	if err := state.ValidateClasses(storedClasses(classes)); err != nil {
		rl.reporter.Report(fmt.Errorf("set classes: %w", err))
		return
	}
	rl.change(func(now account.Now) (saves bool) {
		rl.setClassesLocked(classes, now)
		return false
	})
}

// setClassesLocked replaces all classes, and puts those that wait in order anew.
func (rl *RateLimiter) setClassesLocked(classes map[string]Class, now account.Now) {
	stored := storedClasses(classes)
	if rl.shared != nil {
		rl.shared.putLocked(engine.SetClasses{Classes: stored})
		return
	}
	rl.classed.Store(len(stored) > 0)
	rl.engine.SetClasses(stored, now)
}

// storedClasses returns classes as they are stored.
func storedClasses(classes map[string]Class) map[string]state.Class {
	stored := make(map[string]state.Class, len(classes))
	for name, c := range classes {
		stored[name] = state.Class(c)
	}
	return stored
}

// asking is who asks: the class and the flow of a call, as the caller names them.
type asking struct{ class, flow string }

// askingOf returns the class and the flow of requests that were made together.
func askingOf(ctx context.Context, reqs []Request) (a asking) {
	for i := range reqs {
		a.class, a.flow = cmp.Or(a.class, reqs[i].Class), cmp.Or(a.flow, reqs[i].Flow)
	}
	if a.class == "" {
		a.class, _ = ctx.Value(classKey{}).(string)
	}
	if a.flow == "" {
		a.flow, _ = ctx.Value(flowKey{}).(string)
	}
	return a
}

// ask notes the class and the flow of a caller, where there are classes.
func (c *caller) ask(ctx context.Context, reqs []Request, classed bool) {
	if classed {
		c.asking = askingOf(ctx, reqs)
	}
}

// Classes returns a copy of the classes in force.
func (rl *RateLimiter) Classes() map[string]Class {
	rl.shared.freshen(background)
	rl.mu.RLock()
	defer rl.mu.RUnlock()
	if !rl.classed.Load() {
		return nil
	}
	all := make(map[string]Class)
	for name, c := range rl.engine.Classes() {
		all[name] = Class(c)
	}
	return all
}

type classKey struct{}

type flowKey struct{}

// WithClass returns a context that gives a class, a name in Config.Classes, to the calls whose
// Request names none. All methods with a context read it, as does llmhttp.Transport.
func WithClass(ctx context.Context, class string) context.Context {
	return context.WithValue(ctx, classKey{}, class)
}

// WithFlow returns a context that gives a flow to the calls whose Request names none: the name of a
// tenant, a user or a session. While several flows of a class wait, they take turns.
func WithFlow(ctx context.Context, flow string) context.Context {
	return context.WithValue(ctx, flowKey{}, flow)
}
