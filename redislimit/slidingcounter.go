package redislimit

import (
	"time"

	"github.com/redis/go-redis/v9"
)

// SlidingCounter estimates the units of the window before now from the counts of the current cell
// and of the cell before, as limit.SlidingCounter does. It admits n units of a key if
//
//	⌊previous × (window−elapsed) / window⌋ + current + n ≤ limit
//
// where elapsed is the part of the current cell that has passed. The cells are aligned to the Unix
// epoch by the server's clock. Its state is two counts.
//
// A cell never holds more than limit units; any other time as long as the window holds up to
// 2*limit. Make it with NewSlidingCounter: the zero SlidingCounter must not be used. It is safe for
// concurrent use.
type SlidingCounter struct{ *limiter }

// NewSlidingCounter returns a SlidingCounter. Its parameters and errors are those of
// NewFixedWindow.
func NewSlidingCounter(client redis.UniversalClient, units int, length time.Duration, o Options) (*SlidingCounter, error) {
	w, err := newWindow("new sliding counter", client, units, length, &o)
	if err != nil {
		return nil, err
	}
	return &SlidingCounter{w.newLimiter(client, cells{w, true}, slidingCounterKind, 1, o)}, nil
}
