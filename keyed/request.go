package keyed

import (
	"fmt"
	"time"
)

// The bounds of Request.Window.
const (
	minWindow = time.Millisecond
	maxWindow = 400 * 24 * time.Hour
)

// Free is the Cost of a request that charges nothing. It fits where 0 units do.
const Free = -1

// Request asks for Cost units of a counter. Namespace, Key and Window together name the counter:
// no two of them that differ in a part share one, whatever characters the parts contain. Limit is
// not a part of the name, so it may differ between the requests on a counter.
type Request struct {
	Namespace string        // what is counted, such as "requests" or "tokens"; not empty
	Key       string        // on whose account, such as a tenant; not empty
	Limit     int           // units that may pass per Window, 1 or more
	Window    time.Duration // length of the window, 1 ms to 400 days
	Cost      int           // units of this request, 1 or more; 0 is 1; or Free
}

// valid reports whether all fields are in their range.
func (r *Request) valid() bool {
	return r.Namespace != "" && r.Key != "" && r.Limit >= 1 && r.Cost >= Free &&
		minWindow <= r.Window && r.Window <= maxWindow
}

// resolve makes Cost the number of units that a valid request asks for: 1 for 0, and 0 for Free.
func (r *Request) resolve() {
	if r.Cost <= 0 {
		r.Cost++
	}
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
	case r.Cost < Free:
		return fmt.Errorf("%s: %w: Cost is %d, want 0 or more, or Free", operation, ErrInvalid, r.Cost)
	}
	return nil
}
