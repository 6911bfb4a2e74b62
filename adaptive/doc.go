// Package adaptive finds limits that nobody publishes. Shared pools, self-hosted servers and
// "dynamic" quotas say what they allow by refusing what is too much, so these limiters learn
// from refusals alone.
//
//   - Rate finds calls in a time, from the refusals of one's own quota: 429.
//   - Concurrency finds calls in flight, from overload: 503, 529 and timeouts.
//   - Throttle keeps most calls from a provider that is down.
//
// RateSearch and SlotSearch are the parts of the first two that find the limit, without clock
// and lock, for limiters that have their own.
//
// A refused prompt, a wrong key, 400 and 401 say nothing about a limit: report none of them.
// Where a provider publishes its limits, or sends them in headers, package ratelimit uses
// those, and no limit has to be found by being refused.
//
// # How a limit is found
//
// The searches add and multiply, as TCP does. A refusal takes a small share off the
// limit, once in a cool-down however many refusals come. A clean window, one without a
// refusal in which the limit was really used, adds a step: a seventh of the way back to where
// the last refusal was, then small steps beyond it, each three times the one before. A limit
// that was never refused, or whose provider was lost in an outage, doubles instead.
//
// A refusal far below the last refused rate means that another client took the room. While there
// are such rivals, windows are equally long for all of them, and the one that has less loses a
// smaller share, so they come to share.
//
// Latency plays no part. A call to a language model takes as long as its answer, from 0.3 to
// 120 seconds, so a slow call says nothing about load.
//
// The numbers are integers, and chance comes from a seed, so a run can be repeated. No limiter
// has a goroutine; a Concurrency has a timer while its waiters wait until the provider wants
// calls again.
//
// # Time
//
// Methods that end in At take the instant, the others use time.Now. Give one limiter instants
// of one kind: either all with a monotonic reading, as time.Now returns them, or all without.
// An instant before an earlier one is legal, and never admits more.
package adaptive
