package limit

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// decider is what an algorithm has for the methods of caller.
type decider interface {
	Limiter
	peeker
	watched
}

type peeker interface {
	// peekAt is TakeAt that charges nothing, whatever it decides.
	peekAt(now time.Time, n int) Decision
}

// recheck is after what time a request is tried again that waits for the end of a hold
// of which it may not be told.
const recheck = 100 * time.Millisecond

// caller gives an algorithm the methods that read the clock. Those that wait stand in
// one line, first come, first served: the first of them sleeps until its request
// passes, and nobody else is woken for that.
type caller struct {
	limiter decider

	mu   sync.Mutex
	line []chan struct{} // of those that wait; the channel of the first is closed
	kick chan struct{}   // has a place for a word that what was on hold has ended

	watchers
}

// init sets whose methods they are. It has to be called before any other.
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

// WaitN waits until n units may pass, and charges them. Those that wait are served in
// the order in which they came; Take, TakeAt and Allow do not stand in line and may take
// what they wait for. It returns an error that matches ErrNeverFits, or ErrDeadline when
// the context has a deadline that would be missed, both at once; and ctx.Err() when the
// context ends first. Then nothing is charged.
func (c *caller) WaitN(ctx context.Context, n int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	turn := c.join(n)
	if turn == nil {
		return nil
	}
	defer c.leave(turn)
	// What it would wait if it were first is what it waits at least.
	if err := c.hopeless(ctx, c.limiter.peekAt(time.Now(), n), n); err != nil {
		return err
	}
	select {
	case <-turn:
	case <-ctx.Done():
		return ctx.Err()
	}
	told := c.limiter.watch(c.kick)
	defer c.limiter.unwatch(c.kick)
	var timer *time.Timer
	for {
		if err := ctx.Err(); err != nil { // it may have ended while the turn came
			return err
		}
		d := c.limiter.TakeAt(time.Now(), n)
		if d.OK {
			return nil
		}
		if err := c.hopeless(ctx, d, n); err != nil {
			return err
		}
		wait := d.RetryAfter
		if wait == 0 && !told {
			wait = recheck
		}
		var passes <-chan time.Time // nil where only the end of a hold helps
		if wait > 0 {
			if timer == nil {
				timer = time.NewTimer(wait)
				defer timer.Stop()
			} else {
				timer.Reset(wait)
			}
			passes = timer.C
		}
		select {
		case <-passes:
		case <-c.kick:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// hopeless returns the error of a request that does not have to wait for its refusal.
func (c *caller) hopeless(ctx context.Context, d Decision, n int) error {
	if d.Never {
		return fmt.Errorf("wait for %d units: %w", n, ErrNeverFits)
	}
	if deadline, ok := ctx.Deadline(); ok && !d.OK && d.RetryAfter > time.Until(deadline) {
		return fmt.Errorf("wait for %d units: %w", n, ErrDeadline)
	}
	return nil
}

// join takes n units where nobody waits and they may pass, and returns nil; else the
// turn of a place in the line. Who wants nothing has nothing to wait for.
func (c *caller) join(n int) (turn chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n == 0 || len(c.line) == 0 && c.limiter.TakeAt(time.Now(), n).OK {
		return nil
	}
	turn = make(chan struct{})
	c.line = append(c.line, turn)
	if len(c.line) == 1 {
		close(turn)
	}
	return turn
}

// leave gives a place in the line up.
func (c *caller) leave(turn chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.line, turn)
	c.line = slices.Delete(c.line, i, i+1)
	if i == 0 && len(c.line) > 0 {
		close(c.line[0])
	}
}
