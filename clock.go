package ratelimit

import (
	"math"
	"time"
)

const (
	// clockCheck is how long the limiter trusts the distance that it measured
	// between the monotonic and the wall clock.
	clockCheck = int64(time.Millisecond)
	// clockStep is how far the two clocks must have moved apart to call it a
	// step of the wall clock. Less is the jitter of reading one after the other,
	// and following that would make the times of equal distances unequal.
	clockStep = int64(time.Millisecond)
)

// clock is the limiter's own time line, in nanoseconds of the monotonic clock,
// and its distance to the wall clock. Reading it costs one monotonic reading,
// about half of time.Now; only every clockCheck are both clocks read.
//
// The zero value is a clock that has to be synced before use.
type clock struct {
	ref   time.Time // a reading of both clocks
	shown time.Time // the same for everybody else: tests have limiters with other wall clocks
	base  int64     // ref on the time line
	wall  int64     // what to add to an instant of the time line to get UnixNano
	next  int64     // when the clocks have to be compared again
	skew  time.Duration
}

// now returns the present instant on the time line.
func (c *clock) now() int64 { return c.base + int64(time.Since(c.ref)) }

// at returns an instant of the time line as a time with both readings.
func (c *clock) at(instant int64) time.Time {
	return c.shown.Add(time.Duration(instant - c.base))
}

// sync returns the present instant and compares the clocks when that is due.
func (c *clock) sync() int64 {
	if now := c.now(); now < c.next {
		return now
	}
	return c.compare()
}

// compare reads both clocks, and returns the present instant.
func (c *clock) compare() int64 {
	t := time.Now()
	shown := t.Add(c.skew)
	if c.ref.IsZero() {
		c.ref, c.shown, c.base, c.wall = t, shown, 0, shown.UnixNano()
	}
	now := c.base + int64(t.Sub(c.ref))
	if moved := shown.UnixNano() - now - c.wall; moved > clockStep || moved < -clockStep {
		c.ref, c.shown, c.base, c.wall = t, shown, now, c.wall+moved
	}
	c.next = now + clockCheck
	return now
}

var (
	firstNano = time.Unix(0, math.MinInt64)
	lastNano  = time.Unix(0, math.MaxInt64)
)

// unixNano is t.UnixNano, held at the ends of the range of int64 where that
// would be undefined (before 1678, after 2262).
func unixNano(t time.Time) int64 {
	switch {
	case t.Before(firstNano):
		return math.MinInt64
	case t.After(lastNano):
		return math.MaxInt64
	}
	return t.UnixNano()
}
