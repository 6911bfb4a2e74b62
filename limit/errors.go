package limit

import (
	"context"
	"errors"
	"fmt"
)

// The errors that callers match with errors.Is.
var (
	// ErrInvalid is returned by constructors for a rate, a burst, a limit, a window or
	// a number of shards that makes no sense, and by a Keyed for a key that is not equal
	// to itself. The error names the parameter and its value.
	ErrInvalid = errors.New("invalid parameter")

	// ErrNeverFits is returned by Wait and WaitN for a number of units that the limiter
	// can never admit at once, and, but for TokenBucket, for a negative one. It is not the
	// ErrNeverFits of package ratelimit.
	ErrNeverFits = errors.New("more units than can ever pass at once")

	// ErrFull is returned by Queue.Wait and Queue.WaitN when the queue is full.
	ErrFull = errors.New("queue is full")

	// ErrDeadline is returned by Wait and WaitN, at once, when the units could only pass
	// after the deadline of the context. Such an error matches
	// context.DeadlineExceeded, too.
	ErrDeadline = fmt.Errorf("would pass only later: %w", context.DeadlineExceeded)
)
