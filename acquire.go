package ratelimit

import (
	"context"
	"fmt"
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
//   - a *LimitError that unwraps to ErrNeverFits for a request that can never pass; to
//     context.DeadlineExceeded when the request cannot pass before the deadline of ctx, even
//     alone and if all open reservations were given back now: cancelled or, after Arrived,
//     settled without tokens; or to ErrQueueFull when Config.MaxQueue callers already wait. All of
//     these come at once, the first two also when a change, such as SetQuota, Cooldown, Arrived or
//     a Commit, makes it so during the wait;
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
	by := rl.caller(ctx)
	r, err := rl.acquire(ctx, &by, req)
	if err != nil {
		rl.refused(ctx, &by, err, req)
	}
	return r, err
}

func (rl *RateLimiter) acquire(ctx context.Context, by *caller, req Request) (*Reservation, error) {
	const op = "acquire"
	if err := checkWait(ctx, op, req.PromptTokens, req.OutputTokens); err != nil {
		return nil, err
	}
	var d Decision
	if rl.classed.Load() {
		by.asking = askingOf(ctx, []Request{req})
	}
	if rl.shared == nil {
		if r := rl.reserveOne(by, &d, &req); r != nil {
			return r, nil
		}
	}
	reservations, err := rl.wait(ctx, by, &waiter{op: op, charges: true, requests: []Request{req}})
	if err != nil {
		return nil, err
	}
	return reservations[0], nil
}

// AcquireAll is Acquire for several requests, which may name a model more than once. It waits in
// the lines of all their models until all of them pass together, and holds nothing while it
// waits. Model in a *LimitError is the model that denied. Without requests it succeeds.
//
// It is safe for concurrent use.
func (rl *RateLimiter) AcquireAll(ctx context.Context, reqs ...Request) (Reservations, error) {
	by := rl.caller(ctx)
	rs, err := rl.acquireAll(ctx, &by, reqs)
	if err != nil {
		rl.refused(ctx, &by, err, reqs...)
	}
	return rs, err
}

func (rl *RateLimiter) acquireAll(ctx context.Context, by *caller, reqs []Request) (Reservations, error) {
	const op = "acquire all"
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for _, req := range reqs {
		if err := checkWait(ctx, op, req.PromptTokens, req.OutputTokens); err != nil {
			return nil, err
		}
	}
	return rl.wait(ctx, by, &waiter{op: op, charges: true, requests: reqs})
}

// WaitForCapacity returns nil as soon as a request with the given number of tokens fits the quota
// of model and no waiter is ahead of it. It waits like Acquire, with the same errors, and
// reserves and records nothing. The number counts as input tokens.
//
// It is safe for concurrent use. Waiters for one model pass in turn, but room for one lets all of
// them pass, because none takes it: use Acquire where that matters.
func (rl *RateLimiter) WaitForCapacity(ctx context.Context, model string, tokens int) error {
	by := rl.caller(ctx)
	by.waitsOnly = true
	err := rl.waitForCapacity(ctx, &by, model, tokens)
	if err != nil {
		rl.refused(ctx, &by, err, Request{Model: model, PromptTokens: tokens})
	}
	return err
}

func (rl *RateLimiter) waitForCapacity(ctx context.Context, by *caller, model string, tokens int) error {
	const op = "wait for capacity"
	if err := checkWait(ctx, op, tokens, 0); err != nil {
		return err
	}
	if rl.CanSend(model, tokens) {
		return nil
	}
	_, err := rl.wait(ctx, by, &waiter{op: op, requests: []Request{{Model: model, PromptTokens: tokens}}})
	return err
}

// checkWait returns the error of an ended context or a negative number, before anything else is
// checked.
func checkWait(ctx context.Context, op string, promptTokens, outputTokens int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if tokens := min(promptTokens, outputTokens); tokens < 0 {
		return fmt.Errorf("%s: %w: negative tokens: %d", op, ErrInvalidTokens, tokens)
	}
	return nil
}
