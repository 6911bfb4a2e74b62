package debounce

import (
	"fmt"
	"time"
)

// NewThrottle returns a [Debouncer] that runs action at most once per interval while values
// keep coming: at once with the first value, and then at the end of each interval with the
// last value of it. With Leading only, values within the interval are dropped; with
// Trailing only, the first value waits for the end of the interval. If neither is set, both
// are the default. Delay and MaxWait of opts are not used.
//
// It follows throttle of lodash 4 to the instant. As there, two runs are closer together in
// three cases: after Flush; after Cancel; and if no value came for an interval, so that the
// next one begins another burst and runs at once, while the burst before ended with a run
// on its trailing edge less than an interval ago.
//
// It panics if interval is negative and if action is nil.
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
