package ratelimit

import (
	"container/list"
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/tokens"
	"dappco.re/go/core/go-ratelimit/money"
)

// record plans a charge without a settlement.
func (p *plan) record(model string, used tokens.Count, bill money.Usage) (cost money.Amount) {
	name := p.rl.nameRLocked(model)
	p.rl.meetIfUnknownRLocked(model, name)
	p.rl.checkAgeRLocked(name)
	if p.rl.pricing != nil {
		cost = p.recordSpend(name, model, bill)
	}
	p.recordCounted(name, used, cost)
	if p.rl.pools.count > 0 {
		for _, of := range p.rl.poolsLocked(name, model, unused) {
			p.spendMore(of.counted, cost)
			p.recordCounted(of.counted, used, cost)
		}
	}
	return cost
}

// recordCounted is record for what is counted under a name.
func (p *plan) recordCounted(name string, used tokens.Count, cost money.Amount) {
	instant := p.instant
	p.then(func() { p.rl.auditLocked(name).Recorded.Add(used, cost) })
	if !p.hasPlace(name, nil, instant) {
		return
	}
	used = used.Clamp()
	day := p.day(name, instant)
	p.findBeside(day, p.rl.found[name], instant)
	day.chargeDay(p.rl.clock.At(instant), 1, used.Total())
	p.addNow(&sharedlog.Event{Kind: sharedlog.Use, Model: name, Requests: 1, Count: used})
	p.setDay(day)
	day.beside.charge(used)
}

// reserve decides on a request, and plans its reservation if it passes.
func (p *plan) reserve(d *Decision, model string, c *cost, class string) *Reservation {
	var r view
	var q ModelQuota
	name, known := p.rl.findRLocked(model, &q)
	r.instant = p.rl.clock.Sync()
	p.rl.checkAgeRLocked(name)
	p.rl.readToChargeLocked(name, &q, known, &r)
	*d = Decision{Model: model}
	r.modelStats(&d.Stats, &q)
	if p.rl.pricing != nil {
		p.rl.mostRLocked(c, name, model)
	}
	asked, others := *c, p.plannedDay(name)
	if others != nil && c.Input >= 0 && c.Output >= 0 {
		asked.Money = asked.Money.Add(others.beside.cost.Money)
		asked.Requests += others.beside.cost.Requests
		asked.Count = asked.Count.Plus(others.beside.cost.Count)
	}
	r.class = class
	if p.rl.reserves != nil {
		r.keepLocked(p.rl, &q, c, class, true)
	}
	exact, certain := r.followPlan(&q, others), true
	wait := decide(d, &q, known, &r, &asked)
	if !known {
		p.rl.judgeUnknownRLocked(d, model)
	}
	var pools []modelCost
	if p.rl.pools.count > 0 {
		var sure bool
		pools, sure = p.decidePools(d, name, model, &r, c, wait, class)
		exact, certain = exact && sure, certain && sure
	}
	if r.slots.queues(class) {
		d.queue()
	}
	p.s.overrule(d)
	switch {
	case p.rl.State[name] == nil && len(p.places) > 0 && !p.places[name], (!d.Allowed || !exact) && others != nil, !certain:
		p.later = true // memory tells exactly when it knows of the others
		return nil
	case !d.Allowed:
		return nil
	}
	m := modelCost{name: name, model: model, quota: q, cost: *c, view: r}
	if len(p.rl.classes) > 0 && !p.passes(class, append(pools, m)) {
		p.later = true // the line is known when the plan before it was carried out
		return nil
	}
	if others != nil {
		others.show(&d.Stats)
	}
	return p.charge(&m, model, c.Count, c.Money, nil, pools)
}

// charge plans a reservation for requests that pass. m is what they cost their model, beside are
// the models that they are charged to, and pools are the pools of the model. most is what the call
// can cost.
func (p *plan) charge(m *modelCost, model string, c tokens.Count, most money.Amount, beside, pools []modelCost) *Reservation {
	made := p.chargeCounted(m, model, c, most, beside)
	if len(pools) > 0 {
		made = p.chargePools(made, model, c, most, pools)
	}
	if made.home != nil {
		p.made = append(p.made, made)
	}
	return made
}

// chargeCounted is charge for what is counted under one name.
func (p *plan) chargeCounted(m *modelCost, model string, c tokens.Count, most money.Amount, beside []modelCost) *Reservation {
	made := p.rl.unused.newLocked(true, false)
	made.estimate = c.Clamp()
	name, instant := m.name, m.view.instant
	if !p.hasPlace(name, beside, instant) {
		made.more().model = strings.Clone(model)
		return made
	}
	if model != name {
		made.more().model = model
	}
	day := p.day(name, instant)
	p.findBeside(day, m.view.found, instant)
	day.chargeDay(p.rl.clock.At(instant), 1, made.estimate.Total())
	e := p.add(&sharedlog.Event{Kind: sharedlog.Reserve, Model: name, At: instant, Requests: 1, Count: made.estimate})
	if class := p.rl.knownClassRLocked(m.view.class); class != "" {
		if m.pool == nil {
			p.rl.markLocked(made, class)
		}
		e.Text = p.rl.reservedClassRLocked(class)
	}
	p.setDay(day)
	day.beside.charge(made.estimate)
	day.beside.slots++
	made.home = p.rl
	p.s.own.reservations[e.N] = made
	p.spendMost(made, name, most)
	return made
}

