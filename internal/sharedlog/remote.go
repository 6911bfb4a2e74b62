package sharedlog

import (
	"context"
	"math"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/state"
)

// Options are the settings of a log by the limiter that opens it.
type Options struct {
	Process    int64         // the limiter's number among the processes; above zero
	LeaseTTL   time.Duration // how long a process counts as alive after it has said so
	FreshStart bool          // a lost log does not mean that the minute is used
	Span       int64         // the limiter's own minute, in nanoseconds
	// Replaced is called, on a goroutine of its own, when the log finds that the store has another
	// one: what its limiter knows has to be written there. Nil is nobody to call.
	Replaced func()
	// Report gets errors that no method returns, and warnings; nil discards them. It must not wait
	// for anything.
	Report func(error)
}

// Remote is a Log in a store on another machine, whose clock dates the events.
//
// Its steps exclude nobody, and Begin asks the store only for Everything: News is what the log has
// heard so far, and may be old. What was decided in a step holds once Commit has succeeded, also
// that of a batch without events.
//
// Commit leaves the batch as it is. It dates the events (but for cooldowns) by the store's clock:
// as much before the present there as they are before Batch.Wall. If the batch Appends and others
// came first that say the day of the same model, the day is that of DayAdded.After; but if a Reset,
// a Quota or a Day came first, Commit conflicts. After a success, News has the events behind seen
// that came first, and then those of the batch, as the store has them.
//
// A Commit that conflicts gives way by itself: it returns when it is this process's turn, or may
// be.
//
// Read may tell a process of its own events, too.
type Remote interface {
	Log
	// Skew returns how far the store's clock is ahead of this process's. It is the last
	// measurement: it asks nobody, and may be called at any time by any goroutine.
	Skew() time.Duration
	// Sharers returns how many processes shared the log when it was last heard of, this one
	// included. It is at least 1.
	Sharers() int
	// MostWait returns how long a call may wait for the store.
	MostWait() time.Duration
}

// SystemOf returns the name of what a log is kept in: what its method System returns, and else
// "sqlite" for one on this machine, and "store" for a Remote.
func SystemOf(log Log) string {
	if named, ok := log.(interface{ System() string }); ok {
		return named.System()
	}
	if _, ok := log.(Remote); ok {
		return "store"
	}
	return "sqlite"
}

type decidingKey struct{}

// Deciding returns a context that tells Begin of a Remote that the step will probably decide
// something, so that it is worth to wait for a turn before that.
func Deciding(ctx context.Context) context.Context {
	return context.WithValue(ctx, decidingKey{}, true)
}

// IsDeciding reports whether a context is of Deciding.
func IsDeciding(ctx context.Context) bool { return ctx.Value(decidingKey{}) != nil }

// DayAdded is what an event added to the day of its model when it was planned. The zero value is
// nothing.
type DayAdded struct {
	Requests, Tokens int
	End              int64 // of that day, in UnixNano
}

// At returns what the event adds to the day at a time in UnixNano: nothing came off it if it came
// off a day that is over.
func (a DayAdded) At(wall int64) DayAdded {
	if (a.Requests < 0 || a.Tokens < 0) && wall >= a.End {
		return DayAdded{}
	}
	return a
}

// After returns the day of a model after an event that was written behind others, of which its
// process did not know. was is the day before the event, and is the day after it as its process
// saw it. Where both have begun the same day, the first has. A charge in a day that has ended is
// one of the next day, and a settlement there changes nothing.
func (a DayAdded) After(was, is state.DayUsage) state.DayUsage {
	switch {
	case follows(is.Start, was.Start):
		return is
	case follows(was.Start, is.Start) && a.Requests <= 0:
		return was
	}
	was.Count, was.Tokens = plus(was.Count, a.Requests), plus(was.Tokens, a.Tokens)
	return was
}

// follows reports whether a day that begins at one time, in UnixNano, is another one than that
// which began before: a day lasts 24 hours from its first charge, or in a zone from midnight to
// midnight, which may be 23 hours, and differs by whole minutes.
func follows(start, before int64) bool {
	apart := time.Duration(start - before)
	return before == 0 || apart >= 24*time.Hour || apart >= 23*time.Hour && apart%time.Minute == 0
}

// plus returns a sum between zero and the largest number.
func plus(n int64, more int) int64 {
	if more > 0 && n > math.MaxInt64-int64(more) {
		return math.MaxInt64
	}
	return max(n+int64(more), 0)
}
