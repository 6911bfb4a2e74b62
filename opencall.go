package ratelimit

import (
	"context"
	"slices"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/chain"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/tokens"
	"dappco.re/go/core/go-ratelimit/money"
)

// openCall is what the events of a reservation need, from its admission to its end. It does not
// keep the reservation from being garbage-collected. Only limiters with Config.Events have any.
type openCall struct {
	ctx       context.Context
	id        uint64
	slots     *slots
	requested string
	class     string // Event.Class
	estimate  tokens.Count
	most      money.Amount // that it can cost
	since     int64        // the instant of the admission

	// How it ends, once a plan of a ledger says so:
	end        EventKind
	used       tokens.Count
	unattended bool // no method of the program ended it
	ended      bool // the plan was carried out

	inLimiter, inModel chain.Links[openCall]
	reuse              *openCall // the next in openCalls.unused
}

// openCalls is the open calls of a limiter in the order of their admission.
type openCalls struct {
	calls  chain.Chain[openCall]
	unused *openCall // ended ones, for reuse
}

func (c *openCall) ofLimiter() *chain.Links[openCall] { return &c.inLimiter }
func (c *openCall) ofModel() *chain.Links[openCall]   { return &c.inModel }

func (o *openCalls) add() *openCall {
	c := o.unused
	if c == nil {
		c = new(openCall)
	} else {
		o.unused, c.reuse = c.reuse, nil
	}
	o.calls.Add(c, (*openCall).ofLimiter)
	return c
}

func (o *openCalls) remove(c *openCall) {
	o.calls.Remove(c, (*openCall).ofLimiter)
	c.slots.open.Remove(c, (*openCall).ofModel)
	*c = openCall{reuse: o.unused}
	o.unused = c
}

// oldestRLocked returns when the oldest open call of a model was admitted, if that is known.
func (t *teller) oldestRLocked(g *slots) (since int64, ok bool) {
	if t == nil || g == nil || g.open.First() == nil {
		return 0, false
	}
	return g.open.First().since, true
}

// admittedLocked opens the call of a reservation, and returns the event that tells of it. It
// returns nil for a reservation that was not counted, and for one that has ended already.
func (t *teller) admittedLocked(by *caller, r *Reservation) *telling {
	if r == nil || r.home == nil || r.settled {
		return nil
	}
	e := by.makeLocked(t, EventAdmitted)
	if e == nil {
		return nil
	}
	c := t.open.add()
	c.ctx, c.id, c.slots, c.estimate, c.since = by.ctx, by.number(), r.slots(), r.estimate, r.instant
	c.slots.open.Add(c, (*openCall).ofModel)
	c.requested, c.class = r.slots().name, e.Class
	c.most = r.costOf(EventAdmitted)
	if r.extra != nil {
		c.since -= r.extra.delay
		if r.extra.model != "" {
			c.requested = r.extra.model
		}
	}
	t.fill(e, c)
	e.Wait, e.Cost = by.waited, c.most
	if by.why != nil {
		e.decided(by.why)
	}
	if !t.outlet.IsOpen() { // since the call stood in line
		return e.then(t.endLocked(by, c, EventReleased, c.estimate, c.most))
	}
	r.call = c
	return e
}

// fill fills in what all events of an open call say.
func (t *teller) fill(e *telling, c *openCall) {
	e.ID, e.Model, e.Requested, e.Provider = c.id, c.slots.name, c.requested, t.providerLocked(c.slots)
	e.Estimated, e.Class = usageOf(c.estimate), c.class
	if state.IsPool(e.Model) { // its model has no place
		e.Model = t.rl.nameRLocked(c.requested)
		e.Provider = t.rl.providerOfRLocked(e.Model)
	}
}

// providerLocked returns the provider of a model, which its slots remember.
func (t *teller) providerLocked(g *slots) Provider {
	if !g.isProvidedRLocked() {
		g.provider, g.providedAt = t.rl.providerOfRLocked(g.name), t.rl.quotaVersion+1
	}
	return g.provider
}

// isProvidedRLocked reports whether the slots remember the provider as it is now.
func (g *slots) isProvidedRLocked() bool { return g.providedAt == g.home.quotaVersion+1 }

