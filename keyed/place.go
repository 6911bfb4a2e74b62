package keyed

import (
	"math"
	"math/big"
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
	at := new(big.Int).Mul(big.NewInt(seconds), big.NewInt(int64(time.Second)))
	at.Add(at, big.NewInt(nanos))
	sequence, elapsed := at.DivMod(at, big.NewInt(int64(window)), new(big.Int)) // rounds down
	switch most := big.NewInt(maxSequence); {
	case sequence.Cmp(most) > 0:
		return place{maxSequence, 0}
	case sequence.CmpAbs(most) > 0:
		return place{-1 - maxSequence, window - 1}
	}
	return place{sequence.Int64(), time.Duration(elapsed.Int64())}
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
