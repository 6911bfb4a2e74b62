package keyed

import (
	"math"
	"math/bits"
	"time"

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
func (c counts) decide(most, cost int64, at weighing) limit.Decision {
	var d limit.Decision
	unheld := most - c.held // negative if another request has a higher limit
	remaining := unheld
	if remaining >= 0 {
		remaining -= c.current
	}
	if remaining >= 0 {
		remaining -= weighted(c.previous, at.window-at.elapsed, at.window)
	}
	switch {
	case cost <= remaining:
		d.OK = true
		c.current += cost
		remaining -= cost
	case cost > most:
		d.Never = true
	case cost <= unheld:
		d.RetryAfter = addTime(c.until(at, unheld-cost), at.behind)
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

// weighted returns ⌊count × left / window⌋, where left is at most the window.
func weighted(count int64, left, window time.Duration) int64 {
	if count == 0 {
		return 0
	}
	if left == window {
		return count
	}
	high, low := bits.Mul64(uint64(count), uint64(left))
	n, _ := bits.Div64(high, low, uint64(window))
	return int64(n)
}

// fades returns how much of a cell has to elapse until at most room of the count of the cell
// before counts: the least e with ⌊count × (window−e) / window⌋ ≤ room, and the whole window if
// there is none below it.
func fades(count, room int64, window time.Duration) time.Duration {
	if count <= room {
		return 0
	}
	// Of window−e, the most that is less than (room+1) × window / count.
	high, low := bits.Mul64(uint64(room)+1, uint64(window))
	low, borrow := bits.Sub64(low, 1, 0)
	left, _ := bits.Div64(high-borrow, low, uint64(count))
	return window - time.Duration(left)
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
