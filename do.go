package ratelimit

import (
	"context"
	"errors"
)

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
