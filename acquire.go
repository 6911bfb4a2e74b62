package ratelimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/lines"
)

// Acquire waits until Reserve would succeed, and returns the reservation. Waiters for a model are
// served first come, first served, so a smaller request does not overtake a larger one. Acquire
// returns at the exact moment at which the head of the line passes, also when Commit, Cancel,
// Reset, SetQuota, AddProvider, Load, or a waiter that gives up makes room.
//
// It checks in this order and returns:
//
//   - the error of ctx when that has ended, also during the wait;
//   - an error that wraps ErrInvalidTokens for a negative number;
//   - a *LimitError for a request that cannot be served. It unwraps to ErrNeverFits if the request
//     can never pass, and to ErrQueueFull if Config.MaxQueue callers already wait. It unwraps to
//     context.DeadlineExceeded if the request cannot pass before the deadline of ctx even in the
//     best case: alone, and with each open reservation cancelled or, after Arrived, settled without
//     tokens. All of these come at once. ErrNeverFits and DeadlineExceeded also come during the
//     wait, when a change such as SetQuota, Cooldown, Arrived or a Commit makes them true;
//   - ErrClosed when the limiter is closed and it would have to wait, or waits.
//
// With an error nothing is charged. The check of the deadline ignores waiters ahead, and knows the
// times of open reservations to a few seconds, so a request may wait until its deadline in vain.
func (rl *RateLimiter) Acquire(ctx context.Context, model string, promptTokens, outputTokens int) (*Reservation, error) {
	return rl.acquireOne(ctx, Request{Model: model, PromptTokens: promptTokens, OutputTokens: outputTokens})
}

// acquireOne is Acquire for a request that may name its class.
func (rl *RateLimiter) acquireOne(ctx context.Context, req Request) (*Reservation, error) {
	if rl.shared == nil && ctx.Err() == nil && min(req.PromptTokens, req.OutputTokens) >= 0 {
		by := rl.teller.caller(ctx)
		by.ask(ctx, []Request{req}, rl.classed.Load())
		var d Decision
		if r := rl.reserveOne(&by, &d, &req); r != nil {
			return r, nil
		}
	}
	w := &waiter{rl: rl, op: "acquire", charges: true, requests: []Request{req}}
	return w.awaitOne(ctx)
}

// AcquireAll is Acquire for several requests, which may name a model more than once. It waits in
// the lines of all their models until all of them pass together, and holds nothing while it
// waits. Model in a *LimitError is the model that denied. Without requests it succeeds.
func (rl *RateLimiter) AcquireAll(ctx context.Context, reqs ...Request) (Reservations, error) {
	w := &waiter{rl: rl, op: "acquire all", charges: true, requests: reqs}
	return w.await(ctx)
}

// AnyOptions are the options of AcquireAny. The zero value waits for all candidates alike.
type AnyOptions struct {
	// Patience is how long the call waits for the first candidate alone, before it takes any,
	// unless that can never serve it, and even if it is known to open later. Zero is not at all.
	Patience time.Duration
}

// AcquireAny is Acquire for a call that one of several models can serve. The requests are the
// candidates, in the order of preference. The first with room, and with nobody ahead in its line,
// is charged at once. If there is none, the call waits in the lines of all of them, and nothing is
// charged meanwhile. It takes the first candidate that has room for it in its turn, and leaves the
// other lines in the same moment. Reservation.Model says which candidate it got.
//
// It returns the errors of Acquire: ErrNeverFits only if no candidate can ever pass, the error of
// the deadline only if none can pass before it, ErrQueueFull if the lines of all others are full.
// The *LimitError is that of the candidate which opens first by RetryAfter, as in ReserveAny; where
// no time says when any does, that of the first. Without requests it returns nil. More than 256
// candidates never pass with Config.Shared and Config.Store.
func (rl *RateLimiter) AcquireAny(ctx context.Context, opts AnyOptions, requests ...Request) (*Reservation, error) {
	if len(requests) == 0 {
		return nil, ctx.Err()
	}
	w := &waiter{rl: rl, op: "acquire any", charges: true, requests: requests, any: true, patience: opts.Patience}
	return w.awaitOne(ctx)
}

