package limit

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"
)

// decider is the algorithm behind the methods of caller.
type decider interface {
	Limiter
	peeker
	watched
}

type peeker interface {
	// peekAt is TakeAt that charges nothing, even if it admits.
	peekAt(now time.Time, n int) Decision
}

// recheck is the interval at which a request is tried again that waits for the end of a
// hold and may not be notified of it.
const recheck = 100 * time.Millisecond

// caller gives an algorithm the methods that read the clock. Waiters stand in one line,
// first come, first served: only the first sleeps until its request passes, and no other is
// woken for that.
type caller struct {
	limiter decider

	mu   sync.Mutex
	line line
	kick chan struct{} // of capacity 1: a hold has ended

	watchers
}

// init sets the algorithm. It must be called before any other method.
func (c *caller) init(l decider) {
	c.limiter = l
	c.kick = make(chan struct{}, 1)
}

// Take is TakeAt at time.Now.
func (c *caller) Take(n int) Decision { return c.limiter.TakeAt(time.Now(), n) }

// Allow reports whether one unit may pass now, and charges it if so.
func (c *caller) Allow() bool { return c.limiter.TakeAt(time.Now(), 1).OK }

// Wait is WaitN for one unit.
func (c *caller) Wait(ctx context.Context) error { return c.WaitN(ctx, 1) }

// WaitN waits until n units may pass, and charges them. Waiters are served in the order in
// which they came; Take, TakeAt and Allow do not stand in line and may take the units
// first. It returns at once an error that matches ErrNeverFits, or ErrDeadline if the
// deadline of the context would be missed. If the context ends first, it returns ctx.Err().
// With an error nothing is charged.
func (c *caller) WaitN(ctx context.Context, n int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w := c.join(n)
	if w == nil {
		return nil
	}
	defer c.leave(w)
	// The wait of the first in line is the least.
	if err := refusal(ctx, c.limiter.peekAt(time.Now(), n), n); err != nil {
		return err
	}
	if err := pause(ctx, 0, w.turn); err != nil {
		return err
	}
	notified := c.limiter.watch(c.kick)
	defer c.limiter.unwatch(c.kick)
	for {
		if err := ctx.Err(); err != nil { // it may have ended together with the turn
			return err
		}
		d := c.limiter.TakeAt(time.Now(), n)
		if d.OK {
			return nil
		}
		if err := refusal(ctx, d, n); err != nil {
			return err
		}
		if !notified {
			d.RetryAfter = cmp.Or(d.RetryAfter, recheck)
		}
		if err := pause(ctx, d.RetryAfter, c.kick); err != nil {
			return err
		}
	}
}

// pause waits until d has passed, or for any time if d is 0, but no longer than until kick.
// If the context ends first, it returns its error.
func pause(ctx context.Context, d time.Duration, kick <-chan struct{}) error {
	var passed <-chan time.Time
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		passed = timer.C
	}
	select {
	case <-passed:
	case <-kick:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// refusal returns the error of a request that no wait helps, or none in time; else nil.
func refusal(ctx context.Context, d Decision, n int) error {
	if d.Never {
		return fmt.Errorf("wait for %d units: %w", n, ErrNeverFits)
	}
	if deadline, ok := ctx.Deadline(); ok && !d.OK && d.RetryAfter > time.Until(deadline) {
		return fmt.Errorf("wait for %d units: %w", n, ErrDeadline)
	}
	return nil
}

// join takes n units and returns nil if the line is empty and they may pass, and also if n
// is 0. Otherwise it joins the line.
func (c *caller) join(n int) *waiter {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n == 0 || len(c.line) == 0 && c.limiter.TakeAt(time.Now(), n).OK {
		return nil
	}
	w := new(waiter)
	c.line.join(w)
	return w
}

func (c *caller) leave(w *waiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.line.leave(w)
}
