// Package redislimit has the classic limiters for programs on many machines, which share their
// counts in a server of Redis or Valkey: FixedWindow, SlidingCounter, SlidingLog and TokenBucket. A
// Group takes from several of them at once, all or none. Origin and Exchange are the Redis sides of
// package keyed, which decides in memory.
//
// Take a limiter of this package where a decision must be exact over all machines and a round trip
// for each is acceptable, and package keyed where it is not.
//
// # Decisions
//
// A decision is one EVALSHA, in which the server's clock tells the time: the clocks of clients do
// not matter. The arithmetic is in whole microseconds and whole units, and fractions of a
// microsecond for TokenBucket; it is exact until the year 2255. RetryAfter is exact to the
// microsecond, rounded up: if nothing else is charged, the request passes then, and not a
// microsecond earlier. What is refused is not charged. If the server's clock goes back, what is
// charged counts as charged at the new time, so a limiter recovers as fast as ever: a TokenBucket
// within burst / rate, the others within a window, two for a SlidingCounter. If it leaps forward,
// what it leaps over is forgotten.
//
// A Take whose reply was lost is sent again by the client, and charges once: the server keeps the
// answer of each charge for ten seconds. WithOperation does the same for retries of the caller. A
// client that sends nothing twice (MaxRetries: -1) makes a decision cheaper: nothing is kept then,
// but for WithOperation.
//
// # Clients
//
// Set ContextTimeoutEnabled in the options of the client. Without it go-redis ignores the deadlines
// of contexts, and a call must not wait longer than Options.Timeout. So limiters and Groups ask a
// *redis.Client through a copy that heeds them: on its connections, with its timeouts and its
// DialHooks, but without its other hooks, such as those that trace. A ClusterClient and a Ring have
// no such copies: each call takes a goroutine, which costs half as much again. Origin and Exchange,
// which are asked in the background, take one always, and return as soon as a context is cancelled.
//
// # Keys
//
// A limiter keeps one key in Redis for each key that it is asked for, and for ten seconds one for
// each charge. All of them begin with the key in braces, which is their hash tag in a Cluster, and
// end by themselves when they mean nothing any more. The state of a limiter is at most 50 bytes,
// and that of a SlidingLog a list of at most 4,096 entries. The server needs version 6.2 or later.
// Limiters share a key if they agree in Options.Prefix, in their kind, and in their window or rate;
// the limit and the burst may differ, so they can be changed while programs run.
//
// # When Redis fails
//
// Options.OnFailure tells what a limiter does without an answer within Options.Timeout: FailClosed,
// FailOpen or Local. A breaker opens when half of at least 20 calls within 5 s have failed; for 5 s
// nothing asks the server then, and after that one call probes it. A server that loses its memory
// forgets what was charged.
package redislimit