// endedLocked closes the call of a reservation that was settled, and returns the event.
func (t *teller) endedLocked(r *Reservation, kind EventKind, used tokens.Count) *telling {
	if t == nil || r.call == nil {
		return nil
	}
	c := r.call
	r.call = nil
	if c.slots == nil {
		return nil // Close has told of it
	}
	return t.endLocked(&caller{ctx: c.ctx}, c, kind, used, r.costOf(kind))
}

func (t *teller) endLocked(by *caller, c *openCall, kind EventKind, used tokens.Count, cost money.Amount) *telling {
	e := by.makeLocked(t, kind)
	if e != nil {
		t.fill(e, c)
		e.Cost = cost
		e.Settled, e.Held = usageOf(used), time.Duration(max(t.rl.clock.Now()-c.since, 0))
	}
	t.open.remove(c)
	return e
}

// endPlannedLocked notes that a plan which ends reservations was carried out. Those that no method
// of the program ended are told of here.
func (t *teller) endPlannedLocked(settled []*Reservation) {
	if t == nil {
		return
	}
	if t.methods.Load() == 0 { // nobody else will tell what came with the step
		for _, e := range t.pending {
			t.postBegun(e)
		}
		t.pending = nil
	}
	for _, r := range settled {
		if c := r.call; c != nil && c.end != "" {
			if c.ended = true; c.unattended {
				t.postRLocked(t.endedLocked(r, c.end, c.used))
			}
		}
	}
}

// tellEnded tells of reservations that a plan has ended.
func (t *teller) tellEnded(rs ...*Reservation) {
	if t == nil {
		return
	}
	var e *telling
	t.rl.mu.Lock()
	for _, r := range slices.Backward(rs) {
		if r == nil || r.home != t.rl {
			continue
		}
		if c := r.call; c != nil && c.ended {
			e = t.endedLocked(r, c.end, c.used).then(e)
		}
	}
	t.rl.mu.Unlock()
	t.tell(e)
}

// reservedLocked returns the event of a request that was decided on: nil for a denial that is no
// refusal yet.
func (t *teller) reservedLocked(by *caller, made *Reservation, d *Decision, c *cost) *telling {
	switch {
	case t == nil:
		return nil
	case made != nil:
		return t.admittedLocked(by, made)
	case by.tentative || d.Allowed:
		return nil
	}
	return t.toldRefusedLocked(by, d, d.Model, c.Count, nil)
}

// toldRefusedLocked returns the event of a refusal. d may be nil.
func (t *teller) toldRefusedLocked(by *caller, d *Decision, model string, estimate tokens.Count, err error) *telling {
	e := by.makeLocked(t, EventRefused)
	if e == nil {
		return nil
	}
	e.ID, e.Wait, e.Err, e.Estimated = by.number(), by.waited, err, usageOf(estimate)
	if d != nil {
		e.decided(d)
	}
	t.nameRLocked(e, model)
	return e
}

// nameCountedRLocked is nameRLocked for a counted name, which may be that of a pool.
func (t *teller) nameCountedRLocked(e *telling, name string) {
	var is bool
	if e.Pool, is = state.PoolOf(name); !is {
		t.nameRLocked(e, name)
	}
}

// nameRLocked fills in the names of a model.
func (t *teller) nameRLocked(e *telling, model string) {
	if model == "" {
		return
	}
	e.Requested, e.Model = model, t.rl.nameRLocked(model)
	if g := t.rl.lines.allSlots[e.Model]; g != nil && g.isProvidedRLocked() {
		e.Provider = g.provider
	} else {
		e.Provider = t.rl.providerOfRLocked(e.Model)
	}
}

// releasedLocked returns the events of reservations that were cancelled together.
func (t *teller) releasedLocked(rs Reservations) (e *telling) {
	if t == nil {
		return nil
	}
	for _, r := range slices.Backward(rs) {
		if r != nil && r.home == t.rl && r.settled {
			e = t.endedLocked(r, EventReleased, tokens.Count{}).then(e)
		}
	}
	return e
}
