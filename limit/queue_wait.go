package limit

import (
	"context"
	"fmt"
	"time"
)

// Wait is WaitN for one unit.
func (q *Queue) Wait(ctx context.Context) error { return q.WaitN(ctx, 1) }

// WaitN takes the next n slots and sleeps until they start. It returns at once an error
// that matches ErrFull if the queue has no room, ErrNeverFits if n is negative or above the
// capacity, and ErrDeadline if the slots start after the deadline of the context. If the
// context ends first, it returns ctx.Err(). With an error nothing is taken, and the waiters
// behind move up. Waiters start in the order in which they came. If a goroutine was not
// woken in time and starts late, those behind it start later, too, so that no gap is too
// short.
func (q *Queue) WaitN(ctx context.Context, n int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w, err := q.join(ctx, n)
	if w == nil {
		return err
	}
	// Only the first waiter has a timer.
	for err = pause(ctx, 0, w.turn); err == nil; {
		delay := q.startFirst()
		if delay <= 0 {
			return nil
		}
		err = pause(ctx, delay, q.kick)
	}
	q.leave(w)
	return err
}

// join joins the line. It returns nil if there is nothing to wait for.
func (q *Queue) join(ctx context.Context, n int) (*waiter, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	instant, _ := q.line.at(now)
	start, d := q.decideLocked(instant, n)
	if d.Never {
		return nil, fmt.Errorf("wait for %d units: %w", n, ErrNeverFits)
	}
	if n == 0 {
		return nil, nil
	}
	if !d.OK {
		return nil, fmt.Errorf("wait for %d units: %w", n, ErrFull)
	}
	if start <= instant {
		q.putLocked(now, instant, slots{start: start, end: start + q.length(n)})
		return nil, nil
	}
	if deadline, ok := ctx.Deadline(); ok && time.Duration(start-instant) > deadline.Sub(now) {
		return nil, fmt.Errorf("wait for %d units: %w", n, ErrDeadline)
	}
	w := &waiter{start: start, length: q.length(n)}
	q.waiting.join(w)
	return w, nil
}

// startFirst starts the first waiter if its time has come, and otherwise returns how long
// that takes.
func (q *Queue) startFirst() time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	instant, early := q.line.at(now)
	w := q.waiting[0]
	if w.start > instant {
		return postponed(time.Duration(w.start-instant), early)
	}
	q.waiting.leave(w)
	late := w.start < instant
	instant = q.putLocked(now, instant, slots{start: w.start, end: instant + w.length})
	if late {
		q.moveUpLocked(instant+w.length, 0)
	}
	return 0
}

// leave leaves the line.
func (q *Queue) leave(w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := q.waiting.leave(w)
	instant, _ := q.line.at(time.Now())
	q.moveUpLocked(instant, i)
}

// moveUpLocked gives the waiters from index i on the first free slots behind the waiters
// before them, not before at. It is not known what was free before the latest decision that
// took a slot: a waiter whose slots lie there keeps them.
func (q *Queue) moveUpLocked(at int64, i int) {
	if i > 0 {
		at = max(at, q.waiting[i-1].end())
	}
	next := 0
	for _, w := range q.waiting[i:] {
		if start, after := q.fitLocked(max(at, q.seen), w.length, next); start < w.start || w.start < at {
			w.start, next = start, after
		}
		at = w.end()
	}
	if i == 0 {
		select {
		case q.kick <- struct{}{}:
		default:
		}
	}
}
