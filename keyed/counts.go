package keyed

import (
	"math"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/slidingwindow"
	"dappco.re/go/core/go-ratelimit/limit"
)

// counts is what a counter holds in a cell: units charged in it and in the cell before, and units
// on hold. None is negative.
type counts struct {
	current, previous, held int64
}

// weighing is where in its cell counts are weighed.
type weighing struct {
	elapsed, window time.Duration
	behind          time.Duration // how far the request is before that
}

// decide returns the decision on cost units: it is OK if and only if
//
//	current + ⌊previous × (window−elapsed) / window⌋ + held + cost ≤ most
func (c counts) decide(most, cost int, at weighing) limit.Decision {
	var d limit.Decision
	units := int64(cost)
	unheld := int64(most) - c.held // negative if another request has a higher limit
	remaining := unheld
	if remaining >= 0 {
		remaining -= c.current
	}
	if remaining >= 0 {
		remaining -= slidingwindow.Weighted(c.previous, int64(at.window-at.elapsed), int64(at.window))
	}
	switch {
	case units <= remaining:
		d.OK = true
		c.current += units
		remaining -= units
	case cost > most:
		d.Never = true
	case units <= unheld:
		d.RetryAfter = addTime(c.until(at, unheld-units), at.behind)
	}
	d.Remaining = int(min(max(remaining, 0), math.MaxInt))
	if reset := c.until(at, 0); reset > 0 {
		d.ResetAfter = addTime(reset, at.behind)
	}
	return d
}

// until returns how long it takes until the charged units weigh at most room. It is not positive
// if they do at once.
func (c counts) until(at weighing, room int64) time.Duration {
	if c.current <= room {
		return fades(c.previous, room-c.current, at.window) - at.elapsed
	}
	return at.window - at.elapsed + fades(c.current, room, at.window)
}

func fades(count, room int64, window time.Duration) time.Duration {
	return time.Duration(slidingwindow.Fades(count, room, int64(window)))
}

// addUnits returns a+b, which are not negative, or the largest int64 if the sum overflows.
func addUnits(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// addTime returns a+b, which are not negative, or the longest Duration if the sum overflows.
func addTime(a, b time.Duration) time.Duration {
	return time.Duration(addUnits(int64(a), int64(b)))
}

// later returns the counts of a cell that comes after the one of c: held units stay.
func (c counts) later(sequence, from int64) counts {
	next := counts{held: c.held}
	if sequence-1 == from {
		next.previous = c.current
	}
	return next
}
