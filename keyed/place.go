package keyed

import (
	"math"
	"math/bits"
	"time"
)

// instant is an instant, and where it lies in the cells of a window. It follows the wall clock.
type instant struct {
	place
	nanos  int64 // since the Unix epoch; beyond the years 1678 to 2261, the first or last of them
	window time.Duration
}

// place is where an instant lies in the cells of a window.
type place struct {
	sequence int64         // of the cell, as in Cell
	elapsed  time.Duration // of the cell
}

const (
	// maxSeconds are the seconds since the Unix epoch whose nanoseconds fit an int64.
	maxSeconds = math.MaxInt64/int64(time.Second) - 1
	// maxSequence bounds the cells. A year beyond it, the 146 millionth or later, is the last.
	maxSequence = math.MaxInt64 / 2
)

func instantOf(now time.Time, window time.Duration) instant {
	seconds, nanos := now.Unix(), int64(now.Nanosecond())
	switch {
	case seconds > maxSeconds:
		return instant{distantPlace(seconds, nanos, window), math.MaxInt64 - 1, window}
	case seconds < -maxSeconds:
		return instant{distantPlace(seconds, nanos, window), math.MinInt64, window}
	}
	nanos += seconds * int64(time.Second)
	return instant{placeOf(nanos, window), nanos, window}
}

// placeOf returns the place of an instant in nanoseconds since the Unix epoch.
func placeOf(nanos int64, window time.Duration) place {
	sequence, elapsed := nanos/int64(window), nanos%int64(window)
	if elapsed < 0 {
		sequence--
		elapsed += int64(window)
	}
	return place{sequence, time.Duration(elapsed)}
}

// distantPlace returns the place of an instant whose nanoseconds do not fit an int64.
func distantPlace(seconds, nanos int64, window time.Duration) place {
	// Cells repeat: shift the instant by whole cells of the window to a positive one.
	high, low := bits.Mul64(uint64(seconds), uint64(time.Second))
	if seconds < 0 {
		high -= uint64(time.Second)
	}
	low, carry := bits.Add64(low, uint64(nanos), 0)
	high += carry
	negative := int64(high) < 0
	if negative { // of −x, count x−1 from the other side
		high, low = ^high, ^low
	}
	var p place
	quotient, rest := uint64(math.MaxUint64), uint64(0)
	if high < uint64(window) {
		quotient, rest = bits.Div64(high, low, uint64(window))
	}
	if quotient > maxSequence {
		quotient, rest = maxSequence, 0
	}
	p = place{int64(quotient), time.Duration(rest)}
	if negative {
		p = place{-1 - p.sequence, window - 1 - p.elapsed}
	}
	return p
}

// behind returns how long after i the cell with the given sequence begins, if that is later.
func (i *instant) behind(sequence int64) time.Duration {
	if sequence <= i.sequence {
		return 0
	}
	high, low := bits.Mul64(uint64(sequence)-uint64(i.sequence), uint64(i.window))
	if high > 0 || low > math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(low) - i.elapsed
}
