package sharedlog

import (
	"math"
	"time"
)

// Lease tells when a process has to renew its lease in the log. Any change that it writes may renew
// it; the timer is for when there is nothing to write. A lock of its owner guards a Lease.
type Lease struct {
	ttl     time.Duration
	renew   func()
	renewAt int64 // instant
	timer   *time.Timer
	runs    bool
}

const (
	defaultTTL = 10 * time.Second
	leastTTL   = 100 * time.Millisecond // less would write to the log all the time
)

// NewLease returns a Lease of ttl; zero is ten seconds. The timer calls renew, on a goroutine of
// its own and without the lock. renew has to renew the lease in the log, call Ended, and then Keep
// if the process still has anything open.
func NewLease(ttl time.Duration, renew func()) *Lease {
	if ttl == 0 {
		ttl = defaultTTL
	}
	return &Lease{ttl: max(ttl, leastTTL), renew: renew}
}

// TTL returns for how long the lease holds after each renewal.
func (l *Lease) TTL() time.Duration { return l.ttl }

// every is the time between two renewals, one of which may fail.
func (l *Lease) every() time.Duration { return l.ttl / 3 }

// IsDue reports whether the lease has to be renewed at an instant.
func (l *Lease) IsDue(instant int64) bool { return instant >= l.renewAt }

// Renewed notes that the lease was renewed at an instant.
func (l *Lease) Renewed(instant int64) { l.renewAt = instant + int64(l.every()) }

// Doubted has the lease be due: another process has taken this one for dead.
func (l *Lease) Doubted() { l.renewAt = math.MinInt64 }

// Keep has the timer run.
func (l *Lease) Keep() {
	if l.timer == nil {
		l.timer = time.AfterFunc(l.every(), l.renew)
	} else if !l.runs {
		l.timer.Reset(l.every())
	}
	l.runs = true
}

// Ended notes that the timer has run out, and renew has done its work.
func (l *Lease) Ended() { l.runs = false }

// Stop stops the timer.
func (l *Lease) Stop() {
	if l.timer != nil {
		l.timer.Stop()
	}
}
