package llmhttp

import (
	"context"
	"time"
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

// maxWait returns the bound on the wait of a call; zero or less for none.
func (f *flight) maxWait() time.Duration {
	longest, ok := f.ctx.Value(maxWaitKey{}).(time.Duration)
	if !ok {
		longest = f.transport.MaxWait
	}
	if f.routed != nil && f.routed.maxWait > 0 && (longest <= 0 || f.routed.maxWait < longest) {
		longest = f.routed.maxWait
	}
	return longest
}

// patience returns a context for the wait of a call, and the error that says why it ends: that of
// MaxWait or of the age of a signature, or nil where only the context's own deadline bounds it, or
// comes first. The cause of the bound's end is that error.
func (f *flight) patience() (bounded context.Context, cancel context.CancelFunc, cause error) {
	ctx := &f.ctx
	until, cause := f.bound()
	if cause == nil {
		return ctx, func() {}, nil
	}
	if deadline, ok := ctx.Deadline(); ok && !until.Before(deadline) {
		return ctx, func() {}, nil
	}
	bounded, cancel = context.WithDeadlineCause(ctx, until, cause)
	return bounded, cancel, cause
}
