package ratelimit

import (
	"context"
	"errors"
)

// Usage is what a call really used. The zero value is one that is not known. A
// negative count is zero.
type Usage struct {
	PromptTokens int // input tokens
	OutputTokens int
}

// Do waits for room with Acquire, calls, and settles the reservation by what
// call returns: by its Usage if that is set, also together with an error; else at
// the estimate, for a call that failed may have been counted all the same. An
// error that wraps ErrNotSent, with no Usage, says that nothing was sent, and
// gives everything back. If call panics the estimate stands, and the panic goes
// on.
//
// Do returns the error of Acquire, and then call was not called, or that of call
// as it is. call must not be nil. It is safe for concurrent use.
func (rl *RateLimiter) Do(ctx context.Context, req Request, call func(context.Context) (Usage, error)) error {
	r, err := rl.Acquire(ctx, req.Model, req.PromptTokens, req.OutputTokens)
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
	reported, err := call(ctx)
	if reported != (Usage{}) {
		used = reported
	} else if errors.Is(err, ErrNotSent) {
		sent = false
	}
	return err
}
