package ratelimit

import (
	"context"
	"slices"
	"strconv"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/errtext"
	"dappco.re/go/core/go-ratelimit/internal/sharedlog/combine"
	"dappco.re/go/core/go-ratelimit/internal/tokens"
)

// ReserveAll is Reserve for several requests, which may name a model more than once: all of them
// are charged, or none. In a denial, Model is the model that denied, and RetryAfter is when all
// pass. Without requests it succeeds.
//
// It is safe for concurrent use.
func (rl *RateLimiter) ReserveAll(reqs ...Request) (Reservations, Decision) {
	by := caller{ctx: background}
	rl.askFor(&by, background, reqs)
	return rl.reserveAll(&by, reqs)
}

func (rl *RateLimiter) reserveAll(by *caller, reqs []Request) (Reservations, Decision) {
	if by.class != "" {
		reqs = by.named(reqs)
	}
	var b *batch
	var reservations Reservations
	if rl.ledger != nil {
		class := by.class // so that by stays off the heap
		rl.ledger.do(background, combine.Reserving, func(p *plan) { reservations, b = p.reserveAll(reqs, class) })
	}
	rl.mu.Lock()
	if b == nil {
		if b = rl.decideAllLocked(reqs, by.class); b.Allowed {
			reservations = rl.chargeAllLocked(reqs, b)
			rl.linesLocked().passedLocked(by.class, reservations...)
		}
	}
	e := rl.reservedLocked(by, reservations, &b.Decision, reqs)
	rl.mu.Unlock()
	rl.teller.tell(e)
	reservations.watch()
	return reservations, b.Decision
}

// decideAllLocked decides on requests that are to pass together, behind those that wait.
func (rl *RateLimiter) decideAllLocked(reqs []Request, class string) *batch {
	rl.linesLocked().wakeForPoolsLocked()
	b := rl.decideBatchLocked(reqs)
	b.queuedLocked(class)
	return b
}

// Reservations are reservations that were made together, in the order of the requests; nil when
// they were denied.
type Reservations []*Reservation

// Cancel cancels all unsettled reservations in one step. It is safe for concurrent use.
func (rs Reservations) Cancel() {
	var limiters []*RateLimiter // one, unless the program has put the reservations of several together
	for _, r := range rs {
		if r != nil && r.home != nil && !slices.Contains(limiters, r.home) {
			limiters = append(limiters, r.home)
		}
	}
	for _, rl := range limiters {
		if rl.ledger.update(combine.Appended, func(p *plan) { p.cancelAll(rs) }) {
			rl.teller.tellEnded(rs...)
			continue
		}
		rl.mu.Lock()
		rs.cancelLocked(rl)
		e := rl.teller.releasedLocked(rs)
		rl.mu.Unlock()
		rl.teller.tell(e)
	}
}

// cancelLocked cancels the reservations that are of a limiter.
func (rs Reservations) cancelLocked(rl *RateLimiter) {
	for _, r := range rs {
		if r != nil && r.home == rl {
			r.cancelLocked()
		}
	}
}

func (rs Reservations) watch() {
	for _, r := range rs {
		r.watch()
	}
}

// batch is the combined cost of several requests, by model, and the decision on it.
type batch struct {
	Decision
	wait  time.Duration // how long the limits deny that end with time
	own   time.Duration // of that, those of the models alone
	event bool          // some of them are denied until something ends that no time tells
	costs []modelCost
	of    []int   // which of the costs each request belongs to
	pools [][]int // which of the costs are its pools'; nil where no model is in any

	newcomers int   // how many of the models need a place for their state,
	lacking   int   // for how many of them there is none,
	placeAt   int64 // and the instant at which there will be; never where time does not tell
}

// modelCost is the cost of a batch for one model.
type modelCost struct {
	name  string // under which the model is counted
	model string // as the first request calls it
	quota ModelQuota
	known bool
	cost  cost
	view  view

	unlisted bool          // it has no quota of its own, and is limited
	pool     *pool         // whose cost it is; nil for a model's
	member   int           // for a pool: the cost of the first model in it
	code     DecisionCode  // the decision on it alone,
	wait     time.Duration // and how long the limits deny that end with time
}

