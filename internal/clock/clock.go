// Package clock tells a limiter's time: its own time line of instants and the distance of
// that to the wall clock, the time of the machine that processes share, the days of a
// time zone, and the text of durations.
//
// The limiter, its windows and its shared database decide by it. An instant is a number of
// nanoseconds on one Clock's time line; a time of the wall clock, as a number, is that of
// time.Time.UnixNano.
package clock

import (
	"math"
	"time"
)

const (
	// checkEvery is for how many nanoseconds a Clock trusts the distance that it measured
	// between the monotonic and the wall clock.
	checkEvery = int64(time.Millisecond)
	// step is how many nanoseconds the two clocks must have moved apart to call it a step
	// of the wall clock. Less is the jitter of reading one after the other, and following
	// that would make the times of equal distances unequal.
	step = int64(time.Millisecond)
)

// Clock is a time line, in nanoseconds of the monotonic clock, and its distance to the wall
// clock. Reading it costs one monotonic reading, about half of time.Now; only every
// millisecond does Sync read both clocks.
//
// The zero value is a Clock that must be synced before its other methods are used. Sync and
// Compare change it, and need a lock that no other method runs beside; the others may run
// beside each other.
type Clock struct {
	// Wall reads the wall clock; nil is time.Now. It may be changed under the lock of Sync.
	Wall func() time.Time
	// Skew returns how far another clock is ahead of the wall clock. The Clock then tells the time
	// of that one. Nil is none. It may be changed under the lock of Sync.
	Skew func() time.Duration

	ref   time.Time     // a reading of time.Now
	shown time.Time     // the reading of the wall clock at ref
	base  int64         // ref on the time line
	ahead int64         // of the wall clock: add it to an instant to get UnixNano
	skew  time.Duration // that is in shown
	next  int64         // the instant from which the clocks have to be compared again
}

// Now returns the present instant.
func (c *Clock) Now() int64 { return c.base + int64(time.Since(c.ref)) }

// At returns an instant as a time with both readings, monotonic and of the wall clock.
func (c *Clock) At(instant int64) time.Time {
	return c.shown.Add(time.Duration(instant - c.base))
}

// UnixNano returns the time of the wall clock at an instant.
func (c *Clock) UnixNano(instant int64) int64 { return instant + c.ahead }

// Own returns what the Clock shows when the program's own clock shows t.
func (c *Clock) Own(t time.Time) time.Time { return t.Add(c.skew) }

// Due reports whether the clocks have to be compared at an instant: Sync would do it.
func (c *Clock) Due(instant int64) bool { return instant >= c.next }

// Sync returns the present instant, and compares the clocks if that is due.
func (c *Clock) Sync() int64 {
	if now := c.Now(); now < c.next {
		return now
	}
	return c.Compare()
}

// Compare reads both clocks, whether that is due or not, and returns the present instant. A
// step of the wall clock since the last comparison changes the distance to it, and leaves
// the time line alone.
func (c *Clock) Compare() int64 {
	t := time.Now()
	shown := t
	if c.Wall != nil {
		shown = c.Wall()
	}
	skew := time.Duration(0)
	if c.Skew != nil {
		skew = c.Skew()
		shown = shown.Add(skew)
	}
	if c.ref.IsZero() {
		c.ref, c.shown, c.skew, c.base, c.ahead = t, shown, skew, 0, shown.UnixNano()
	}
	now := c.base + int64(t.Sub(c.ref))
	if moved := shown.UnixNano() - now - c.ahead; moved > step || moved < -step {
		c.ref, c.shown, c.skew, c.base, c.ahead = t, shown, skew, now, c.ahead+moved
	}
	c.next = now + checkEvery
	return now
}

// InBubble reports whether the Clock was synced in a bubble of testing/synctest, where times
// have no monotonic reading.
func (c *Clock) InBubble() bool { return c.ref == c.ref.Round(0) }

var (
	firstNano = time.Unix(0, math.MinInt64)
	lastNano  = time.Unix(0, math.MaxInt64)
)

// UnixNano is t.UnixNano, held at the ends of the range of int64 where that would be
// undefined (before 1678, after 2262).
func UnixNano(t time.Time) int64 {
	switch {
	case t.Before(firstNano):
		return math.MinInt64
	case t.After(lastNano):
		return math.MaxInt64
	}
	return t.UnixNano()
}
