package keyed

import (
	"fmt"
	"math"
	"time"

	"dappco.re/go/core/go-ratelimit/limit"
)

// The bounds of Request.Window.
const (
	minWindow = time.Millisecond
	maxWindow = 400 * 24 * time.Hour
)

// Request asks for Cost units of a counter. Namespace, Key and Window together name the counter:
// no two of them that differ in a part share one, whatever characters the parts contain. Limit is
// not a part of the name, so it may differ between the requests on a counter.
type Request struct {
	Namespace string        // what is counted, such as "requests" or "tokens"; not empty
	Key       string        // on whose account, such as a tenant; not empty
	Limit     int64         // units that may pass per Window, 1 or more
	Window    time.Duration // length of the window, 1 ms to 400 days
	Cost      int64         // units of this request, 0 or more; 0 charges nothing and reports the state
}

// validate returns an error that names the field out of range.
func (r *Request) validate(operation string) error {
	switch {
	case r.Namespace == "":
		return fmt.Errorf("%s: %w: Namespace is empty", operation, ErrInvalid)
	case r.Key == "":
		return fmt.Errorf("%s: %w: Key is empty", operation, ErrInvalid)
	case r.Limit < 1:
		return fmt.Errorf("%s: %w: Limit is %d, want 1 or more", operation, ErrInvalid, r.Limit)
	case r.Window < minWindow || r.Window > maxWindow:
		return fmt.Errorf("%s: %w: Window is %v, want 1ms to 9600h", operation, ErrInvalid, r.Window)
	case r.Cost < 0:
		return fmt.Errorf("%s: %w: Cost is %d, want 0 or more", operation, ErrInvalid, r.Cost)
	}
	return nil
}

// decide returns the decision on cost units beside the ones that are counted, at an instant that
// is elapsed into the cell of c. The instant at which c holds is later than now by behind.
func (c counts) decide(most, cost int64, elapsed, window, behind time.Duration) limit.Decision {
	var d limit.Decision
	left := window - elapsed
	unheld := most - min(c.held, most)
	used := addUnits(c.current, weighted(c.previous, left, window))
	remaining := int64(0)
	if used <= unheld {
		remaining = unheld - used
	}
	fits := c.held <= most && used <= unheld && cost <= remaining
	switch {
	case fits:
		d.OK = true
		d.Remaining = clampInt(remaining - cost)
	default:
		d.Remaining = clampInt(remaining)
		switch {
		case cost > most:
			d.Never = true
		case c.held > most || cost > unheld: // only the end of a hold helps
		default:
			d.RetryAfter = addTime(c.until(elapsed, window, unheld-cost), behind)
		}
	}
	if d.OK {
		c.current += cost
	}
	if reset := c.until(elapsed, window, 0); reset > 0 {
		d.ResetAfter = addTime(reset, behind)
	}
	return d
}

func clampInt(n int64) int { return int(min(n, math.MaxInt)) }
