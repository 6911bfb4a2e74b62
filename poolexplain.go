package ratelimit

import (
	"time"

	"dappco.re/go/core/go-ratelimit/internal/explain"
)

// explainPoolsLocked adds the pools of the model, whose view is of, and the decision of their
// limits, which deny after the model for wait.
func (e *Explanation) explainPoolsLocked(rl *RateLimiter, of *view, c *cost, wait time.Duration) {
	in := rl.decidePoolsLocked(&e.Next, e.Counted, e.Model, of, c, wait, false)
	for _, p := range in {
		q, r := p.quota, view{instant: of.instant}
		rl.readLocked(p.counted, &q, true, &r)
		shown := PoolState{Pool: p.name, InFlight: r.slots.calls(), Waiting: r.slots.waiting()}
		_, origins := rl.originsRLocked(p.counted)
		shown.Limits = limitStates(&q, &r, &origins, e.At)
		if r.cool > r.wall {
			shown.CooldownUntil, shown.Cause = time.Unix(0, r.cool), Cause(r.cause)
		}
		e.Pools = append(e.Pools, shown)
	}
}

// poolFacts returns the pools as the text of an explanation has them.
func poolFacts(pools []PoolState) (facts []explain.Pool) {
	for i := range pools {
		p := &pools[i]
		f := explain.Pool{Name: p.Pool, Waiting: p.Waiting, CooldownUntil: p.CooldownUntil, Cause: string(p.Cause)}
		for j := range p.Limits {
			f.Limits = append(f.Limits, limitFacts(&p.Limits[j]))
		}
		facts = append(facts, f)
	}
	return facts
}

func limitFacts(l *LimitState) explain.Limit {
	return explain.Limit{Key: l.Limit, Max: l.Max, Used: l.Used, External: l.External, RoomAt: l.RoomAt}
}
