// Package deadline bounds the time of calls whose callee may not heed its context.
package deadline

import (
	"context"
	"time"
)

// Call calls f with a context that ends after most, and returns no later. heeds says that f returns
// soon after its context has ended; if it does not, f runs in a goroutine of its own, and may go on
// behind the Call.
func Call[T any](ctx context.Context, most time.Duration, heeds bool, f func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	if heeds {
		return f(ctx)
	}
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := f(ctx)
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}
