package adaptive

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"dappco.re/go/core/go-ratelimit/limit"
)

// line is the callers that wait, first come, first served. The zero value has none.
type line struct {
	mu      sync.Mutex
	waiting []chan struct{} // one for each caller; that of the first is closed
}

// join joins the line, unless it is empty and the caller is served at once: then it returns
// nil. The channel is closed when the turn comes.
func (l *line) join(serve func() bool) (turn chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 && serve() {
		return nil
	}
	turn = make(chan struct{})
	l.waiting = append(l.waiting, turn)
	if len(l.waiting) == 1 {
		close(turn)
	}
	return turn
}

// leave leaves the line.
func (l *line) leave(turn chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.waiting, turn)
	l.waiting = slices.Delete(l.waiting, i, i+1)
	if i == 0 && len(l.waiting) > 0 {
		close(l.waiting[0])
	}
}

// Wait is WaitN for one unit.
func (r *Rate) Wait(ctx context.Context) error { return r.WaitN(ctx, 1) }

// WaitN waits until n units may pass, and charges them. Waiters are served in the order in
// which they came; Take, TakeAt and Allow do not stand in line. It returns at once an error
// that matches limit.ErrNeverFits for a negative n and one above the burst, and
// limit.ErrDeadline if the deadline of the context would be missed as things stand. A refusal
// that is reported meanwhile may add to the wait, and then also ends it with
// limit.ErrDeadline. If the context ends first, it returns ctx.Err(). With an error nothing
// is charged.
func (r *Rate) WaitN(ctx context.Context, n int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if n < 0 || int64(n) > r.burst {
		return fmt.Errorf("wait for %d units: %w", n, limit.ErrNeverFits)
	}
	if n == 0 {
		return nil
	}
	turn := r.line.join(func() bool { return r.Take(n).OK })
	if turn == nil {
		return nil
	}
	defer r.line.leave(turn)
	if err := r.tooLate(ctx, n); err != nil {
		return err
	}
	select {
	case <-turn:
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		if err := ctx.Err(); err != nil { // it may have ended together with the turn
			return err
		}
		d := r.Take(n)
		if d.OK {
			return nil
		}
		if err := r.tooLate(ctx, n); err != nil {
			return err
		}
		timer := time.NewTimer(d.RetryAfter)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

// tooLate returns an error if n units pass after the deadline of the context, were they the
// next. The wait of the first in line is the least.
func (r *Rate) tooLate(ctx context.Context, n int) error {
	deadline, ok := ctx.Deadline()
	if !ok {
		return nil
	}
	now := time.Now()
	r.mu.Lock()
	at := r.time.at(now)
	wait := time.Duration(r.untilLocked(at, int64(n)) - at)
	r.mu.Unlock()
	if wait > deadline.Sub(now) {
		return fmt.Errorf("wait for %d units: %w", n, limit.ErrDeadline)
	}
	return nil
}