// chargeAll plans the reservations of requests that pass together.
func (p *plan) chargeAll(reqs []Request, b *batch) Reservations {
	rs := make(Reservations, len(reqs))
	for i := range reqs {
		req := &reqs[i]
		c := tokens.Count{Input: req.PromptTokens, Output: req.OutputTokens}
		most := p.rl.mostOfRLocked(b.costs[b.of[i]].name, req)
		rs[i] = p.charge(&b.costs[b.of[i]], req.Model, c, most, b.costs, b.poolCosts(i))
	}
	return rs
}

// reserveAll decides on requests that are to pass together, and plans their reservations.
func (p *plan) reserveAll(reqs []Request, class string) (Reservations, *batch) {
	b := p.rl.decideAllLocked(reqs, class)
	if !b.Allowed {
		return nil, b
	}
	if !p.passes(class, b.costs) {
		p.later = true
		return nil, b
	}
	return p.chargeAll(reqs, b), b
}

// settles notes that the plan settles a reservation, and how, and reports whether it does: not
// where the reservation is settled already, by this plan or before.
func (p *plan) settles(r *Reservation, end EventKind, used tokens.Count) bool {
	if r == nil || r.home == nil || r.settled || r.more().plan == p.serial {
		return false
	}
	r.extra.plan = p.serial
	p.ends = append(p.ends, ending{end, used})
	p.settled = append(p.settled, r) // so that it is not garbage-collected before the event is applied
	if end == EventSettled {
		r.slots().settledLocked(r.estimate, used)
	}
	p.respend(r, end)
	if r.call != nil {
		r.call.end, r.call.used, r.call.unattended = end, used, end == EventExpired
	}
	return true
}

// cancel plans to take the charge of a reservation back.
func (p *plan) cancel(r *Reservation) {
	for ; r != nil; r = r.pool {
		p.cancelCounted(r)
	}
}

// cancelCounted is cancel for what is counted under one name.
func (p *plan) cancelCounted(r *Reservation) {
	if !p.settles(r, EventReleased, tokens.Count{}) {
		return
	}
	name, instant := r.slots().name, p.instant
	p.addNow(&sharedlog.Event{Kind: sharedlog.Cancel, Ref: r.entry(), Model: name})
	if p.rl.statsRLocked(name) == nil {
		return
	}
	day := p.day(name, instant)
	w, request, token := r.findLocked()
	if (w == r.window || request >= 0 || token >= 0) && w.inDay(r) {
		day.setDay(max(day.dayCount()-1, 0), w.restOfDay(day.dayTokens(), r, tokens.Count{}))
	}
	p.setDay(day)
	if request >= 0 {
		day.beside.change(-1, tokens.Count{}, r.estimate)
	}
	p.shut(r)
}

// shut notes that a reservation is open no more, for what is decided beside that.
func (p *plan) shut(r *Reservation) {
	if p.s.remote != nil && !r.isSlotless() {
		p.day(r.slots().name, p.instant).beside.slots--
	}
}

// cancelAll is cancel for the reservations of rs that are of this limiter.
func (p *plan) cancelAll(rs Reservations) {
	for _, r := range rs {
		if r != nil && r.home == p.rl {
			p.cancel(r)
		}
	}
}

// settleExpired plans to settle the reservations that have expired, and sleeps until the next
// one does.
func (p *plan) settleExpired() {
	rl, expiry := p.rl, &p.rl.expiry
	p.then(func() { expiry.restLocked(rl) })
	var next *list.Element
	for e := expiry.open.Front(); e != nil; e = next {
		next = e.Next()
		x := e.Value.(expiring)
		if x.since+int64(expiry.ttl) > p.instant {
			return
		}
		if r := x.reservation.Value(); r != nil {
			p.commit(r, EventExpired, r.estimate)
		} else {
			expiry.open.Remove(e) // abandon is about to settle it
		}
	}
}

// commit plans to replace the estimate of a reservation by the real usage. end is what
// Config.Events is told of it.
func (p *plan) commit(r *Reservation, end EventKind, used tokens.Count) {
	for ; r != nil; r = r.pool {
		p.commitCounted(r, end, used)
	}
}

