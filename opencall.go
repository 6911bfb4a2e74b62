package ratelimit

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/notice"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// toldCall is what the events of a call need beside the call itself, from its admission to its end.
// It is account.Call.Local of a call whose admission was told.
type toldCall struct {
	ctx   context.Context
	id    uint64
	class string    // Event.Class
	next  *toldCall // among teller.unused

	telling bool     // the admission is on its way to the handlers
	over    bool     // the call has ended meanwhile
	ended   *telling // which is told when the admission was
}

// endOf returns what the event of the end of a call says of that.
func endOf(c *account.Call, how account.How, used state.Count) Event {
	switch how {
	case account.Committed:
		return Event{Kind: EventSettled, Settled: usage(used), Cost: c.Cost}
	case account.Cancelled:
		return Event{Kind: EventReleased}
	}
	return Event{Kind: EventExpired, Settled: usage(used), Cost: c.Most}
}

// closedOf is endOf for a call that is open when the limiter is closed.
func closedOf(c *account.Call) Event {
	return Event{Kind: EventReleased, Settled: usage(c.Tokens), Cost: c.Most}
}

// admittedLocked returns the event that tells of an admission. It returns nil for a call that
// neither a model nor a pool counts, and for one that has ended already.
func (t *teller) admittedLocked(by *caller, r *Reservation) *telling {
	c := r.liveRLocked()
	if c == nil || !c.IsCounted() {
		return nil
	}
	e := by.makeLocked(t, EventAdmitted)
	if e == nil {
		return nil
	}
	told := t.unused
	if told == nil {
		told = new(toldCall)
	}
	t.unused = told.next
	*told = toldCall{ctx: by.ctx, id: by.number(), class: e.Class}
	c.Local = told
	if t.rl.holdTTL > 0 { // it may end before its caller knows of it
		told.telling, e.admits = true, told
	}
	t.fillLocked(e, c, told)
	e.Wait, e.Cost = by.waited, c.Most
	if by.why != nil {
		e.decided(by.why)
	}
	if !t.outlet.IsOpen() { // since the call stood in line
		return e.then(t.endLocked(by, c, told, closedOf(c), t.rl.nowLocked()))
	}
	return e
}

// handed has the end of a call told that came while its admission was on its way.
func (t *teller) handed(e *telling) {
	told := e.admits
	if told == nil {
		return
	}
	t.rl.mu.Lock()
	defer t.rl.mu.Unlock()
	ended := told.ended
	told.telling, told.ended = false, nil
	if told.over {
		t.reuseLocked(told)
	}
	t.postRLocked(ended)
}

// reuseLocked keeps what is not needed any more for other calls.
func (t *teller) reuseLocked(told *toldCall) {
	*told = toldCall{next: t.unused}
	t.unused = told
}

// fillLocked fills in what all events of a call say.
func (t *teller) fillLocked(e *telling, c *account.Call, told *toldCall) {
	e.ID, e.Requested, e.Estimated, e.Class = told.id, c.Asked, usage(c.Tokens), told.class
	if c.Model != nil {
		e.Model, e.Provider = c.Model.Name, t.providerLocked(c.Model)
		return
	}
	e.Model = t.rl.nameRLocked(c.Asked)
	e.Provider = t.providerOfRLocked(e.Model)
}

// providerLocked returns the provider of a model, which is remembered beside its account.
func (t *teller) providerLocked(a *account.Account) Provider {
	is := t.rl.localLocked(a)
	if as := t.providersRLocked(); is.providedAt != as {
		is.provider, is.providedAt = t.providerOfRLocked(a.Name), as
	}
	return is.provider
}

func (t *teller) providerOfRLocked(name string) Provider {
	return Provider(t.rl.loaded.ProviderOf(name, t.rl.engine.Catalog))
}

// providersRLocked returns a number above 0 that changes with what tells the provider of a model.
func (t *teller) providersRLocked() int {
	return t.rl.engine.Catalog.Version() + t.rl.loaded.Providers() + 1
}

// endedLocked returns the event of a call that ends; nil where its admission was not told yet.
func (t *teller) endedLocked(c *account.Call, how account.How, used state.Count, now account.Now) *telling {
	told, is := c.Local.(*toldCall)
	if !is {
		return nil
	}
	telling := told.telling
	e := t.endLocked(&caller{ctx: told.ctx}, c, told, endOf(c, how, used), now)
	if telling {
		told.ended = e
		return nil
	}
	return e
}

func (t *teller) endLocked(by *caller, c *account.Call, told *toldCall, how Event, now account.Now) *telling {
	e := by.makeLocked(t, how.Kind)
	if e != nil {
		t.fillLocked(e, c, told)
		e.Cost, e.Settled = how.Cost, how.Settled
		e.Held = time.Duration(max(now.Instant-c.At.Instant, 0))
	}
	c.Local = nil
	if told.over = true; !told.telling {
		t.reuseLocked(told)
	}
	return e
}

// reservedLocked returns the event of a decision; nil for a denial that is no refusal yet.
func (t *teller) reservedLocked(by *caller, made *Reservation, d *Decision, estimate state.Count) *telling {
	switch {
	case made != nil:
		return t.admittedLocked(by, made)
	case by.tentative || d.Allowed:
		return nil
	}
	return t.askedLocked(EventRefused, by, d, d.Model, estimate, nil)
}

