package redislimit

import (
	"fmt"
	"math/bits"
	"time"

	"dappco.re/go/core/go-ratelimit/limit"
)

// window is the limit of the limiters that count units in a window.
type window struct {
	limit  int
	length int64 // microseconds
}

// newWindow returns an error that names the parameter that is out of range.
func newWindow(operation string, units int, length time.Duration) (window, error) {
	switch {
	case units <= 0 || int64(units) > maxUnits:
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
	remaining := int64(w.limit) - c.current - weighted(c.previous, c.left, w.length)
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
		return max(fades(c.previous, room-c.current, w.length)-(w.length-c.left), 0)
	}
	return c.left + fades(c.current, room, w.length)
}

// weighted returns ⌊count × left / window⌋, where left is at most the window.
func weighted(count, left, window int64) int64 {
	high, low := bits.Mul64(uint64(count), uint64(left))
	n, _ := bits.Div64(high, low, uint64(window))
	return int64(n)
}

// fades returns how much of a cell has to elapse until at most room of the count of the cell before
// counts.
func fades(count, room, window int64) int64 {
	if count <= room {
		return 0
	}
	// Of window−e, the most that is less than (room+1) × window / count.
	high, low := bits.Mul64(uint64(room)+1, uint64(window))
	low, borrow := bits.Sub64(low, 1, 0)
	left, _ := bits.Div64(high-borrow, low, uint64(count))
	return window - int64(left)
}

// microseconds returns a time, or the longest Duration if it is longer than that.
func microseconds(us int64) time.Duration {
	const longest = 1<<63 - 1
	if us > longest/1000 {
		return longest
	}
	return time.Duration(us) * time.Microsecond
}
