package limit

import "time"

// bucketed is one bucket behind a mutex: GCRA and Meter differ only in how long a unit
// takes to drain.
type bucketed struct {
	guarded
	account account
}

// begin sets the bucket, or returns the error of making it. It must be called before any other
// method.
func (l *bucketed) begin(b bucket, err error) error {
	l.account = newAccount(b)
	l.guarded.begin(&l.account)
	return err
}

// Allow reports whether one unit may pass now, and charges it if so. It is faster than
// Take(1).
func (l *bucketed) Allow() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok, _ := l.account.allowLocked(nil)
	return ok
}

// allowAt takes one unit at now if it may pass. reset is ResetAfter of the Decision.
func (l *bucketed) allowAt(now time.Time) (ok bool, reset time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok, reset = l.account.allowLocked(&now)
	return ok, reset
}