// decideBatchLocked decides on requests that are to pass together, as of now and as if there were
// no waiters.
func (rl *RateLimiter) decideBatchLocked(reqs []Request) *batch {
	if rl.pools.count > 0 {
		rl.cachePoolsLocked(reqs)
	}
	b := rl.costsRLocked(reqs)
	b.Allowed, b.Code, b.Reason = true, DecisionAllowed, "within the quota"
	instant, class := rl.clock.Sync(), ""
	if rl.classes != nil {
		class = classNamed(reqs)
	}
	for i := range b.costs {
		m := &b.costs[i]
		m.view.instant, m.view.class = instant, class
		rl.checkAgeRLocked(m.name)
		rl.readToChargeLocked(m.name, &m.quota, m.known, &m.view)
	}
	b.placeLocked(rl, instant)
	for i := range b.costs {
		m := &b.costs[i]
		d := Decision{Model: m.model}
		if rl.reserves != nil {
			m.view.keepLocked(rl, &m.quota, &m.cost, class, true)
		}
		wait := decide(&d, &m.quota, m.known, &m.view, &m.cost)
		m.code, m.wait = d.Code, wait
		if m.pool != nil {
			b.mergePool(m, &d, wait)
			continue
		}
		m.view.modelStats(&d.Stats, &m.quota)
		if !m.known {
			rl.judgeUnknownRLocked(&d, m.model)
			m.code = d.Code
		}
		b.merge(&d, wait)
	}
	b.boundLocked(rl.mostModels())
	if len(reqs) == 1 && b.Allowed {
		b.Model = reqs[0].Model
	}
	if rl.ledger.overrule(&b.Decision); b.Code == DecisionStoreError || b.Code == DecisionClosed {
		b.wait, b.own, b.event = 0, 0, true
	}
	return b
}

// placeLocked works out for which of the new models there is a place. Each was read as if it were
// the only one.
func (b *batch) placeLocked(rl *RateLimiter, instant int64) {
	b.placeAt = never
	for i := range b.costs {
		m := &b.costs[i]
		if m.unlisted = m.known && !m.quota.unlimited() && !rl.isListedRLocked(m.name); m.unlisted && m.view.window == unused {
			b.newcomers++
		}
	}
	if b.newcomers == 0 {
		return
	}
	free := rl.unlistedLocked().placesLocked(b.newcomers, b.costs, instant)
	if b.lacking = b.newcomers - free; b.lacking > 0 {
		b.placeAt = rl.unlistedLocked().placeAtLocked(b.lacking, b.costs, instant)
	}
	for i := range b.costs {
		if m := &b.costs[i]; m.unlisted && m.view.window == unused {
			m.view.full, m.view.freeAt = free <= 0, b.placeAt
			free--
		}
	}
}

// boundLocked refuses more models than ever find a place together.
func (b *batch) boundLocked(most int) {
	if b.Never {
		return
	}
	for i := range b.costs {
		m := &b.costs[i]
		if !m.unlisted {
			continue
		}
		if most--; most < 0 {
			d := Decision{Code: DecisionTooManyModels, Reason: tooManyNewModels, Never: true, Model: m.model}
			m.view.modelStats(&d.Stats, &m.quota)
			b.merge(&d, 0)
			return
		}
	}
}

// costsRLocked adds up the cost of requests for each model.
func (rl *RateLimiter) costsRLocked(reqs []Request) *batch {
	b := &batch{of: make([]int, len(reqs))}
	for i := range reqs {
		b.of[i] = b.add(rl, &reqs[i])
	}
	if rl.pools.count > 0 {
		b.addPools(rl, reqs)
	}
	return b
}

// add counts a request to the cost of its model.
func (b *batch) add(rl *RateLimiter, req *Request) int {
	var q ModelQuota
	name, known := rl.findRLocked(req.Model, &q)
	i := 0
	for i < len(b.costs) && b.costs[i].name != name {
		i++
	}
	if i == len(b.costs) {
		b.costs = append(b.costs, modelCost{name: name, model: req.Model, quota: q, known: known})
	}
	if rl.pricing != nil {
		rl.addMostRLocked(&b.costs[i].cost, name, req)
	}
	b.costs[i].add(req)
	return i
}

