package limit

import (
	"sync"
	"time"
)

// bucketed is one bucket behind a mutex: GCRA and Meter differ only in how long a unit
// takes to drain.
type bucketed struct {
	caller
	mu      sync.Mutex
	account account
}

// begin sets the bucket. It must be called before any other method.
func (l *bucketed) begin(b bucket) {
	l.account = newAccount(b)
	l.init(l)
}

// Allow reports whether one unit may pass now, and charges it if so. It is faster than
// Take(1).
func (l *bucketed) Allow() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.account.allowNowLocked()
	return ok
}

// allowAt takes one unit at now if it may pass. reset is ResetAfter of the Decision.
func (l *bucketed) allowAt(now time.Time) (ok bool, reset time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.account.allowLocked(now)
}

// TakeAt charges n units at now if all of them may pass.
func (l *bucketed) TakeAt(now time.Time, n int) Decision {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.account.takeLocked(now, n)
}

func (l *bucketed) peekAt(now time.Time, n int) Decision {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.account.peekLocked(now, n)
}

// HoldAt sets n units aside if all of them may pass.
func (l *bucketed) HoldAt(now time.Time, n int) (Hold, Decision) {
	l.mu.Lock()
	defer l.mu.Unlock()
	id, d := l.account.holdLocked(now, n)
	return heldBy(l, id), d
}

func (l *bucketed) end(id uint64, commit bool) {
	l.mu.Lock()
	ended := l.account.endLocked(id, commit)
	l.mu.Unlock()
	if ended {
		l.changed()
	}
}
