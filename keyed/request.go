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

// valid reports whether all fields are in their range.
func (r *Request) valid() bool {
	return r.Namespace != "" && r.Key != "" && r.Limit >= 1 && r.Cost >= 0 &&
		minWindow <= r.Window && r.Window <= maxWindow
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