// commitCounted is commit for what is counted under one name.
func (p *plan) commitCounted(r *Reservation, end EventKind, used tokens.Count) {
	if !p.settles(r, end, used) {
		return
	}
	if used == r.estimate {
		p.addNow(&sharedlog.Event{Kind: sharedlog.Release, Ref: r.entry(), Model: r.slots().name})
		p.shut(r)
		return
	}
	name, instant := r.slots().name, p.instant
	excess := used.Over(r.estimate)
	exceeds := excess != (tokens.Count{})
	left := exceeds && instant-r.instant > p.rl.span()
	p.rl.existingWindowLocked(name, instant)
	w, token := r.currentWindowLocked(), -1
	if w != nil {
		token = w.tokensOf(r)
	}
	known := w != nil && (w == r.window || token >= 0)
	var day *plannedDay
	if p.rl.statsRLocked(name) != nil || left && p.hasPlace(name, nil, instant) {
		day = p.day(name, instant)
		if left && token < 0 {
			// No charge is found to be amended, so what came on top is an event of its own.
			p.addNow(&sharedlog.Event{Kind: sharedlog.Use, Ref: r.entry(), Model: name, Count: excess.Clamp()})
			day.beside.change(0, excess, tokens.Count{})
		}
		if token >= 0 {
			day.beside.change(0, used, r.estimate)
		}
		day.beside.cost.Count = day.beside.cost.Count.Plus(excess)
		switch {
		case known && w.inDay(r):
			day.setDay(day.dayCount(), tokens.AddSaturated(w.restOfDay(day.dayTokens(), r, used), used.Total()))
		case exceeds && (known || left):
			day.chargeDay(p.rl.clock.At(instant), 0, excess.Total())
		}
	}
	p.addNow(&sharedlog.Event{Kind: sharedlog.Amend, Ref: r.entry(), Model: name, Count: used.Clamp()})
	if day != nil {
		p.setDay(day)
	}
	p.shut(r)
}

// arrive plans to move the charge of a reservation to a later time.
func (p *plan) arrive(r *Reservation, at time.Time) {
	for ; r != nil; r = r.pool {
		p.arriveCounted(r, at)
	}
}

// arriveCounted is arrive for what is counted under one name.
func (p *plan) arriveCounted(r *Reservation, at time.Time) {
	rl, instant, was := p.rl, p.instant, r.instant
	now := rl.clock.At(instant)
	age := max(int64(now.Sub(rl.clock.Own(at))), 0)
	arrived := instant - age
	if r.settled || arrived <= was {
		return
	}
	name := r.slots().name
	rl.existingWindowLocked(name, instant)
	w, request, token := r.findLocked()
	if left := instant-was > rl.span(); request < 0 && token < 0 && !left {
		return // forgotten
	}
	if w == nil && !p.hasPlace(name, nil, instant) {
		return
	}
	sameDay := w != nil && (w == r.window || request >= 0 || token >= 0) && w.inDay(r)
	day := p.day(name, instant)
	wall, over := rl.clock.UnixNano(arrived), false
	switch {
	case sameDay:
	case wall >= r.slots().dayEnded && (day.period.Location == nil || wall >= day.period.Begin || day.dayCount() == 0 && day.dayTokens() == 0):
		day.chargeDay(rl.clock.At(arrived), 1, r.estimate.Total())
		day.rollDay(now) // the day that this began may be over, too
	default:
		over = true
	}
	p.add(&sharedlog.Event{
		Kind: sharedlog.Move, Ref: r.entry(), Model: name, At: arrived, Age: age, Requests: 1, Count: r.estimate,
	})
	p.setDay(day)
	p.s.own.reservations[r.entry()] = r
	p.then(func() {
		r.more().delay += arrived - was
		if over && r.window != nil {
			r.days = r.window.days - 1 // a day that is over
		}
	})
}

// cool plans a cooldown.
func (p *plan) cool(model string, c state.Cooldown) {
	rl := p.rl
	now := rl.clock.At(p.instant)
	name := rl.nameRLocked(model)
	c.Until = rl.clock.Own(c.Until)
	// A longer one may have ended in a remote log.
	longer := p.s.remote != nil && !rl.cooldowns.Rises(name, c.Until, now) && c.Until.After(now)
	if longer || rl.takesCooldownLocked(name, c.Until, now) {
		p.addNow(sharedlog.CooldownOf(name, c, p.instant))
		was := rl.cooldowns[name].Until
		p.then(func() {
			if is := rl.cooldowns[name].Until; is.Equal(c.Until) && !is.Equal(was) {
				rl.teller.cooledLocked(name, model, c)
			}
		})
	}
}

// reset plans to forget the usage of a model; of all models where it is empty.
func (p *plan) reset(model string) {
	if model != "" {
		model = p.rl.nameRLocked(model)
	}
	p.addNow(&sharedlog.Event{Kind: sharedlog.Reset, Model: model})
}
