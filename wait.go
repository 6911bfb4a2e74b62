package ratelimit

import (
	"context"
	"fmt"
	"time"
)

// WaitForCapacity returns nil as soon as a request with the given number of
// tokens fits the quota of model. It reserves and records nothing. It sleeps
// until the exact moment, and looks again at once when Reset, SetQuota,
// AddProvider or Load make room.
//
// It returns, in the order of its checks: the error of ctx when that has ended,
// also while it waits; an error that wraps ErrInvalidTokens for a negative
// number; a *LimitError that unwraps to ErrNeverFits for a request that can
// never pass, and to context.DeadlineExceeded, both at once, when the deadline
// of ctx comes before the capacity can; ErrClosed when the limiter is closed.
//
// It is safe for concurrent use. Those who wait for the same model all return
// when there is room for one: where that matters, let one goroutine at a time
// call WaitForCapacity and then RecordUsage.
func (rl *RateLimiter) WaitForCapacity(ctx context.Context, model string, tokens int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if tokens < 0 {
		return fmt.Errorf("wait for capacity: %w: negative tokens: %d", ErrInvalidTokens, tokens)
	}
	var timer *time.Timer
	for {
		changed, closed := rl.watch()
		d := rl.Decide(model, tokens)
		switch {
		case d.Allowed:
			return nil
		case d.Never:
			return &LimitError{Model: model, Decision: d, cause: ErrNeverFits}
		case closed:
			return fmt.Errorf("wait for capacity: %w", ErrClosed)
		}
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < d.RetryAfter {
			return &LimitError{Model: model, Decision: d, cause: context.DeadlineExceeded}
		}
		// Nothing in the minute takes longer than its span. A longer wait is for
		// the end of the day, which follows the wall clock, and a timer does not
		// when the clock is set or the machine was suspended.
		sleep := min(d.RetryAfter, time.Duration(rl.span()+1))
		if timer == nil {
			timer = time.NewTimer(sleep)
			defer timer.Stop()
		} else {
			timer.Reset(sleep)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		case <-timer.C:
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// watch returns a channel that is closed at the next change that can make room.
// Taken before a decision, it misses no change after it.
func (rl *RateLimiter) watch() (changed <-chan struct{}, closed bool) {
	rl.mu.Lock()
	defer rl.mu.Unlock()
	if rl.changed == nil {
		rl.changed = make(chan struct{})
	}
	return rl.changed, rl.closed
}

// announceLocked wakes everybody who waits.
func (rl *RateLimiter) announceLocked() {
	if rl.changed != nil {
		close(rl.changed)
		rl.changed = nil
	}
}
