package chores

import (
	"runtime"
	"sync"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/clock"
)

const (
	// slice is about how long work holds the lock at a time, in nanoseconds.
	slice = int64(250 * time.Microsecond)
	// stepsBetween is how many steps of the work lie between two readings of the clock.
	stepsBetween = 32
)

// Worker is long work under a lock, such as a walk over all models. It took the lock before
// NewWorker and holds it when it ends, and gives it up now and then, so that others can take it. A
// Worker is not safe for concurrent use.
type Worker struct {
	Instant int64 // now, or a moment ago

	lock  sync.Locker // also that of the clock
	clock *clock.Clock
	since int64 // when the lock was taken
	steps int
}

// NewWorker returns the work that begins now, under a lock that also guards the clock.
func NewWorker(lock sync.Locker, c *clock.Clock) Worker {
	instant := c.Sync()
	return Worker{Instant: instant, lock: lock, clock: c, since: instant}
}

// Next counts a step of the work, and gives up the lock for a moment if it was held for long.
func (w *Worker) Next() {
	if w.steps++; w.steps%stepsBetween != 0 {
		return
	}
	if w.Instant = w.clock.Sync(); w.Instant-w.since > slice {
		w.lock.Unlock()
		runtime.Gosched() // or this goroutine takes the lock again before the one that it woke
		w.lock.Lock()
		w.Instant = w.clock.Sync()
		w.since = w.Instant
	}
}