// WaitForCapacity returns nil as soon as a request with the given number of tokens fits the quota
// of model and no waiter is ahead of it. It waits like Acquire, with the same errors, and reserves
// and records nothing. The number counts as input tokens. Waiters for one model pass in turn, but
// room for one lets all of them pass, because none takes it: use Acquire where that matters.
func (rl *RateLimiter) WaitForCapacity(ctx context.Context, model string, tokens int) error {
	req := Request{Model: model, PromptTokens: tokens}
	if ctx.Err() == nil {
		var d Decision
		if rl.decide(ctx, &d, &req); d.Allowed && ctx.Err() == nil {
			return nil
		}
	}
	w := &waiter{rl: rl, op: "wait for capacity", requests: []Request{req}}
	_, err := w.await(ctx)
	return err
}

// Usage is the real usage of a call. The zero value means unknown. A negative count is zero.
type Usage struct {
	PromptTokens int // input tokens
	OutputTokens int
}

// Do waits for room with Acquire, runs call, and settles the reservation: by the Usage that call
// returns, even together with an error. Without a Usage it settles at the estimate, because a
// failed call may have been counted all the same; but an error that wraps ErrNotSent gives
// everything back. If call panics the estimate stays charged, and the panic propagates. The context
// that call gets is ctx with the reservation in it: see ReservationFrom. Do returns the error of
// Acquire, in which case call did not run, or the error of call unchanged. call must not be nil.
func (rl *RateLimiter) Do(ctx context.Context, req Request, call func(context.Context) (Usage, error)) error {
	r, err := rl.acquireOne(ctx, req)
	if err != nil {
		return err
	}
	used := Usage{req.PromptTokens, req.OutputTokens}
	sent := true
	defer func() {
		if sent {
			r.Commit(used.PromptTokens, used.OutputTokens)
		} else {
			r.Cancel()
		}
	}()
	reported, err := call(context.WithValue(ctx, reservationKey{}, r))
	if reported != (Usage{}) {
		used = reported
	} else if errors.Is(err, ErrNotSent) {
		sent = false
	}
	return err
}

// reservationKey is the key of the reservation in the context that Do gives to call.
type reservationKey struct{}

// ReservationFrom returns the reservation of the Do whose call got ctx, or a context made from it;
// of nested ones that of the innermost. Elsewhere it returns nil, whose methods do nothing. The
// call may tell Arrived. A Commit or Cancel of the call's own comes before Do's.
//
// It is safe for concurrent use.
func ReservationFrom(ctx context.Context) *Reservation {
	r, _ := ctx.Value(reservationKey{}).(*Reservation)
	return r
}

// waiter is a call that waits: what this process notes beside the engine's Waiter.
type waiter struct {
	op       string // for errors
	rl       *RateLimiter
	requests []Request // of all its candidates
	charges  bool      // it makes reservations
	any      bool      // one of the requests is enough
	patience time.Duration
	why      *Decision       // why it stands in line, for Config.Events
	options  []engine.Option // of one that waits in a log

	reservations Reservations  // when it was served
	err          error         // when it was refused
	done         chan struct{} // closed when it was served or refused
}

// await waits until a waiter is served in its turn, or refused, which is told then.
func (w *waiter) await(ctx context.Context) (rs Reservations, err error) {
	by := w.rl.teller.caller(ctx)
	by.waitsOnly = !w.charges
	if err = w.check(ctx); err == nil {
		rs, err = w.wait(ctx, &by)
	}
	if err != nil {
		w.refused(ctx, &by, err)
	}
	return rs, err
}

// awaitOne is await for a waiter that gets one reservation.
func (w *waiter) awaitOne(ctx context.Context) (*Reservation, error) {
	rs, err := w.await(ctx)
	if err != nil {
		return nil, err
	}
	return rs[0], nil
}

// check returns the error of an ended context or a negative number.
func (w *waiter) check(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for i := range w.requests {
		if tokens := min(w.requests[i].PromptTokens, w.requests[i].OutputTokens); tokens < 0 {
			return fmt.Errorf("%s: %w: negative tokens: %d", w.op, ErrInvalidTokens, tokens)
		}
	}
	return nil
}

// wait returns when a waiter is served or refused, or its context has ended.
func (w *waiter) wait(ctx context.Context, by *caller) (Reservations, error) {
	rl := w.rl
	if rl.shared != nil {
		return rl.shared.wait(ctx, by, w)
	}
	began := rl.teller.now()
	w.done = make(chan struct{})
	by.asking = askingOf(ctx, w.requests)
	of := w.enter(ctx, by)
	rl.teller.queued(by, w)
	select {
	case <-w.done:
	case <-ctx.Done():
	}
	if by.queued {
		by.waited = time.Since(began)
	}
	if err := ctx.Err(); err != nil {
		w.leave(of)
		return nil, err
	}
	if w.err == nil {
		rl.teller.served(by, w)
	}
	w.reservations.watch()
	return w.reservations, w.err
}

