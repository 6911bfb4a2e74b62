package limit

import (
	"context"
	"errors"
	"fmt"
)

// The errors that callers match with errors.Is.
var (
	// ErrInvalid is returned by constructors for a parameter out of range, and by a Keyed
	// for a key that is not equal to itself or a limiter that cannot hold. The error names
	// the parameter and its value.
	ErrInvalid = errors.New("invalid parameter")

	// ErrNeverFits is returned by Wait and WaitN of the limiters of this package for more
	// units than the limiter can ever admit at once, and, except by TokenBucket, for a
	// negative number. ratelimit.ErrNeverFits is a different error: a RateLimiter returns
	// it for a request that the quota of its model can never admit. Neither matches the
	// other.
	ErrNeverFits = errors.New("more units than can ever pass at once")

	// ErrFull is returned by Wait and WaitN of a Queue that has no room for the units.
	ErrFull = errors.New("queue is full")

	// ErrDeadline is returned at once by Wait and WaitN if the units could only pass after
	// the deadline of the context. It also matches context.DeadlineExceeded.
	ErrDeadline = fmt.Errorf("cannot pass before the deadline: %w", context.DeadlineExceeded)
)
