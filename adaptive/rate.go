package adaptive

import (
	"fmt"
	"sync"
	"time"

	"dappco.re/go/core/go-ratelimit/limit"
)

// Rate is a limit of units in a time that is found by being refused. Units pass evenly
// spaced, as in limit.GCRA, at a rate between a floor and a ceiling. Report each refusal of
// one's own quota, a 429, with Refused. Successes need no report.
//
// It is a limit.Limiter. RetryAfter of a Decision is exact unless something is charged,
// refused or restored meanwhile. ResetAfter is the time until the units are there again and
// no refusal keeps calls back; the rate that was found stays.
//
// Make it with NewRate: the zero Rate panics. It is safe for concurrent use.
type Rate struct {
	line  line
	burst int64

	mu     sync.Mutex
	time   timeline
	search RateSearch
	empty  int64 // when the bucket of units is empty
	gate   int64 // nothing passes before
}

// NewRate returns a Rate at its start. It returns an error that matches limit.ErrInvalid and
// names the field that is out of range.
func NewRate(config RateConfig) (*Rate, error) {
	search, err := newRateSearch(config)
	if err != nil {
		return nil, fmt.Errorf("new adaptive rate: %w", err)
	}
	return &Rate{burst: int64(or(config.Burst, 1)), search: search, empty: -far, gate: -far}, nil
}

// Take is TakeAt at time.Now.
func (r *Rate) Take(n int) limit.Decision { return r.TakeAt(time.Now(), n) }

// Allow reports whether one unit may pass now, and charges it if so.
func (r *Rate) Allow() bool {
	now := time.Now()
	r.mu.Lock()
	at := r.time.at(now)
	ok := r.untilLocked(at, 1) <= at
	if ok {
		r.chargeLocked(now, at, 1)
	}
	r.mu.Unlock()
	return ok
}

// TakeAt charges n units at now if all of them may pass, and nothing if not.
func (r *Rate) TakeAt(now time.Time, n int) limit.Decision {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.time.at(now)
	var d limit.Decision
	switch {
	case n == 0:
		d.OK = true
	case n < 0 || int64(n) > r.burst:
		d.Never = true
	default:
		if until := r.untilLocked(at, int64(n)); until > at {
			d.RetryAfter = time.Duration(until - at)
		} else {
			d.OK = true
			at = r.chargeLocked(now, at, int64(n))
		}
	}
	if at >= r.gate {
		d.Remaining = int(max(r.burst*r.search.gap-max(r.empty-at, 0), 0) / r.search.gap)
	}
	d.ResetAfter = time.Duration(max(r.empty-at, r.gate-at, 0))
	if early := r.time.early(now); early > 0 {
		d.RetryAfter, d.ResetAfter = later(d.RetryAfter, early), later(d.ResetAfter, early)
	}
	return d
}

// untilLocked returns when n units pass, if nothing else happens. n is from 1 to the burst.
func (r *Rate) untilLocked(at, n int64) int64 {
	return max(at, r.empty-(r.burst-n)*r.search.gap, r.gate)
}

// chargeLocked charges n units that may pass, and before that ends the window if it is over.
// It returns where now lies then.
func (r *Rate) chargeLocked(now time.Time, at, n int64) int64 {
	at = r.beginLocked(now, at)
	if r.search.Ready(at) {
		gap := r.search.gap
		r.search.Raise(at)
		r.respaceLocked(at, gap)
	}
	r.search.Count(at, int(n))
	r.empty = max(r.empty, at) + n*r.search.gap
	return at
}

// respaceLocked spaces what has passed by the present gap, where it was spaced by another one:
// units that have passed keep their place in the burst.
func (r *Rate) respaceLocked(at, gap int64) {
	if owed := min(r.empty-at, r.burst*gap); owed > 0 && gap != r.search.gap {
		r.empty += scaledUp(owed, r.search.gap, gap) - owed
	}
}

// beginLocked begins the line of time, or moves its origin to now if that is far away. It
// returns where now lies then.
func (r *Rate) beginLocked(now time.Time, at int64) int64 {
	if r.time.begun && at < far {
		return at
	}
	r.time.move(now, at, &r.empty, &r.gate)
	r.search.shift(at)
	r.search.begin(0)
	return 0
}
