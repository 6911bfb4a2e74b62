package ratelimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"dappco.re/go/core/go-ratelimit/internal/state"
)

// The errors that callers match with errors.Is. Each says when it is returned.
var (
	// ErrInvalidTokens is returned by Acquire, AcquireAll, Do and WaitForCapacity
	// for a negative estimate.
	ErrInvalidTokens = errors.New("invalid tokens")

	// ErrInvalidQuota is returned by a constructor for a negative limit or an
	// unknown time zone, and by Load and MigrateYAMLToSQLite for a limit that is
	// no integer of zero or more, or such a zone. The error names the model, the
	// field and the value.
	ErrInvalidQuota = state.ErrInvalidQuota

	// ErrNeverFits is what a LimitError unwraps to when the request can never
	// pass, however long one waits: it is larger than the quota itself, or the
	// quota is invalid. It is another error than limit.ErrNeverFits, which the
	// algorithms of package limit return for more than a limit can ever admit.
	ErrNeverFits = errors.New("request never fits its quota")

	// ErrQueueFull is what a LimitError unwraps to when Config.MaxQueue wait for
	// the model already.
	ErrQueueFull = errors.New("too many wait already")

	// ErrNotSent is for the function that Do calls: an error that wraps it says
	// that the call was never sent, so that nothing of it counts.
	ErrNotSent = errors.New("call was not sent")

	// ErrCorruptState is returned by Load, by the constructors of the SQLite
	// backend and those with Config.AutoPersist, and by MigrateYAMLToSQLite for a state file that cannot be read as
	// one: unreadable, damaged, of a newer version of this library, hostile, or,
	// with SQLite, of another program. Nothing is overwritten by that; a later
	// Persist to YAML keeps the old file aside. With Config.Shared, OnError is told of a
	// damaged file, which gets another name, and the constructor goes on with a new one.
	ErrCorruptState = state.ErrCorrupt

	// ErrClosed is returned by Acquire, AcquireAll, Do and WaitForCapacity when the
	// limiter is closed while they wait or before they would have to, and by Persist and Load on a closed
	// limiter of the SQLite backend. With Config.Shared it is returned by all of them
	// once the limiter is closed.
	ErrClosed = errors.New("limiter is closed")

	errReplaced       = errors.New("another file is in its place")
	errUnknownBackend = errors.New("unknown backend")
	errNoFile         = errors.New("the limiter has no state file: make it with a constructor")
)

// LimitError is a refusal to wait. It unwraps to ErrNeverFits, to
// context.DeadlineExceeded or to ErrQueueFull.
//
// Packages that refuse by themselves what Acquire would refuse make one of Model and
// Decision: it then speaks of "acquire", and unwraps to ErrNeverFits if Decision.Never,
// else to context.DeadlineExceeded.
type LimitError struct {
	// Model is the model that was asked for; of several, who denied.
	Model string
	// Decision is the denial: which limit, and when it would have passed.
	Decision Decision

	op    string
	cause error
}

// Error says which model was refused and why.
func (e *LimitError) Error() string {
	op, reason := cmp.Or(e.op, "acquire"), cmp.Or(e.Decision.Reason, "refused")
	if e.Decision.Never || e.Decision.RetryAfter <= 0 {
		return fmt.Sprintf("%s: model %q: %s: %v", op, e.Model, reason, e.Unwrap())
	}
	return fmt.Sprintf("%s: model %q: %s, free in %v: %v",
		op, e.Model, reason, e.Decision.RetryAfter, e.Unwrap())
}

// Unwrap returns ErrNeverFits, context.DeadlineExceeded or ErrQueueFull.
func (e *LimitError) Unwrap() error {
	switch {
	case e.cause != nil:
		return e.cause
	case e.Decision.Never:
		return ErrNeverFits
	}
	return context.DeadlineExceeded
}
