package llmhttp

import (
	"context"
	"time"

	"dappco.re/go/core/go-ratelimit"
)

// maxWaitKey is the key of the bound in a context made by WithMaxWait.
type maxWaitKey struct{}

// WithMaxWait returns a context whose calls wait at most d for room, in place of
// Transport.MaxWait. Zero or less removes that bound: the calls wait as long as the context
// allows. Of several bounds in a context the last one counts.
//
// A call that the bound refuses is a *ratelimit.LimitError that matches ratelimit.ErrMaxWait. The
// bound is no deadline: it is over once the call is admitted.
func WithMaxWait(ctx context.Context, d time.Duration) context.Context {
	return context.WithValue(ctx, maxWaitKey{}, d)
}

// patience returns a context for the wait of a call, and reports whether MaxWait bounds it. The
// context's own deadline does where it comes first. The cause of the bound's end is
// ratelimit.ErrMaxWait.
func (f *flight) patience() (bounded context.Context, cancel context.CancelFunc, byMaxWait bool) {
	ctx := &f.ctx
	longest, ok := ctx.Value(maxWaitKey{}).(time.Duration)
	if !ok {
		longest = f.transport.MaxWait
	}
	if f.routed != nil && f.routed.maxWait > 0 && (longest <= 0 || f.routed.maxWait < longest) {
		longest = f.routed.maxWait
	}
	if longest <= 0 {
		return ctx, func() {}, false
	}
	until := time.Now().Add(longest)
	if deadline, ok := ctx.Deadline(); ok && !until.Before(deadline) {
		return ctx, func() {}, false
	}
	bounded, cancel = context.WithDeadlineCause(ctx, until, ratelimit.ErrMaxWait)
	return bounded, cancel, true
}
