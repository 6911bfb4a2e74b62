package ratelimit

import (
	"cmp"
	"context"
	"time"
)

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
	by := rl.caller(ctx)
	r, err := rl.acquireAny(ctx, &by, opts, requests)
	if err != nil {
		rl.refused(ctx, &by, err, requests...)
	}
	return r, err
}

func (rl *RateLimiter) acquireAny(ctx context.Context, by *caller, opts AnyOptions, requests []Request) (*Reservation, error) {
	const op = "acquire any"
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for _, req := range requests {
		if err := checkWait(ctx, op, req.PromptTokens, req.OutputTokens); err != nil {
			return nil, err
		}
	}
	if len(requests) == 0 {
		return nil, nil
	}
	rs, err := rl.wait(ctx, by, &waiter{op: op, charges: true, requests: requests, any: true, patience: opts.Patience})
	if err != nil {
		return nil, err
	}
	return rs[0], nil
}

// askedFor returns the class and the flow of a candidate: its own, or those of the call.
func (a asking) askedFor(req *Request) asking {
	return asking{class: cmp.Or(req.Class, a.class), flow: cmp.Or(req.Flow, a.flow)}
}
