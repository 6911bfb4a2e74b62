package ratelimit

import (
	"context"
	"errors"
	"time"
)

// Acquire waits until Reserve would succeed, and returns the reservation. Waiters for a model are
// served first come, first served, so a smaller request does not overtake a larger one. Acquire
// sleeps until the exact moment at which the head of the line passes, and looks again at once
// when Commit, Cancel, Reset, SetQuota, AddProvider, Load, or a waiter that gives up makes room.
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
// Acquire is safe for concurrent use.
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
//
// It is safe for concurrent use.
func (rl *RateLimiter) AcquireAll(ctx context.Context, reqs ...Request) (Reservations, error) {
	w := &waiter{rl: rl, op: "acquire all", charges: true, requests: reqs}
	return w.await(ctx)
}

// AnyOptions are the options of AcquireAny. The zero value waits for all candidates alike.
type AnyOptions struct {
	// Patience is how long the call waits for the first candidate alone, before it takes any. It
	// waits so long even if the candidate is known to open later. Zero is not at all; a negative
	// value means the same.
	Patience time.Duration
}

// AcquireAny is Acquire for a call that one of several models can serve. The requests are the
// candidates, in the order of preference. The first with room, and with nobody ahead in its line,
// is charged at once. If there is none, the call waits in the lines of all of them. While it waits
// it holds its places there and nothing else: no candidate is charged. It takes the first candidate
// that has room for it in its turn, and leaves the other lines in the same moment.
// Reservation.Model says which candidate it got. With AnyOptions.Patience it waits for the first
// candidate alone at the beginning, unless that can never serve it.
//
// It returns the errors of Acquire: ErrNeverFits only if no candidate can ever pass, the error of
// the deadline only if none can pass before it, ErrQueueFull if the lines of all others are full.
// The *LimitError is that of the candidate which opens first by RetryAfter, as in ReserveAny; where
// no time says when any does, that of the first. Without requests it returns nil.
//
// It is safe for concurrent use.
func (rl *RateLimiter) AcquireAny(ctx context.Context, opts AnyOptions, requests ...Request) (*Reservation, error) {
	if len(requests) == 0 {
		return nil, ctx.Err()
	}
	w := &waiter{rl: rl, op: "acquire any", charges: true, requests: requests, any: true, patience: opts.Patience}
	return w.awaitOne(ctx)
}

// WaitForCapacity returns nil as soon as a request with the given number of tokens fits the quota
// of model and no waiter is ahead of it. It waits like Acquire, with the same errors, and
// reserves and records nothing. The number counts as input tokens.
//
// It is safe for concurrent use. Waiters for one model pass in turn, but room for one lets all of
// them pass, because none takes it: use Acquire where that matters.
func (rl *RateLimiter) WaitForCapacity(ctx context.Context, model string, tokens int) error {
	if ctx.Err() == nil && rl.CanSend(model, tokens) {
		return nil
	}
	w := &waiter{rl: rl, op: "wait for capacity", requests: []Request{{Model: model, PromptTokens: tokens}}}
	_, err := w.await(ctx)
	return err
}

// Usage is the real usage of a call. The zero value means unknown. A negative count is zero.
type Usage struct {
	PromptTokens int // input tokens
	OutputTokens int
}

// Do waits for room with Acquire, runs call, and settles the reservation. It settles by the Usage
// that call returns, even together with an error. Without a Usage it settles at the estimate,
// because a failed call may have been counted all the same; but an error that wraps ErrNotSent
// gives everything back. If call panics the estimate stays charged, and the panic propagates.
//
// The context that call gets is ctx with the reservation in it: see ReservationFrom.
//
// Do returns the error of Acquire, in which case call did not run, or the error of call unchanged.
// Like Acquire it refuses at once only a call that could not pass in time even with all open calls
// given back. call must not be nil. Do is safe for concurrent use.
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
// call may tell Arrived when the provider got the request. Do settles the reservation: a Commit or
// Cancel of the call's own comes first, and Do's then does nothing.
//
// It is safe for concurrent use.
func ReservationFrom(ctx context.Context) *Reservation {
	r, _ := ctx.Value(reservationKey{}).(*Reservation)
	return r
}
