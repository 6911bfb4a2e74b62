//go:build !nosqlite

package sqlitelog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/fsx"
	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
)

const (
	// stepFor is how long a step waits for other processes before it fails.
	stepFor = 3 * time.Second
	// joinFor is the same for a step that reads everything, unless its context says how long.
	joinFor = 10 * time.Second
	// waitPiece is how long a wait does not look whether its context has ended: nothing else
	// could end it.
	waitPiece = 50 * time.Millisecond
)

// wait is for how long a step may wait for others.
type wait struct {
	ctx    context.Context
	most   time.Duration // for each of them
	within bool          // most is what the context has left
}

// joinWait returns the wait of a step that reads everything.
func joinWait(ctx context.Context) wait {
	if deadline, ok := ctx.Deadline(); ok {
		return wait{ctx, time.Until(deadline), true}
	}
	return wait{ctx: ctx, most: joinFor}
}

// left returns how much is left of a piece of the wait; false if the context is over.
func (w wait) left(piece time.Duration) (left time.Duration, ok bool) {
	if deadline, ok := w.ctx.Deadline(); ok {
		piece = min(piece, time.Until(deadline))
	}
	return piece, w.ctx.Err() == nil && piece > 0
}

// noTime is the error of a wait whose context was over.
type noTime struct{ error }

func (e noTime) Unwrap() error      { return e.error }
func (noTime) Is(target error) bool { return target == sharedlog.ErrNoTime }

// over returns the error of a wait whose context was over.
func (w wait) over(what string, cause error) error {
	return noTime{fmt.Errorf("wait for %s: %w", what, cause)}
}

// long returns the error of a wait that was as long as it may be.
func (w wait) long(what string, cause error) error {
	if w.within {
		return w.over(what, cause)
	}
	return fmt.Errorf("waited %v for %s: %w", w.most, what, cause)
}

const (
	forTurn    = "another process"
	forProgram = "another program"
)

// takeLock waits for the lock of all processes, in pieces. If it gives up, it keeps the place
// in the queue for the next call.
func (w wait) takeLock(lock *fsx.FairLock) error {
	for waited := time.Duration(0); ; {
		piece, ok := w.left(min(w.most-waited, waitPiece))
		if !ok {
			return w.over(forTurn, fsx.ErrLockTimeout)
		}
		if err := lock.Lock(piece); !errors.Is(err, fsx.ErrLockTimeout) {
			return err
		}
		if waited += piece; waited >= w.most {
			return w.long(forTurn, fsx.ErrLockTimeout)
		}
	}
}
