package limit

import (
	"context"
	"time"
)

// HookReserveN is reserveN.
func (b *TokenBucket) HookReserveN(t time.Time, n int, longest time.Duration) Reservation {
	return b.reserveN(t, n, longest)
}

// HookWait is wait.
func (b *TokenBucket) HookWait(ctx context.Context, n int, now time.Time, sleep func(context.Context, time.Duration) error) error {
	return b.wait(ctx, n, now, sleep)
}
