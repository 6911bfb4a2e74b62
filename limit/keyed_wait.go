package limit

import (
	"context"
	"fmt"
	"time"
)

// Wait is WaitN for one unit.
func (k *Keyed[K]) Wait(ctx context.Context, key K) error { return k.WaitN(ctx, key, 1) }

// WaitN waits until n units may pass for key, and charges them, as WaitN of the limiter
// does. Requests that wait for a new key while the Keyed is full try again when a limiter
// will have recovered, every 100 ms if that is not known, and in no order. Its errors are
// those of TakeAt and of the limiters.
func (k *Keyed[K]) WaitN(ctx context.Context, key K, n int) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		e, d, err := k.enter(key, time.Now(), n)
		switch {
		case e != nil:
			return k.waitIn(ctx, e, n)
		case err != nil || d.OK:
			return err
		case d.Never:
			return fmt.Errorf("wait for %d units: %w", n, ErrNeverFits)
		}
		if deadline, ok := ctx.Deadline(); ok && d.RetryAfter > time.Until(deadline) {
			return fmt.Errorf("wait for a new key: %w", ErrDeadline)
		}
		wait := d.RetryAfter
		if wait == 0 {
			wait = recheck
		}
		if err := sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// waitIn waits with the limiter of an entry, and leaves the entry.
func (k *Keyed[K]) waitIn(ctx context.Context, e *entry[K], n int) (err error) {
	var d Decision
	instant, _ := e.instant(time.Now())
	defer func() { k.leave(e, instant, false, d.ResetAfter) }()
	if own, ok := e.limiter.(interface {
		WaitN(ctx context.Context, n int) error
	}); ok {
		err = own.WaitN(ctx, n)
	} else {
		err = e.line().WaitN(ctx, n)
	}
	instant, _ = e.instant(time.Now())
	d = e.limiter.TakeAt(instant, 0)
	return err
}

// line returns the line of an entry whose limiter has none of its own.
func (e *entry[K]) line() *caller {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.waiter == nil {
		e.waiter = new(caller)
		e.waiter.init(e)
	}
	return e.waiter
}
