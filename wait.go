package ratelimit

import (
	"context"
	"fmt"
	"slices"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/lines"
)

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

// check returns the error of an ended context or a negative number, before anything else is
// checked.
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
		options = append(options, engine.Option{By: w.rl.by(by.askedFor(&w.requests[i])), Requests: asked[i : i+1]})
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

// priceLocked has requests of the waiter ask at the present prices. It reports whether these are
// others.
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
	rl.mu.Lock()
	defer rl.mu.Unlock()
	now := rl.nowLocked()
	for _, r := range w.reservations {
		if c := r.liveRLocked(); c != nil {
			rl.ledger.Ended(audited{rl}, c, account.Cancelled, c.Tokens)
			r.call = nil
		}
	}
	rl.engine.Leave(of, now)
	rl.autosave.changedNowLocked(&rl.clock)
	rl.leaveLocked(now)
}
