package ratelimit

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/notice"
	"dappco.re/go/core/go-ratelimit/internal/tokens"
)

// reservedLocked notes the outcome of requests that were decided on together, and returns the
// events that tell of it.
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
	return rl.teller.toldRefusedLocked(by, d, model, rl.teller.estimateRLocked(reqs, model), nil)
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
func (t *teller) estimateRLocked(reqs []Request, model string) (sum tokens.Count) {
	name := t.rl.nameRLocked(model)
	for i := range reqs {
		if req := &reqs[i]; t.rl.nameRLocked(req.Model) == name {
			sum = sum.Plus(tokens.Count{Input: max(req.PromptTokens, 0), Output: max(req.OutputTokens, 0)})
		}
	}
	return sum
}

// refused notes that the method of a waiter with ctx returns an error, and tells of it, unless the
// caller is about to ask for less.
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
		e = rl.teller.toldRefusedLocked(by, d, model, rl.teller.estimateRLocked(reqs, model), err)
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
		e = by.makeLocked(t, EventQueued)
		model := cmp.Or(w.why.Model, w.requests[0].Model)
		e.ID, e.Estimated = by.number(), usage(t.estimateRLocked(w.requests, model))
		e.decided(w.why)
		t.nameRLocked(e, model)
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
		e = by.makeLocked(t, EventPassed)
		e.ID, e.Wait, e.Estimated = by.number(), by.waited, usage(t.estimateRLocked(w.requests, w.requests[0].Model))
		e.decided(w.why)
		t.nameRLocked(e, w.requests[0].Model)
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
