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
	return validate(operation, "rate.Count", r.Count, "rate.Per", r.Per)
}

// validate returns an error that names the parameter that is out of range: a count or a time.
func validate(operation, count string, n int, span string, d time.Duration) error {
	switch {
	case n <= 0:
		return fmt.Errorf("%s: %w: %s is %d, want 1 or more", operation, ErrInvalid, count, n)
	case d <= 0:
		return fmt.Errorf("%s: %w: %s is %v, want more than 0", operation, ErrInvalid, span, d)
	case d > maxSpan:
		return fmt.Errorf("%s: %w: %s is %v, want at most %v", operation, ErrInvalid, span, d, maxSpan)
	}
	return nil
}

// made returns what a constructor made, or nil and its error.
func made[L any](l *L, err error) (*L, error) {
	if err != nil {
		return nil, err
	}
	return l, nil
}
