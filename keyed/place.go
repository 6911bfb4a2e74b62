package keyed

import (
	"math"
	"math/bits"
	"time"
)

// place is where an instant lies in the cells of a window.
type place struct {
	sequence int64         // of the cell, as in Cell
	elapsed  time.Duration // of the cell
}

// The seconds since the Unix epoch whose nanoseconds fit an int64.
const maxSeconds = math.MaxInt64/int64(time.Second) - 1

// placeOf returns the place of an instant. A sequence that does not fit an int64, which takes a
// year beyond the 292 millionth, counts as the last or first that does.
func placeOf(now time.Time, window time.Duration) place {
	seconds := now.Unix()
	if -maxSeconds < seconds && seconds < maxSeconds {
		nanos := seconds*int64(time.Second) + int64(now.Nanosecond())
		sequence, elapsed := nanos/int64(window), nanos%int64(window)
		if elapsed < 0 {
			sequence--
			elapsed += int64(window)
		}
		return place{sequence, time.Duration(elapsed)}
	}
	return distantPlace(seconds, int64(now.Nanosecond()), uint64(window))
}

func distantPlace(seconds, nanos int64, window uint64) place {
	magnitude := uint64(max(seconds, -seconds))
	if seconds == math.MinInt64 {
		magnitude = 1 << 63
	}
	high, low := bits.Mul64(magnitude, uint64(time.Second))
	if seconds >= 0 {
		var carry uint64
		low, carry = bits.Add64(low, uint64(nanos), 0)
		high += carry
	} else {
		var borrow uint64
		low, borrow = bits.Sub64(low, uint64(nanos), 0)
		high -= borrow
	}
	if high >= window || high == window-1 {
		return farthest(seconds)
	}
	sequence, rest := bits.Div64(high, low, window)
	if sequence >= math.MaxInt64 {
		return farthest(seconds)
	}
	if seconds >= 0 {
		return place{int64(sequence), time.Duration(rest)}
	}
	if rest == 0 {
		return place{-int64(sequence), 0}
	}
	return place{-int64(sequence) - 1, time.Duration(window - rest)}
}

func farthest(seconds int64) place {
	if seconds < 0 {
		return place{sequence: math.MinInt64 / 2}
	}
	return place{sequence: math.MaxInt64 / 2}
}

// behind returns how long after p the cell with the given sequence begins, if that is later.
func (p place) behind(sequence int64, window time.Duration) time.Duration {
	if sequence <= p.sequence {
		return 0
	}
	high, low := bits.Mul64(uint64(sequence)-uint64(p.sequence), uint64(window))
	if high > 0 || low > math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(low) - p.elapsed
}
