package ratelimit

import (
	"context"
	"fmt"
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
	why      *Decision // why it stands in line, for Config.Events

	reservations Reservations  // when it was served
	err          error         // when it was refused
	done         chan struct{} // closed when it was served or refused
}

// wait serves a waiter in its turn, and returns its error when it is refused or its context ends.
func (rl *RateLimiter) wait(ctx context.Context, by *caller, w *waiter) (Reservations, error) {
	if rl.shared != nil {
		return rl.shared.wait(ctx, by, w)
	}
	began := rl.teller.now()
	w.rl, w.done = rl, make(chan struct{})
	by.asking = askingOf(ctx, w.requests)
	of := rl.enter(ctx, by, w)
	rl.teller.queued(by, w)
	select {
	case <-w.done:
	case <-ctx.Done():
	}
	if by.queued {
		by.waited = time.Since(began)
	}
	if err := ctx.Err(); err != nil {
		rl.leave(of)
		return nil, err
	}
	if w.err == nil {
		rl.teller.served(by, w)
	}
	w.reservations.watch()
	return w.reservations, w.err
}

// enter has a waiter stand in line, unless it is served or refused at once.
func (rl *RateLimiter) enter(ctx context.Context, by *caller, w *waiter) *lines.Waiter {
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
		rl.fillRLocked(w.why, &of.Denied, of.By.Items, now)
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

// billedOutput returns what a request of the waiter says of the output that may be billed.
func (w *waiter) billedOutput(model string) int {
	for i := range w.requests {
		if w.requests[i].Model == model {
			return w.requests[i].BilledOutput
		}
	}
	return 0
}

// refusalLocked returns the error of a waiter that waits in vain.
func (w *waiter) refusalLocked(r *lines.Refusal, now account.Now) error {
	if r.Kind == lines.Closed {
		return fmt.Errorf("%s: %w", w.op, ErrClosed)
	}
	var d Decision
	w.rl.fillRLocked(&d, &r.Of.Verdict, r.Of.Items, now)
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
func (rl *RateLimiter) leave(of *lines.Waiter) {
	rl.mu.Lock()
	defer rl.mu.Unlock()
	now := rl.nowLocked()
	w := of.Local.(*waiter)
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
