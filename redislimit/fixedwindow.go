package redislimit

import (
	"time"

	"github.com/redis/go-redis/v9"
)

// FixedWindow admits up to limit units of a key in each cell of the server's calendar: with a
// minute, from hh:mm:00 until just before the next full minute. The cells are aligned to the Unix
// epoch. Its state is one count.
//
// Around the end of a cell, up to 2*limit units can pass at nearly the same time. Make it with
// NewFixedWindow: the zero FixedWindow must not be used. It is safe for concurrent use.
type FixedWindow struct{ *limiter }

// NewFixedWindow returns a FixedWindow of units, 1 to 2^50, in a window of length, which is whole
// microseconds and up to 35 years. The client stays the caller's. It returns an error that matches
// limit.ErrInvalid and names what is out of range. It does not ask the server.
func NewFixedWindow(client redis.UniversalClient, units int, length time.Duration, o Options) (*FixedWindow, error) {
	w, err := newWindow("new fixed window", client, units, length, &o)
	if err != nil {
		return nil, err
	}
	return &FixedWindow{w.newLimiter(client, cells{w, false}, fixedWindowKind, 1, o)}, nil
}
