package ratelimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"dappco.re/go/core/go-ratelimit/internal/profile"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// The errors that callers match with errors.Is. Each says when it is returned.
var (
	// ErrInvalidTokens is returned by Acquire and all that wait like it for a negative estimate.
	ErrInvalidTokens = errors.New("invalid tokens")
	// ErrInvalidQuota is returned by constructors, Load and MigrateYAMLToSQLite for an invalid
	// quota, in a file also for a limit that is no integer. It names the field and value.
	ErrInvalidQuota = state.ErrInvalidQuota
	// ErrNeverFits is what a LimitError unwraps to when waiting does not help: the request is
	// larger than the quota itself, the quota is invalid, or spend is limited and the model has no
	// price. It differs from limit.ErrNeverFits.
	ErrNeverFits = errors.New("request never fits its quota")
	// ErrQueueFull is what a LimitError unwraps to at Config.MaxQueue or Class.MaxQueue waiters.
	ErrQueueFull = errors.New("the queue is full")
	// ErrBudget matches a LimitError of a request that a limit of spend denied
	// (ModelQuota.MaxSpendPerDay, MaxSpendPerMonth), alone or among other limits:
	// Decision.OverBudget. It says nothing of how the wait ended, which Err does.
	ErrBudget = errors.New("the budget is used up")
	// ErrMaxWait is what a LimitError unwraps to when a bound on the wait, such as
	// llmhttp.Transport.MaxWait, refused the request, and not the caller's own deadline. It does
	// not match context.DeadlineExceeded. The limiter itself never returns it.
	ErrMaxWait = errors.New("maximum wait exceeded")
	// ErrNotSent is for the function that Do calls: nothing of a call counts whose error wraps it.
	ErrNotSent = errors.New("call was not sent")
	// ErrCorruptState is returned by Load, by the constructors of the SQLite backend and those with
	// Config.AutoPersist, and by MigrateYAMLToSQLite for a file that cannot be read as a state
	// file: unreadable, cut off, damaged, of a newer version of the library, hostile or, with
	// SQLite, of another program. It is not overwritten; a later Persist to YAML keeps it aside.
	// With Config.Shared a damaged file is renamed, reported to OnError, and replaced.
	ErrCorruptState = state.ErrCorrupt
	// ErrClosed is returned by the methods that wait when the limiter is closed while they do or
	// before they would have to, and by Persist and Load on a closed limiter of the SQLite backend.
	// With Config.Shared all of them return it once the limiter is closed.
	ErrClosed = errors.New("limiter is closed")
	// ErrNoSQLite is returned by the constructors for the backend "sqlite" and MigrateYAMLToSQLite,
	// in programs that were built with the tag nosqlite.
	ErrNoSQLite = state.ErrNoSQLite
	// ErrUnknownProvider is returned by Profile and the constructors, and reported by AddProvider,
	// for a provider that has no profile, such as a misspelt one. The error names it.
	ErrUnknownProvider = profile.ErrUnknown
	errNoFile          = errors.New("the limiter has no state file: make it with a constructor")
)

// LimitError is a refusal to wait. It unwraps to ErrNeverFits, to context.DeadlineExceeded, to
// ErrQueueFull or to ErrMaxWait. It matches ErrBudget as well where spend denied. Packages that
// refuse by themselves what Acquire would make one of Model, Decision and Err.
type LimitError struct {
	Model    string   // the requested model; of several, the one that denied
	Decision Decision // the denial: the limit, and when the request would have passed
	// Err is unwrapped. Nil means ErrNeverFits if Decision.Never, else context.DeadlineExceeded.
	Err error

	op string
}

// Error names the refused model and the reason.
func (e *LimitError) Error() string {
	op, reason := cmp.Or(e.op, "acquire"), cmp.Or(e.Decision.Reason, "refused")
	if e.Decision.Never || e.Decision.RetryAfter <= 0 {
		return fmt.Sprintf("%s: model %q: %s: %v", op, e.Model, reason, e.Unwrap())
	}
	return fmt.Sprintf("%s: model %q: %s, free in %v: %v",
		op, e.Model, reason, e.Decision.RetryAfter, e.Unwrap())
}

// Is reports whether target is ErrBudget and a limit of spend is among those that denied.
func (e *LimitError) Is(target error) bool {
	return target == ErrBudget && (e.Decision.OverBudget || e.Decision.Code == DecisionSpendLimit)
}

// Unwrap returns Err, or its default if it is nil.
func (e *LimitError) Unwrap() error {
	switch {
	case e.Err != nil:
		return e.Err
	case e.Decision.Never:
		return ErrNeverFits
	}
	return context.DeadlineExceeded
}
