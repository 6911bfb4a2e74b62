package ratelimit

import (
	"cmp"
	"context"
	"fmt"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

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
	// the weights. While others wait, every tenth service is theirs.
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
