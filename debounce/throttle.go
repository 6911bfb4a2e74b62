package debounce

import (
	"fmt"
	"time"
)

// NewThrottle returns a [Debouncer] that runs action at most once per interval
// while values come: with the first at once, and then, each time the interval is
// over, with the last that came in it. Delay and MaxWait of opts are not used; with
// Leading only, values within the interval are dropped, with Trailing only, the
// first waits for the end of the interval. With neither set, both are.
//
// It follows throttle of lodash 4. There, as here, Flush runs what waits
// before its time, and a value that comes when none did for an interval
// opens another burst and runs at once, even if the trailing run of the last burst
// was less than an interval ago.
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
