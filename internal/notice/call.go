package notice

import (
	"context"
	"sync/atomic"
)

// CallContext is the context of one call, which a package above the limiter passes to Acquire and
// ReserveContext: it carries what that knows of the call down to the limiter's events. Package
// llmhttp makes such contexts, and the root reads them. It is a context itself, so that a caller
// that has a place for it allocates nothing.
type CallContext struct {
	// Context is the one that events get, such as that of a request. CallContext has its values,
	// deadline and end.
	context.Context
	// ID is that of the call in all its events.
	ID uint64
	// Tentative reports that a denial of ReserveContext is no refusal yet, nor is the error of
	// Acquire for a request that never fits: the caller is about to ask again or to wait.
	Tentative bool
}

type callKey struct{}

// Value returns the CallContext itself for the key of this package, and else the value of the
// context.
func (c *CallContext) Value(k any) any {
	if k == (callKey{}) {
		return c
	}
	return c.Context.Value(k)
}

// CallFrom returns the innermost CallContext that ctx was made from; nil where there is none.
func CallFrom(ctx context.Context) *CallContext {
	c, _ := ctx.Value(callKey{}).(*CallContext)
	return c
}

var lastCall atomic.Uint64

// NextCallID returns a number that no other call of the process has. It is never zero. It is safe
// for concurrent use.
func NextCallID() uint64 { return lastCall.Add(1) }
