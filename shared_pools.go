package ratelimit

import (
	"maps"
	"slices"
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/pooling"
	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/tokens"
	"dappco.re/go/core/go-ratelimit/money"
)

// setPool plans a pool of the program. One whose quota is out of range stays with this limiter, as
// in setQuota.
func (p *plan) setPool(counted string, members *pooling.Members, quota ModelQuota) {
	if quota.validate(counted) != nil {
		p.then(func() { p.rl.setPoolLocked(counted, members, quota) })
		return
	}
	p.addNow(&sharedlog.Event{Kind: sharedlog.Pool, Model: counted, Text: state.PoolText(members.Given())})
	p.say(counted, &sharedlog.Saying{Origin: state.Program, Is: state.Quota(quota)})
}

// removePool plans to take back what the program said of a pool.
func (p *plan) removePool(counted string) {
	if _, shared := p.s.pools[counted]; !shared {
		p.then(func() { p.rl.removePoolLocked(counted) }) // it may be invalid, and so of this limiter alone
		return
	}
	if is := p.rl.pools.get(counted); is != nil && is.profile == nil {
		p.addNow(&sharedlog.Event{Kind: sharedlog.Reset, Model: counted})
	}
	p.addNow(&sharedlog.Event{Kind: sharedlog.Pool, Model: counted, Text: state.GonePoolText()})
	p.say(counted, &sharedlog.Saying{Origin: state.Program, Gone: true})
}

// joinPools plans the pools of the program that the log has otherwise.
func (p *plan) joinPools(pools map[string]Pool) {
	for _, name := range slices.Sorted(maps.Keys(pools)) {
		pool, counted := pools[name], state.PoolName(name)
		models, has := p.s.pools[counted]
		said := p.s.quotas[counted]
		if !has || !slices.Equal(models, pool.Models) || said.Only(state.Program) != state.SaidBy(state.Program, state.Quota(pool.Quota)) {
			p.setPool(counted, pooling.New(pool.Models), pool.Quota)
		}
	}
}

// decidePools takes the decisions on the pools of a model into that on the model, as decidePools…
// of the limiter do, and returns what they cost. It decides beside what is planned already, and
// reports false where only memory tells exactly, when it knows of that.
func (p *plan) decidePools(d *Decision, name, model string, of *view, c *cost, wait time.Duration, class string) (costs []modelCost, sure bool) {
	in := p.rl.poolsLocked(name, model, of.window)
	if d.Never || len(in) == 0 {
		return nil, true
	}
	p.rl.linesLocked().wakeForPoolsLocked()
	m := newInPools(d, wait)
	costs, sure = make([]modelCost, len(in)), true
	for i, is := range in {
		cost := &costs[i]
		*cost = modelCost{name: is.counted, quota: is.quota, known: true, pool: is, cost: *c}
		q, r := &cost.quota, &cost.view
		r.instant, r.class = of.instant, class
		p.rl.readToChargeLocked(is.counted, q, true, r)
		asked, others := *c, p.plannedDay(is.counted)
		if others != nil {
			asked.Requests += others.beside.cost.Requests
			asked.Count = asked.Count.Plus(others.beside.cost.Count)
			asked.Money = asked.Money.Add(others.beside.cost.Money)
		}
		if p.rl.reserves != nil {
			r.keepLocked(p.rl, q, c, class, true)
		}
		exact := r.followPlan(q, others)
		var on Decision
		wait := decide(&on, q, true, r, &asked)
		sure = sure && (others == nil || on.Allowed && exact)
		m.merge(is, &on, wait, r.slots.queues(class))
	}
	return costs, sure
}

// chargePools plans what a call charges to the pools of its model, and returns the reservation, as
// that of the limiter does.
func (p *plan) chargePools(made *Reservation, model string, c tokens.Count, most money.Amount, pools []modelCost) *Reservation {
	last := made
	for i := range pools {
		m := &pools[i]
		r := p.chargeCounted(m, m.name, c, most, nil)
		if made.home == nil {
			r.more().model = strings.Clone(model)
			p.rl.markLocked(r, m.view.class)
			made, last = r, r
			continue
		}
		last.pool, last = r, r
	}
	return made
}

// poolCosts returns what the batch costs the pools of the model of a request.
func (b *batch) poolCosts(request int) (costs []modelCost) {
	if b.pools == nil {
		return nil
	}
	for _, at := range b.pools[request] {
		costs = append(costs, b.costs[at])
	}
	return costs
}

// setPool takes over which models are in a pool.
func (f effect) setPool(e *sharedlog.Event) {
	models, gone, err := state.ParsePool(e.Text)
	if err != nil || !state.IsPool(e.Model) {
		return
	}
	if gone {
		delete(f.s.pools, e.Model)
		f.rl.leavePoolLocked(e.Model)
	} else {
		f.s.notePool(e.Model, models)
		f.rl.joinPoolLocked(e.Model, pooling.New(models))
	}
	f.rl.followQuotasLocked()
	f.s.lines.reviews++
	f.s.garbage.wanted = true // slots may be limited now
}

// notePool notes which models are in a pool by the log, with RateLimiter.mu held.
func (s *ledger) notePool(counted string, models []string) {
	if s.pools == nil {
		s.pools = make(map[string][]string)
	}
	s.pools[strings.Clone(counted)] = models
}

// loadPools takes over the pools of the log, as loadQuotas does the quotas.
func (b *rebuild) loadPools() {
	before := b.s.pools
	b.s.pools = nil
	for counted, models := range b.img.Pools {
		if state.IsPool(counted) {
			b.s.notePool(counted, models)
			b.rl.joinPoolLocked(counted, pooling.New(models))
		}
	}
	for counted := range before {
		if _, still := b.img.Pools[counted]; !still && b.s.lost == nil {
			b.rl.leavePoolLocked(counted)
		}
	}
}

// restorePools writes the pools that the log does not have.
func (b *rebuild) restorePools() {
	for _, counted := range slices.Sorted(maps.Keys(b.s.lost.pools)) {
		if _, has := b.s.pools[counted]; !has {
			models := b.s.lost.pools[counted]
			b.s.notePool(counted, models)
			b.emit(&sharedlog.Event{Kind: sharedlog.Pool, Model: counted, At: b.instant, Text: state.PoolText(models)})
		}
	}
}
