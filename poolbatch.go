package ratelimit

import (
	"slices"
	"strings"
	"time"
)

// addPools adds up the cost of requests for the pools of their models. The costs of the pools
// follow those of the models, in the order of their names.
func (b *batch) addPools(rl *RateLimiter, reqs []Request) {
	type charge struct {
		p       *pool
		request int
	}
	var charges []charge
	for i := range reqs {
		name := b.costs[b.of[i]].name
		in, ok := rl.poolsRLocked(name, reqs[i].Model, unused)
		if !ok {
			in = rl.findPoolsRLocked(name, reqs[i].Model)
		}
		for _, p := range in {
			charges = append(charges, charge{p, i})
		}
	}
	if len(charges) == 0 {
		return
	}
	slices.SortStableFunc(charges, func(a, b charge) int { return strings.Compare(a.p.counted, b.p.counted) })
	b.pools = make([][]int, len(reqs))
	for _, c := range charges {
		last := len(b.costs) - 1
		if b.costs[last].pool != c.p {
			last++
			member := b.of[c.request]
			b.costs = append(b.costs, modelCost{
				name: c.p.counted, model: b.costs[member].model, quota: c.p.quota, known: true, pool: c.p, member: member,
			})
		}
		if rl.pricing != nil {
			rl.addMostRLocked(&b.costs[last].cost, b.costs[b.of[c.request]].name, &reqs[c.request])
		}
		b.costs[last].add(&reqs[c.request])
		b.pools[c.request] = append(b.pools[c.request], last)
	}
}

// models returns how many of the costs are those of models.
func (b *batch) models() int {
	n := len(b.costs)
	for n > 0 && b.costs[n-1].pool != nil {
		n--
	}
	return n
}

// poolsOf returns the pools of the model of a request.
func (b *batch) poolsOf(request int) (in []*pool) {
	if b.pools == nil {
		return nil
	}
	for _, cost := range b.pools[request] {
		in = append(in, b.costs[cost].pool)
	}
	return in
}

// mergePool takes the decision on one pool into the one on all. The pools come after the models.
func (b *batch) mergePool(m *modelCost, d *Decision, wait time.Duration) {
	if b.Never {
		return
	}
	allowed := b.Allowed
	in := inPools{d: &b.Decision, wait: b.wait, event: b.event, cools: b.Code == DecisionCooldown && b.models() == 1}
	in.merge(m.pool, d, wait, false)
	if b.wait, b.event = in.wait, in.event; b.Never {
		b.wait = 0
	}
	if allowed && !b.Allowed {
		b.blame(m)
	}
}

// blame names the model that is denied because of a pool.
func (b *batch) blame(m *modelCost) {
	b.Model, b.Stats = m.model, ModelStats{}
	of := &b.costs[m.member]
	of.view.modelStats(&b.Stats, &of.quota)
}

// queueForPool denies the requests because others wait in the line of a pool, unless a model or
// another pool denies them.
func (b *batch) queueForPool(m *modelCost) {
	if b.Never || !b.Allowed && b.Pool != m.pool.name {
		return
	}
	b.queue()
	b.Reason = m.pool.says(&b.Decision)
	b.Pool = m.pool.name
	b.blame(m)
}

// cachePoolsLocked notes the pools of the models of requests, which addPools looks up.
func (rl *RateLimiter) cachePoolsLocked(reqs []Request) {
	var q ModelQuota
	for i := range reqs {
		name, _ := rl.findRLocked(reqs[i].Model, &q)
		rl.poolsLocked(name, reqs[i].Model, unused)
	}
}
