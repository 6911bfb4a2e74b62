// Package account counts what was charged to a model or to a pool: in the minute, in the day and
// in flight, beside its quota and the rare limits that few have. It has no clock and no lock: each
// moment is a parameter. Package verdict decides by it, package engine changes it.
package account

import (
	"math"
	"time"
)

// Never is the instant that does not come.
const Never = int64(math.MaxInt64)

// Minute is the length of the minute window in nanoseconds, without anybody's margin.
const Minute = int64(time.Minute)

const fullDay = int64(24 * time.Hour)

// Now is one moment. It is read once per public call and passed down.
type Now struct {
	Instant int64 // nanoseconds on a time line that only goes on
	Wall    int64 // the wall clock in UnixNano, which may be set back
}

// WallAt returns what the wall clock of n shows at another instant.
func (n Now) WallAt(instant int64) int64 { return n.Wall - n.Instant + instant }

// TimeAt returns an instant as a time without a monotonic reading.
func (n Now) TimeAt(instant int64) time.Time { return time.Unix(0, n.WallAt(instant)) }

// Time returns the moment as a time without a monotonic reading.
func (n Now) Time() time.Time { return time.Unix(0, n.Wall) }
