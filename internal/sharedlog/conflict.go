package sharedlog

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// GiveWay pauses after a Commit that conflicted, before the next one, and lets the processes go on
// that were faster. The pauses are random, and grow with the conflicts that there were before. The
// error wraps ErrNoTime if ctx ended.
func GiveWay(ctx context.Context, conflicts int) error {
	const longest = 10 * time.Millisecond
	pause := min(50*time.Microsecond<<min(conflicts, 8), longest)
	select {
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrNoTime, ctx.Err())
	case <-time.After(rand.N(pause)):
		return nil
	}
}
