package limit

import (
	"sync"
	"sync/atomic"
	"time"
)

// entry is the limiter of a key. The lock of its Keyed is taken before that of an entry.
// The fields that every request reads come first: they are mostly not in the cache.
type entry[K comparable] struct {
	hash    uint64                   // fixed
	key     K                        // fixed
	next    atomic.Pointer[entry[K]] // in its chain of the table; the lock of the Keyed guards writes
	limiter Limiter                  // fixed

	mu        sync.Mutex // not held while a limiter is called that is not plain
	plain     bool       // fixed: isPlain(limiter)
	charged   bool       // if not, the entry goes with its last user
	parked    bool       // not in recoveries: its last user puts it there
	gone      bool       // forgotten; final
	last      int64      // when it was used last, on the line of the Keyed
	recovered tick       // when the limiter will be as new, if nothing else is charged
	floor     time.Time  // fixed: an earlier instant counts as this
	users     int        // requests that have entered, waiters and holds
	waiter    *caller    // fixed once it is not nil

	// The lock of the Keyed guards these.
	newer, older *entry[K] // in the line of recency
	turn         int64     // when it was put into that line, on that of the Keyed
	place        int       // in recoveries, -1 for none
}

// enter begins a use at an instant of the line of the Keyed, which leave ends. It returns
// false if the entry is gone.
func (e *entry[K]) enter(at int64) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.gone {
		return false
	}
	e.users++
	e.last = max(e.last, at)
	return true
}

// leave ends a use. It reports whether the Keyed has to settle the entry.
func (e *entry[K]) leave(line *keyedLine, at time.Time, charged bool, reset time.Duration) (settle bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.users--
	e.chargeLocked(line, at, charged, reset)
	return e.users == 0 && (e.parked || !e.charged)
}

// isPlain reports whether the methods of a limiter call nothing but code of this package,
// so that they can be called under the lock of an entry.
func isPlain(l Limiter) bool {
	switch l.(type) {
	case *GCRA, *AtomicGCRA, *Meter, *FixedWindow, *AnchoredWindow, *SlidingCounter, *SlidingLog, *TokenBucket:
		return true
	}
	return false
}

// bucketOf returns the bucket of a GCRA or a Meter, and nil for other limiters.
func bucketOf(l Limiter) *bucketed {
	switch l := l.(type) {
	case *GCRA:
		return &l.bucketed
	case *Meter:
		return &l.bucketed
	}
	return nil
}

// take decides with a plain limiter, and returns false if the entry is gone.
func (e *entry[K]) take(d *Decision, line *keyedLine, now instant, n int) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.gone {
		return false
	}
	e.last = max(e.last, now.ns)
	if now.time.Before(e.floor) {
		*d = e.limiter.TakeAt(e.floor, n)
		e.chargeLocked(line, e.floor, d.OK && n > 0, d.ResetAfter)
		*d = d.asOf(e.floor.Sub(now.time))
		return true
	}
	*d = e.limiter.TakeAt(now.time, n)
	e.chargeLocked(line, now.time, d.OK && n > 0, d.ResetAfter)
	return true
}

// allow is take of one unit, with the bucket of the limiter. It returns done = false if the
// entry is gone, and at an instant before the floor.
func (e *entry[K]) allow(b *bucketed, line *keyedLine, now instant) (ok, done bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.gone || now.time.Before(e.floor) {
		return false, false
	}
	e.last = max(e.last, now.ns)
	ok, reset := b.allowAt(now.time)
	e.chargeLocked(line, now.time, ok, reset)
	return ok, true
}

// chargeLocked notes that the limiter, which was charged or not, said at an instant that it
// recovers within reset.
func (e *entry[K]) chargeLocked(line *keyedLine, at time.Time, charged bool, reset time.Duration) {
	e.charged = e.charged || charged || reset > 0
	if reset <= 0 { // it has recovered already, at an unknown instant
		return
	}
	if recovered := line.after(at, reset); e.recovered.before(recovered) {
		e.recovered = recovered
	}
}

// isFreeLocked reports whether nothing is lost if the entry is forgotten at now.
func (e *entry[K]) isFreeLocked(now tick) bool {
	return e.users == 0 && !now.before(e.recovered)
}

// instant returns the instant as which now counts, and how much earlier now is.
func (e *entry[K]) instant(now time.Time) (instant time.Time, early time.Duration) {
	if now.Before(e.floor) {
		return e.floor, e.floor.Sub(now)
	}
	return now, 0
}

// TakeAt is that of the limiter.
func (e *entry[K]) TakeAt(now time.Time, n int) Decision {
	instant, early := e.instant(now)
	return e.limiter.TakeAt(instant, n).asOf(early)
}

func (e *entry[K]) peekAt(now time.Time, _ int) Decision { return e.TakeAt(now, 0) }

// watch returns false: a limiter without a line of its own may notify nobody of its holds.
func (e *entry[K]) watch(chan struct{}) bool { return false }
func (e *entry[K]) unwatch(chan struct{})    {}

// keyedHold is a hold of the limiter of a key, whose entry stays until the hold ends. The
// lock of the entry guards ended.
type keyedHold[K comparable] struct {
	keyed *Keyed[K]
	entry *entry[K]
	hold  Hold
	at    time.Time
	ended bool
}

func (h *keyedHold[K]) end(_ uint64, commit bool) {
	h.entry.mu.Lock()
	ended := h.ended
	h.ended = true
	h.entry.mu.Unlock()
	if ended {
		return
	}
	h.hold.finish(commit)
	// The charge counts as of h.at, so its recovery, seen from there, is the same at any
	// time.
	h.keyed.leave(h.entry, h.at, false, h.entry.limiter.TakeAt(h.at, 0).ResetAfter)
}
