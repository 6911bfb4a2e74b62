// Package limit has the classic algorithms of rate limiting, one type each, behind one
// interface. They count in integers, have no goroutine, say exactly how long a refused
// request has to wait, and never admit more because a clock went backwards. TokenBucket
// alone keeps the floating-point arithmetic, and the methods, of golang.org/x/time/rate,
// for programs that come from there.
//
// Which one to take is the subject of docs/algorithms.md: in short, GCRA or AtomicGCRA
// to pace calls, SlidingLog where a provider counts the last minute exactly, Queue
// where the gaps between calls matter, and Tree or All where several limits hold for
// one call.
//
// # Cost
//
// A decision takes constant time, but for these: that of a SlidingLog grows with the
// logarithm of what is in the window; that of a Queue with the open holds and with the gaps
// that released ones left; a Set and a Tree ask each of their limiters, and a Sharded each
// shard where Allow of one does not do; and a Keyed that adds or forgets a key takes time
// in the logarithm of their number. To end a hold takes time in the number of those that
// are open, and in a SlidingLog of what was charged since. Memory is taken when something
// is made, by a SlidingLog as it grows, by a Keyed for a new key, and for holds and for
// those that wait.
//
// # Time
//
// TakeAt decides at an instant that the caller names; Take, Allow, Wait and WaitN
// decide at time.Now. The limiters follow the monotonic clock where the times that
// they are given have a reading of it; a FixedWindow and a SlidingCounter, which lie on
// the calendar, follow the wall clock. A limiter is given times of one kind: either all
// with a monotonic reading, as time.Now gives, or all without. An instant before one
// at which the limiter has charged something, or put it on hold, is legal, and never makes
// more pass, then or later; only those methods of TokenBucket that x/time has go back with
// the clock.
package limit

import "time"

// Limiter decides whether n units may pass at an instant. All algorithms of this package
// are Limiters, and safe for concurrent use; but for Keyed, whose methods take a key.
//
// TakeAt charges n units if all of them may pass at now, and nothing if not. With n = 0
// it charges nothing and is OK: the rest of the Decision says how things stand. A
// negative n, and one that is more than the limiter can ever admit at once, is refused
// with Never.
type Limiter interface {
	TakeAt(now time.Time, n int) Decision
}

// Decision is the answer of a Limiter. Decisions can be compared with ==.
type Decision struct {
	// OK reports whether the units may pass, and were charged.
	OK bool
	// Remaining is how many units could pass at this instant, after what this decision
	// charged. With PerMinute(60) and a burst of 10 it is 9 after the first.
	Remaining int
	// RetryAfter is how long a refused request has to wait: with nothing else charged
	// meanwhile it passes at now+RetryAfter, and not a nanosecond earlier. Zero where
	// the decision is OK, where waiting does not help (Never), and where only the end of
	// a Hold does; the longest Duration, of 292 years, where it is more than that.
	RetryAfter time.Duration
	// ResetAfter is how long it takes until the limiter is as it was when it was new,
	// if nothing else is charged: the reset of the rate-limit headers. What is on Hold
	// does not count in it.
	ResetAfter time.Duration
	// Never reports that this many units can never pass, however long one waits.
	Never bool
}
