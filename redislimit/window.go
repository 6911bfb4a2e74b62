package redislimit

import (
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"dappco.re/go/core/go-ratelimit/internal/slidingwindow"
	"dappco.re/go/core/go-ratelimit/limit"
)

// window is the limit of the limiters that count units in a window.
type window struct {
	limit  int
	length int64 // microseconds
}

// newWindow checks the parameters of a constructor, and sets what is zero in the Options. Its error
// names what is out of range.
func newWindow(operation string, client redis.UniversalClient, units int, length time.Duration, o *Options) (window, error) {
	if err := o.check(operation, client); err != nil {
		return window{}, err
	}
	switch {
	case units <= 0 || units > maxUnits:
		return window{}, fmt.Errorf("%s: %w: limit is %d, want 1 to 2^50", operation, limit.ErrInvalid, units)
	case length <= 0 || length > maxWindow:
		return window{}, fmt.Errorf("%s: %w: window is %v, want 1µs to %v", operation, limit.ErrInvalid, length, maxWindow)
	case length%time.Microsecond != 0:
		return window{}, fmt.Errorf("%s: %w: window is %v, want whole microseconds", operation, limit.ErrInvalid, length)
	}
	return window{units, length.Microseconds()}, nil
}

// maxWindow is the longest window, and the longest time that a full bucket may take to drain: 35
// years.
const maxWindow = 35 * 365 * 24 * time.Hour

func (w window) most() int        { return w.limit }
func (w window) identity() string { return fmt.Sprint(w.length) }
func (w window) args(n int) []any { return []any{n, w.limit, w.length, 0, 0} }

func (w window) basis() [2]int64 { return [2]int64{w.length, 1} }

func (w window) duration() time.Duration { return microseconds(w.length) }

// cells are the counts of the current cell and of the one before, when left of the current one is
// left.
type cells struct {
	current, previous, left int64
}

// decide is the decision on n units. slides tells whether the cell before counts.
func (w window) decide(c cells, n int, charged bool) (d limit.Decision) {
	remaining := int64(w.limit) - c.current - slidingwindow.Weighted(c.previous, c.left, w.length)
	switch units := int64(n); {
	case n == 0:
		d.OK = true
	case units > remaining:
		d.RetryAfter = microseconds(w.until(c, int64(w.limit)-units))
	default:
		d.OK = true
		if charged {
			c.current += units
			remaining -= units
		}
	}
	d.Remaining = int(max(remaining, 0))
	d.ResetAfter = microseconds(w.until(c, 0))
	return d
}

// until returns in how many microseconds at most room units count. The previous count of a window
// that does not slide is none, and its current one is gone with the cell.
func (w window) until(c cells, room int64) int64 {
	if c.current <= room {
		return max(slidingwindow.Fades(c.previous, room-c.current, w.length)-(w.length-c.left), 0)
	}
	return c.left + slidingwindow.Fades(c.current, room, w.length)
}

// microseconds returns a time, or the longest Duration if it is longer than that.
func microseconds(us int64) time.Duration {
	const longest = 1<<63 - 1
	if us > longest/1000 {
		return longest
	}
	return time.Duration(us) * time.Microsecond
}
