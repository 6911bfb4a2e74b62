package limit

import (
	"fmt"
	"time"
)

// Rate is Count units in the time Per: Rate{60, time.Minute} is 60 a minute. It is a ratio,
// so Rate{1, time.Second} is the same rate. The zero Rate is invalid: constructors refuse a
// Rate whose Count or Per is not positive.
type Rate struct {
	Count int           // units
	Per   time.Duration // the time in which so many pass
}

// PerSecond returns a rate of n units a second.
func PerSecond(n int) Rate { return Rate{n, time.Second} }

// PerMinute returns a rate of n units a minute.
func PerMinute(n int) Rate { return Rate{n, time.Minute} }

// Every returns a rate of one unit in d.
func Every(d time.Duration) Rate { return Rate{1, d} }

// Limit returns the rate in units a second, for a TokenBucket. It is Inf for a Rate whose
// Per is not positive.
func (r Rate) Limit() Limit {
	if r.Per <= 0 {
		return Inf
	}
	return Limit(float64(r.Count) / r.Per.Seconds())
}

// String returns the rate as "60/1m0s".
func (r Rate) String() string { return fmt.Sprintf("%d/%v", r.Count, r.Per) }

// maxSpan is the longest window, and the longest time for which a limiter may have to
// remember a charge: 36 years. A sum of a few of them fits an int64 of nanoseconds.
const maxSpan = time.Duration(1 << 60)

// validate returns an error that names the field of the rate that is out of range.
func (r Rate) validate(operation string) error {
	switch {
	case r.Count <= 0:
		return fmt.Errorf("%s: %w: rate.Count is %d, want 1 or more", operation, ErrInvalid, r.Count)
	case r.Per <= 0:
		return fmt.Errorf("%s: %w: rate.Per is %v, want more than 0", operation, ErrInvalid, r.Per)
	case r.Per > maxSpan:
		return fmt.Errorf("%s: %w: rate.Per is %v, want at most %v", operation, ErrInvalid, r.Per, maxSpan)
	}
	return nil
}

// validateWindow returns an error that names the parameter that is out of range.
func validateWindow(operation string, limit int, window time.Duration) error {
	switch {
	case limit <= 0:
		return fmt.Errorf("%s: %w: limit is %d, want 1 or more", operation, ErrInvalid, limit)
	case window <= 0:
		return fmt.Errorf("%s: %w: window is %v, want more than 0", operation, ErrInvalid, window)
	case window > maxSpan:
		return fmt.Errorf("%s: %w: window is %v, want at most %v", operation, ErrInvalid, window, maxSpan)
	}
	return nil
}

// tooFast returns the error for a rate of more than one unit in a nanosecond.
func (r Rate) tooFast(operation string) error {
	return fmt.Errorf("%s: %w: rate is %v, want at most one in a nanosecond", operation, ErrInvalid, r)
}
