package ratelimit

import (
	"time"

	"dappco.re/go/core/go-ratelimit/internal/explain"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// ExplainPool returns the state of a pool: its limits with what is used of them, its budgets, the
// calls in flight and those that wait. It charges nothing, and costs as much as Explain. With
// Config.Shared it tells of all processes. It is safe for concurrent use.
func (rl *RateLimiter) ExplainPool(name string) (is PoolState, ok bool) {
	rl.ledger.fresh()
	rl.mu.Lock()
	defer rl.mu.Unlock()
	if p := rl.pools.get(state.PoolName(name)); p != nil && p.isPool() {
		return p.stateLocked(rl, rl.clock.Sync()), true
	}
	return PoolState{}, false
}

// stateLocked returns the state of the pool at an instant.
func (p *pool) stateLocked(rl *RateLimiter, instant int64) PoolState {
	q, r := p.quota, view{instant: instant}
	rl.readLocked(p.counted, &q, true, &r)
	_, origins := rl.originsRLocked(p.counted)
	is := PoolState{
		Pool: p.name, Limits: limitStates(&q, &r, &origins, rl.clock.At(instant).Round(0)), Budgets: r.budgets(&q), Found: r.foundLimits(),
		InFlight: r.slots.calls(), Waiting: r.slots.waiting(), WaitingByClass: r.slots.waitingByClassRLocked(),
	}
	if r.cool > r.wall {
		is.CooldownUntil, is.Cause = time.Unix(0, r.cool), Cause(r.cause)
	}
	return is
}

// explainPoolsLocked adds the pools of the model, whose view is of, and the decision of their
// limits, which deny after the model for wait.
func (e *Explanation) explainPoolsLocked(rl *RateLimiter, of *view, c *cost, wait time.Duration) {
	for _, p := range rl.decidePoolsLocked(&e.Next, e.Counted, e.Model, of, c, wait, false) {
		e.Pools = append(e.Pools, p.stateLocked(rl, of.instant))
	}
}

// waitingByClassRLocked returns how many wait of each class; nil for none. Nil slots have none.
func (g *slots) waitingByClassRLocked() map[string]int {
	if g.waiting() == 0 || len(g.home.classes) == 0 {
		return nil
	}
	return g.line.ByClass()
}

// useFacts returns the state of a pool, or that of a model, as the text of an explanation has it.
func useFacts(is *PoolState) (f explain.Use) {
	f.InFlight, f.Waiting, f.WaitingByClass = is.InFlight, is.Waiting, is.WaitingByClass
	f.CooldownUntil, f.Cause = is.CooldownUntil, string(is.Cause)
	for _, l := range is.Limits {
		f.Limits = append(f.Limits, explain.Limit{Key: l.Limit, Max: l.Max, Used: l.Used, External: l.External, RoomAt: l.RoomAt})
	}
	for _, b := range is.Budgets {
		f.Budgets = append(f.Budgets, explain.Budget{Month: b.Limit == state.Spends[1].Key, Max: b.Max, Spent: b.Spent, Until: b.Until})
	}
	if l := is.Found; l != nil {
		f.Found = &explain.Found{
			Rate:  explain.Search{Level: l.RPM, Floor: l.FloorRPM, Ceiling: l.CeilingRPM, RefusedAt: l.RefusedRPM, LoweredAt: l.RateLoweredAt},
			Slots: explain.Search{Level: l.InFlight, Floor: l.FloorInFlight, Ceiling: l.CeilingInFlight, RefusedAt: l.OverloadedInFlight, LoweredAt: l.InFlightLoweredAt},
			Told:  l.Told,
		}
	}
	return f
}
