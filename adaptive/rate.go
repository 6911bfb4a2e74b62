package adaptive

import (
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
	line line

	burst       int64
	coolDown    int64
	window      int64
	windowUnits int64
	halfLife    int64

	mu      sync.Mutex
	time    timeline
	search  search // in units in perSpan
	gap     int64  // between units
	empty   int64  // when the bucket of units is empty
	gate    int64  // nothing passes before
	lowered int64  // when the rate was last lowered
	opened  int64  // when the window began
	length  int64  // of the window
	passed  int64  // units in the window
	lag     int64  // how long refusals take to come back
	chance  chance
}

// NewRate returns a Rate at its start. It returns an error that matches limit.ErrInvalid and
// names the field that is out of range.
func NewRate(config RateConfig) (*Rate, error) {
	c, floor, ceiling, start, err := config.complete()
	if err != nil {
		return nil, err
	}
	r := &Rate{
		burst:       int64(c.Burst),
		coolDown:    int64(c.CoolDown),
		window:      int64(c.Window),
		windowUnits: int64(c.WindowUnits),
		halfLife:    int64(c.HalfLife),
		search: search{
			floor: floor, ceiling: ceiling, level: start,
			keep: int64(1000 - c.Decrease), grow: int64(c.Increase),
		},
		gap:     gapOf(start),
		empty:   -far,
		gate:    -far,
		lowered: -far,
		opened:  -far,
		chance:  chance(c.Seed),
	}
	return r, nil
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
		d.Remaining = int(max(r.burst*r.gap-max(r.empty-at, 0), 0) / r.gap)
	}
	d.ResetAfter = time.Duration(max(r.empty-at, r.gate-at, 0))
	if early := r.time.early(now); early > 0 {
		d.RetryAfter, d.ResetAfter = later(d.RetryAfter, early), later(d.ResetAfter, early)
	}
	return d
}

// untilLocked returns when n units pass, if nothing else happens. n is from 1 to the burst.
func (r *Rate) untilLocked(at, n int64) int64 {
	return max(at, r.empty-(r.burst-n)*r.gap, r.gate)
}

// chargeLocked charges n units that may pass, and before that ends the window if it is long
// enough: of the units that pass now nobody knows yet whether they are refused. It returns
// where now lies then.
func (r *Rate) chargeLocked(now time.Time, at, n int64) int64 {
	at = r.beginLocked(now, at)
	lasted := at - r.opened
	if lasted >= r.length && (r.passed >= r.unitsLocked() || r.passed > 0 && lasted >= int64(longestWindow)) {
		// All but a quarter of what could pass did.
		if r.passed >= lasted/4*3/r.gap {
			r.search.passed()
			r.setLocked(at)
		}
		r.openLocked(at)
	}
	r.empty = max(r.empty, at) + n*r.gap
	r.passed += n
	return at
}

// unitsLocked returns how many units a window needs. Where no refusal is known, each window
// doubles the rate, so it may be short.
func (r *Rate) unitsLocked() int64 {
	if r.search.knee == 0 {
		return 1
	}
	return r.windowUnits
}

// openLocked begins a window.
func (r *Rate) openLocked(at int64) {
	r.opened, r.passed = at, 0
	r.length = max(r.window, r.lag)
	r.length += r.chance.below(r.length / 4)
}

// setLocked makes the level the rate. Units that have passed keep their place in the burst.
func (r *Rate) setLocked(at int64) {
	gap := gapOf(r.search.level)
	if gap == r.gap {
		return
	}
	if owed := min(r.empty-at, r.burst*r.gap); owed > 0 {
		r.empty += scaledUp(owed, gap, r.gap) - owed
	}
	r.gap = gap
}

// beginLocked begins the line of time, or moves its origin to now if that is far away. It
// returns where now lies then.
func (r *Rate) beginLocked(now time.Time, at int64) int64 {
	if r.time.begun && at < far {
		return at
	}
	r.time.move(now, at, &r.empty, &r.gate, &r.lowered, &r.opened)
	if r.opened == -far {
		r.openLocked(0)
	}
	return 0
}