// add counts a request to a cost.
func (m *modelCost) add(req *Request) {
	c := &m.cost
	if c.Requests++; min(req.PromptTokens, req.OutputTokens) < 0 {
		c.Count = tokens.Count{Input: -1, Output: -1}
	} else if c.Input >= 0 {
		c.Count = c.Plus(tokens.Count{Input: req.PromptTokens, Output: req.OutputTokens})
	}
}

// merge takes the decision on one model into the one on all. The first that denies names it, or
// the first that will never pass; the longest wait counts.
func (b *batch) merge(d *Decision, wait time.Duration) {
	if b.Never {
		return
	}
	isLonger := wait > b.wait
	b.wait = max(b.wait, wait)
	b.own = b.wait
	b.event = b.event || d.awaitsEvent()
	overBudget := b.OverBudget || d.OverBudget
	switch {
	case d.Never:
		b.wait = 0
		b.Decision = *d
	case b.Allowed && !d.Allowed:
		b.Decision = *d
	case b.Allowed && b.models() == 1:
		b.Decision = *d
		b.Model = ""
	case isLonger && !d.Allowed:
		b.Reason = errtext.Longest(b.Reason, "model "+strconv.Quote(errtext.Clip(d.Model))+": ", d.Reason)
	}
	b.OverBudget = overBudget
	if b.RetryAfter = b.wait; b.event {
		b.RetryAfter = 0
	}
}

// awaitsEvent reports whether no time says when a request passes.
func (d *Decision) awaitsEvent() bool {
	return (d.Code == DecisionInFlightLimit || d.Code == DecisionTooManyModels) && !d.Never && d.RetryAfter == 0
}

// queuedLocked denies the requests of a class where others wait that go before it.
func (b *batch) queuedLocked(class string) (queued bool) {
	for i := range b.costs {
		m := &b.costs[i]
		if !m.view.slots.queues(class) {
			continue
		}
		if m.pool != nil {
			b.queueForPool(m)
			return true
		}
		if b.queue(); !b.Never {
			b.Model, b.Stats = m.model, ModelStats{}
			m.view.modelStats(&b.Stats, &m.quota)
		}
		return true
	}
	return false
}

// chargeAllLocked makes the reservations of requests that pass.
func (rl *RateLimiter) chargeAllLocked(reqs []Request, b *batch) Reservations {
	rs := make(Reservations, len(reqs))
	charge := func(i int) {
		m, req := &b.costs[b.of[i]], &reqs[i]
		c, in := tokens.Count{Input: req.PromptTokens, Output: req.OutputTokens}, b.poolsOf(i)
		most := rl.mostOfRLocked(m.name, req)
		made := rl.chargeLocked(req.Model, m.name, &m.quota, &m.view, c, rl.watches(&m.quota) || anyLimitsSlots(in))
		rs[i] = rl.madeLocked(made, &m.quota, most, m.view.instant)
		if in != nil {
			rs[i] = rl.chargePoolsLocked(rs[i], req.Model, in, &m.view, c, most)
		}
	}
	// Those with state first, so that it is not idle when another needs a place.
	for i := range reqs {
		if b.costs[b.of[i]].view.window != unused {
			charge(i)
		}
	}
	for i := range reqs {
		if rs[i] == nil {
			charge(i)
		}
	}
	return rs
}

// ReserveContext is ReserveAll with the context that the events of the reservations get, those of
// their settlement included: see Config.Events. It does not wait, and succeeds also when ctx has
// ended. One request costs as much time as Reserve.
//
// It is safe for concurrent use.
func (rl *RateLimiter) ReserveContext(ctx context.Context, reqs ...Request) (rs Reservations, d Decision) {
	// It is short enough to be inlined, so that one reservation in rs takes no memory of its own.
	if one := rl.reserveContext(ctx, reqs, &rs, &d); one != nil {
		rs = Reservations{one}
	}
	return
}

// reserveContext is ReserveContext. It returns the reservation of a single request, and sets rs for
// more.
func (rl *RateLimiter) reserveContext(ctx context.Context, reqs []Request, rs *Reservations, d *Decision) *Reservation {
	by := callerOf(ctx)
	rl.askFor(&by, ctx, reqs)
	if len(reqs) == 1 {
		c := reqs[0].cost()
		made, _ := rl.reserveOne(background, &by, d, reqs[0].Model, &c)
		return made
	}
	*rs, *d = rl.reserveAll(&by, slices.Clone(reqs)) // which keeps them on the heap
	return nil
}
