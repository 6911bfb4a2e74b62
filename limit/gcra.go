package limit

import (
	"fmt"
	"time"
)

// GCRA is the generic cell rate algorithm (ITU-T I.371) behind a mutex: a bucket that
// admits up to burst units at once, and one more every T = Per/Count, rounded up to a
// nanosecond. Its state is one instant. It admits at most burst + t/T units in any time t.
// Make it with NewGCRA: the zero GCRA panics. It is safe for concurrent use.
type GCRA struct{ bucketed }

// NewGCRA returns a GCRA with its whole burst. It returns an error that matches ErrInvalid
// for a rate that is not positive or above one unit in a nanosecond, for a burst below 1,
// and for a burst that takes longer than 36 years at this rate.
func NewGCRA(rate Rate, burst int) (*GCRA, error) {
	g := new(GCRA)
	return made(g, g.begin(newIntervals("new GCRA", "burst", rate, burst)))
}

// newIntervals returns a bucket whose units take whole nanoseconds to drain, rounded up.
// name is that of the capacity in errors.
func newIntervals(operation, name string, rate Rate, capacity int) (bucket, error) {
	if err := rate.validate(operation); err != nil {
		return bucket{}, err
	}
	if int64(rate.Count) > int64(rate.Per) {
		return bucket{}, fmt.Errorf("%s: %w: rate is %v, want at most one in a nanosecond", operation, ErrInvalid, rate)
	}
	count := time.Duration(rate.Count)
	return newBucket(operation, name, 1, (rate.Per+count-1)/count, capacity)
}
