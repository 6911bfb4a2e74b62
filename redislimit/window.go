package redislimit

import (
	"strconv"
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
		return window{}, invalid(operation, "limit is %d, want 1 to 2^50", units)
	case length <= 0 || length > maxWindow:
		return window{}, invalid(operation, "window is %v, want 1µs to %v", length, maxWindow)
	case length%time.Microsecond != 0:
		return window{}, invalid(operation, "window is %v, want whole microseconds", length)
	}
	return window{units, length.Microseconds()}, nil
}

// newLimiter returns a limiter of a kind whose state is of one length of the window.
func (w window) newLimiter(client redis.UniversalClient, a algorithm, k kind, grain int64, o Options, args ...any) *limiter {
	args = append([]any{w.limit, w.length}, args...)
	return newLimiter(client, a, k, strconv.FormatInt(w.length, 10), w.limit, [2]int64{w.length, grain}, o, args...)
}

// maxWindow is the longest window, and the longest time that a full bucket may take to drain: 35
// years.
const maxWindow = 35 * 365 * 24 * time.Hour

func (w window) cost(to []any, n int) []any { return append(to, n) }

func (w window) duration() time.Duration { return microseconds(w.length) }

// cells is the limit of the limiters that count units in the cells of the calendar.
type cells struct {
	window
	slides bool // the cell before counts, too
}

func (c cells) decide(state string, now int64, n int, charged bool) (d limit.Decision, err error) {
	var at, current, previous int64
	if c.slides {
		err = numbers(state, &at, &current, &previous)
	} else {
		err = numbers(state, &at, &current)
	}
	if err != nil {
		return d, err
	}
	start := now - now%c.length
	switch {
	case at >= start: // if the clock went back, the counts are of these cells
	case at == start-c.length && c.slides:
		current, previous = 0, current
	default:
		current, previous = 0, 0
	}
	left := start + c.length - now
	// until returns when at most room units count. Those of a cell that does not slide are gone
	// with it.
	until := func(room int64) time.Duration {
		switch {
		case current <= room:
			return microseconds(max(slidingwindow.Fades(previous, room-current, c.length)-(c.length-left), 0))
		case !c.slides:
			return microseconds(left)
		}
		return microseconds(left + slidingwindow.Fades(current, room, c.length))
	}
	units := int64(n)
	remaining := int64(c.limit) - current - slidingwindow.Weighted(previous, left, c.length)
	switch {
	case n == 0:
		d.OK = true
	case units > remaining:
		d.RetryAfter = until(int64(c.limit) - units)
	default:
		d.OK = true
		if charged {
			current += units
			remaining -= units
		}
	}
	d.Remaining = int(max(remaining, 0))
	d.ResetAfter = until(0)
	return d, nil
}

func (c cells) local(share Failure) (limit.Limiter, error) {
	if c.slides {
		return limit.NewSlidingCounter(share.of(c.limit), c.duration())
	}
	return limit.NewFixedWindow(share.of(c.limit), c.duration())
}

// microseconds returns a time, or the longest Duration if it is longer than that.
func microseconds(us int64) time.Duration {
	const longest = 1<<63 - 1
	if us > longest/1000 {
		return longest
	}
	return time.Duration(us) * time.Microsecond
}