// enter has a waiter stand in line, unless it is served or refused at once.
func (w *waiter) enter(ctx context.Context, by *caller) *lines.Waiter {
	rl := w.rl
	rl.mu.Lock()
	defer rl.mu.Unlock()
	now, asked := rl.enterAllLocked(w.requests)
	of := engine.NewWaiter(w.optionsLocked(by, asked)...)
	of.Local, of.Charges = w, w.charges
	if deadline, ok := ctx.Deadline(); ok {
		of.Deadline = now.Instant + int64(min(deadline.Sub(rl.clock.At(now.Instant)), 1<<61))
	}
	if w.patience > 0 {
		of.Patient = now.Instant + int64(w.patience)
	}
	rl.engine.Enter(of, now)
	if rl.teller != nil && !of.Over && of.Seq > 0 {
		w.why = new(Decision)
		w.why.follow(&of.Denied, of.By.Items, rl.span(), now)
	}
	rl.leaveLocked(now)
	if rl.closed && !of.Over {
		rl.engine.Close(now)
		rl.leaveLocked(now)
	}
	return of
}

// optionsLocked returns what the engine may serve a waiter by.
func (w *waiter) optionsLocked(by *caller, asked []engine.Request) (options []engine.Option) {
	if w.rl.pricing != nil {
		w.priceLocked(asked) // it may be served at any hour
	}
	if !w.any {
		return []engine.Option{{By: w.rl.by(by.asking), Requests: asked}}
	}
	for i := range asked {
		own := asking{class: cmp.Or(w.requests[i].Class, by.class), flow: cmp.Or(w.requests[i].Flow, by.flow)}
		options = append(options, engine.Option{By: w.rl.by(own), Requests: asked[i : i+1]})
	}
	return options
}

// endLocked ends a wait as the engine did.
func (w *waiter) endLocked(of *lines.Waiter) {
	now := w.rl.engine.Last()
	switch {
	case of.Served == nil:
		w.err = w.refusalLocked(&of.Why, now)
	case w.charges:
		w.reservations = w.rl.reservationsLocked(of.Calls)
	}
	close(w.done)
}

// priceLocked has requests of the waiter ask at the present prices, and reports if these differ.
func (w *waiter) priceLocked(asked []engine.Request) (changed bool) {
	for i := range asked {
		r := &asked[i]
		most, priced := r.Most, r.Priced
		of := slices.IndexFunc(w.requests, func(req Request) bool { return req.Model == r.Asked })
		r.Most, r.Priced = w.rl.pricing.Most(&w.rl.naming, r.Counted, r.Asked, r.Tokens, w.requests[max(of, 0)].BilledOutput, 0)
		changed = changed || r.Most != most || r.Priced != priced
	}
	return changed
}

// refusalLocked returns the error of a waiter that waits in vain.
func (w *waiter) refusalLocked(r *lines.Refusal, now account.Now) error {
	if r.Kind == lines.Closed {
		return fmt.Errorf("%s: %w", w.op, ErrClosed)
	}
	var d Decision
	w.rl.hintLocked(&r.Of.Verdict, r.Of.Items)
	d.follow(&r.Of.Verdict, r.Of.Items, w.rl.span(), now)
	e := &LimitError{Model: d.Model, Decision: d, op: w.op}
	switch r.Kind {
	case lines.Never:
		e.Err = ErrNeverFits
	case lines.QueueFull:
		e.Err = ErrQueueFull
	default:
		e.Err = context.DeadlineExceeded
	}
	return e
}

// leave ends the wait of a waiter whose context has ended. If it was served in the same moment,
// it gives that back. The next in line moves up at once.
func (w *waiter) leave(of *lines.Waiter) {
	rl := w.rl
	rl.change(func(now account.Now) (saves bool) {
		for _, r := range w.reservations {
			if c := r.liveRLocked(); c != nil {
				rl.ledger.Ended(audited{rl}, c, account.Cancelled, c.Tokens)
				r.call = nil
			}
		}
		rl.engine.Leave(of, now)
		return true
	})
}