// askedLocked returns the event of a call that waits, has waited or was refused. d may be nil.
func (t *teller) askedLocked(kind EventKind, by *caller, d *Decision, model string, estimate state.Count, err error) *telling {
	e := by.makeLocked(t, kind)
	if e == nil {
		return nil
	}
	e.ID, e.Wait, e.Err, e.Estimated = by.number(), by.waited, err, usage(estimate)
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
	if a := t.rl.engine.Account(e.Model); a != nil {
		if is, _ := a.Local.(*local); is != nil && is.providedAt == t.providersRLocked() {
			e.Provider = is.provider
			return
		}
	}
	e.Provider = t.providerOfRLocked(e.Model)
}

// reservedLocked notes what was decided on requests, and returns the events that tell of it.
func (rl *RateLimiter) reservedLocked(by *caller, made Reservations, d *Decision, reqs []Request, now account.Now) (e *telling) {
	switch {
	case made != nil:
		return rl.teller.admittedAllLocked(by, made)
	case d.Allowed || by.tentative:
		return nil
	}
	model := cmp.Or(d.Model, reqs[0].Model) // that of a limiter as a whole names none
	rl.refusals.use(rl.nameRLocked(model), rl.Quotas).refused(now, d)
	if rl.teller == nil {
		return nil
	}
	return rl.teller.askedLocked(EventRefused, by, d, model, rl.teller.estimateRLocked(reqs, model), nil)
}

// admittedAllLocked returns the events of reservations that were made together.
func (t *teller) admittedAllLocked(by *caller, made Reservations) (e *telling) {
	if t == nil {
		return nil
	}
	for _, r := range slices.Backward(made) {
		if next := t.admittedLocked(by, r); next != nil {
			e = next.then(e)
		}
	}
	return e
}

// estimateRLocked adds up what requests ask of a model, by whatever names they call it.
func (t *teller) estimateRLocked(reqs []Request, model string) (sum state.Count) {
	name := t.rl.nameRLocked(model)
	for i := range reqs {
		if req := &reqs[i]; t.rl.nameRLocked(req.Model) == name {
			sum = sum.Plus(state.Count{Input: max(req.PromptTokens, 0), Output: max(req.OutputTokens, 0)})
		}
	}
	return sum
}

// refused notes and tells the error of a waiter, unless its caller is about to ask for less.
func (w *waiter) refused(ctx context.Context, by *caller, err error) {
	rl, reqs := w.rl, w.requests
	defer rl.teller.left(by)
	if c := notice.CallFrom(ctx); len(reqs) == 0 || c != nil && c.Tentative && errors.Is(err, ErrNeverFits) {
		return
	}
	if err == ctx.Err() && errors.Is(context.Cause(ctx), ErrMaxWait) {
		err = ErrMaxWait // the bound of a caller above, and no deadline
	}
	by.ask(ctx, reqs, rl.classed.Load()) // which did not begin, perhaps
	d, model := by.why, reqs[0].Model
	var limit *LimitError
	switch {
	case errors.As(err, &limit):
		d, model = &limit.Decision, cmp.Or(limit.Model, model)
	case errors.Is(err, ErrInvalidTokens):
		d = &Decision{Code: DecisionInvalidTokens, Reason: invalidTokens, Never: true, Model: model}
	case errors.Is(err, ErrClosed):
		d = &Decision{Code: DecisionClosed, Reason: limiterClosed, Never: true, Model: model}
	}
	var e *telling
	rl.mu.Lock()
	if limit != nil {
		rl.refusals.use(rl.nameRLocked(model), rl.Quotas).refused(rl.nowLocked(), d)
	}
	if rl.teller != nil {
		e = rl.teller.askedLocked(EventRefused, by, d, model, rl.teller.estimateRLocked(reqs, model), err)
	}
	rl.mu.Unlock()
	rl.teller.tell(e)
}

// queued tells that a waiter stands in line, if it does.
func (t *teller) queued(by *caller, w *waiter) {
	if t == nil {
		return
	}
	var e *telling
	t.rl.mu.Lock()
	if w.why != nil && t.outlet.Begin() { // which ends with the wait
		by.queued, by.why = true, w.why
		model := cmp.Or(w.why.Model, w.requests[0].Model)
		e = t.askedLocked(EventQueued, by, w.why, model, t.estimateRLocked(w.requests, model), nil)
	}
	t.rl.mu.Unlock()
	t.tell(e)
}

// served tells that the wait of a waiter ended well.
func (t *teller) served(by *caller, w *waiter) {
	if t == nil {
		return
	}
	var e *telling
	t.rl.mu.Lock()
	switch {
	case w.charges:
		e = t.admittedAllLocked(by, w.reservations)
	case by.queued:
		model := w.requests[0].Model
		e = t.askedLocked(EventPassed, by, w.why, model, t.estimateRLocked(w.requests, model), nil)
	}
	t.rl.mu.Unlock()
	t.tell(e)
	t.left(by)
}

// left ends what queued has begun.
func (t *teller) left(by *caller) {
	if by.queued {
		by.queued = false
		t.outlet.End()
	}
}
