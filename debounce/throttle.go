package debounce

import (
	"fmt"
	"time"
)

// NewThrottle returns a [Debouncer] that runs action at most once per interval
// while values keep coming: with the first at once, and then, each time the interval
// is over, with the last that came in it. With Leading only, what comes within the
// interval is dropped; with Trailing only, the first value waits for the end of the
// interval; with neither set, both are. Delay and MaxWait of opts are not used.
//
// Two runs are closer together in three cases, as with throttle of lodash 4, which it
// follows to the instant: after Flush; after Cancel; and when no value has come for an
// interval, so that the next one opens another burst and runs at once, while the last
// burst ended with a run on its trailing edge, less than an interval ago.
//
// It panics when interval is negative and when action is nil.
func NewThrottle[T any](interval time.Duration, opts Options, action func(T)) *Debouncer[T] {
	if interval < 0 {
		panic(fmt.Sprintf("debounce.NewThrottle: interval is %v, want 0 or more", interval))
	}
	if action == nil {
		panic("debounce.NewThrottle: action is nil")
	}
	if !opts.Leading && !opts.Trailing {
		opts.Leading, opts.Trailing = true, true
	}
	opts.Delay, opts.MaxWait = interval, interval
	return New(opts, action)
}
