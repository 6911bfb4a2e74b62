package limit

import (
	"math"
	"math/bits"
	"time"
)

// cells follows the clock through cells of one length. Aligned cells lie on the calendar,
// one of them begins at the Unix epoch, and they follow the wall clock. Of the others, each
// begins with the first charge after the end of the cell before.
type cells struct {
	length  time.Duration
	aligned bool
	latest  time.Time     // the latest charge or hold
	elapsed time.Duration // of the cell, at latest
	number  int64         // of the cell, 0 before the first; only tells which cells adjoin
}

// place is where an instant lies in the cells. An instant before the latest lies where that
// does.
type place struct {
	cell    int64         // its number
	elapsed time.Duration // of the cell
	behind  time.Duration // how far the instant is before the latest
	latest  time.Time
}

// at returns the place of an instant, and moves nothing: a request that charges nothing
// leaves no trace.
func (c *cells) at(now time.Time) place {
	if c.aligned {
		now = now.Round(0)
	}
	if c.number == 0 {
		return place{cell: 1, elapsed: c.start(now), latest: now}
	}
	ahead := now.Sub(c.latest)
	p := place{cell: c.number, latest: now}
	if ahead < 0 {
		p.behind, p.latest = c.latest.Sub(now), c.latest
		ahead = 0
	}
	switch left := c.length - c.elapsed; {
	case ahead < left:
		p.elapsed = c.elapsed + ahead
	case ahead < left+c.length:
		p.cell++
		if c.aligned {
			p.elapsed = ahead - left
		}
	default: // any number of cells later; the one before is empty
		p.cell += 2
		p.elapsed = c.start(p.latest)
	}
	return p
}

// within returns how far an instant is ahead of the latest; ok reports that it is in the
// same cell and not before the latest. within and stay are at and moveTo for such instants,
// and take less time.
func (c *cells) within(now time.Time) (ahead time.Duration, ok bool) {
	ahead = now.Sub(c.latest)
	return ahead, c.number != 0 && ahead >= 0 && ahead < c.length-c.elapsed
}

// stay moves to an instant in the cell of the latest.
func (c *cells) stay(now time.Time, ahead time.Duration) {
	if c.aligned {
		now = now.Round(0)
	}
	c.latest = now
	c.elapsed += ahead
}

// start returns how much of a cell has elapsed at the instant that opens it.
func (c *cells) start(now time.Time) time.Duration {
	if !c.aligned {
		return 0
	}
	return sinceEpoch(now, c.length)
}

func (c *cells) moveTo(p place) {
	c.latest, c.elapsed, c.number = p.latest, p.elapsed, p.cell
}

// sinceEpoch returns the time since the Unix epoch modulo length. It is right even in years
// whose nanoseconds do not fit an int64.
func sinceEpoch(now time.Time, length time.Duration) time.Duration {
	seconds := now.Unix()%int64(length) + int64(length) // not negative
	high, low := bits.Mul64(uint64(seconds), uint64(time.Second))
	low, carry := bits.Add64(low, uint64(now.Nanosecond()), 0)
	return time.Duration(bits.Rem64(high+carry, low, uint64(length)))
}

// sum returns a+b, which are not negative, or the longest Duration if the sum overflows.
func sum(a, b time.Duration) time.Duration {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
