// Package limit has the classic algorithms of rate limiting, one type each, behind one
// interface. They count in integers, start no goroutine, say exactly how long a refused
// request has to wait, and never admit more because a clock went backwards. TokenBucket
// alone keeps the floating-point arithmetic and the methods of golang.org/x/time/rate, for
// programs that migrate from there. The package is for programs that need a limiter on its
// own; package ratelimit keeps the quotas of a provider.
//
// docs/algorithms.md helps to choose. In short: GCRA or AtomicGCRA to pace calls,
// SlidingLog where a provider counts the last minute exactly, Queue where the gaps between
// calls matter, and Tree or All where one call has several limits.
//
// # Cost
//
// A decision takes constant time, except:
//
//   - SlidingLog: time logarithmic in the number of charges in the window.
//   - Queue: time linear in the number of open holds and of the gaps that cancelled holds
//     left.
//   - Set and Tree: one decision of each of their limiters.
//   - Sharded: a look at each shard, but for an Allow that the first shard admits.
//   - Keyed: time logarithmic in the number of keys when a key is added or forgotten, on
//     average over the charges since.
//
// Ending a hold takes time linear in the number of open holds; in a SlidingLog, also in the
// number of charges since. Constructors allocate; decisions do not, except that a
// SlidingLog grows, a Keyed makes the limiter of a new key, and holds and waiting requests
// take memory.
//
// # Time
//
// TakeAt decides at an instant that the caller names; Take, Allow, Wait and WaitN decide at
// time.Now. Limiters follow the monotonic clock if the instants have a monotonic reading.
// FixedWindow and SlidingCounter, which lie on the calendar, follow the wall clock. Give
// one limiter instants of one kind: either all with a monotonic reading, as time.Now
// returns them, or all without. An instant before the latest charge or hold is legal, and
// never makes more pass, then or later; only the methods that TokenBucket shares with
// x/time go back with the clock.
package limit

import "time"

// Limiter decides whether n units may pass at an instant. All algorithms of this package
// are Limiters, and safe for concurrent use; but for Keyed, whose methods take a key.
//
// TakeAt charges n units if all of them may pass at now, and nothing if not. With n = 0 it
// charges nothing and is OK; the rest of the Decision reports the state. A negative n, and
// one above what the limiter can ever admit at once, is refused with Never.
type Limiter interface {
	TakeAt(now time.Time, n int) Decision
}

// Decision is the answer of a Limiter. Decisions can be compared with ==.
type Decision struct {
	// OK reports whether the units may pass, and were charged.
	OK bool
	// Remaining is how many units could still pass at this instant, after the charge of
	// this decision. With PerMinute(60) and a burst of 10 it is 9 after the first.
	Remaining int
	// RetryAfter is how long a refused request has to wait: if nothing else is charged
	// meanwhile, it passes at now+RetryAfter, and not a nanosecond earlier. It is zero if
	// the decision is OK, if waiting does not help (Never), and if only the end of a Hold
	// does. It is at most the longest Duration, 292 years.
	RetryAfter time.Duration
	// ResetAfter is how long it takes until the limiter is like a new one, if nothing else
	// is charged: the reset of rate-limit headers. Units on Hold do not count in it.
	ResetAfter time.Duration
	// Never reports that this many units can never pass, after any wait.
	Never bool
}
