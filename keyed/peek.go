package keyed

import (
	"context"
	"time"

	"dappco.re/go/core/go-ratelimit/limit"
)

// Peek is PeekAt at time.Now.
func (l *Limiter) Peek(ctx context.Context, r Request) (limit.Decision, error) {
	return l.PeekAt(ctx, time.Now(), r)
}

// PeekAt reports whether TakeAt would admit r at now, and charges nothing: Remaining and ResetAfter
// are without the cost of r. It makes no counter, so peeks at many keys take no room. The errors
// are those of TakeAt.
//
// With an Origin it asks that where TakeAt would. The answer for a key without a counter is not
// kept, so each peek at one asks. With an Origin or an Exchange a counter moves to the cell of now,
// as for a request.
func (l *Limiter) PeekAt(ctx context.Context, now time.Time, r Request) (limit.Decision, error) {
	if err := l.check("peek", &r); err != nil {
		return limit.Decision{}, err
	}
	d, _ := l.admit(ctx, now, &r, peeking)
	return d, nil
}
