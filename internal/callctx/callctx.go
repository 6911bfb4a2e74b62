// Package callctx carries what a package above the limiter knows of a call down to the limiter's
// events: by the context that it passes to Acquire and ReserveContext. Package llmhttp makes such
// contexts, and the root reads them.
package callctx

import (
	"context"
	"sync/atomic"
)

// Call is the context of one call. It is a context itself, so that a caller that has a place for
// it allocates nothing.
type Call struct {
	// Context is the one that events get, such as that of a request. Call has its values, deadline
	// and end.
	context.Context
	// ID is that of the call in all its events.
	ID uint64
	// Tentative reports that a denial of ReserveContext is no refusal yet, nor is the error of
	// Acquire for a request that never fits: the caller is about to ask again or to wait.
	Tentative bool
}

type key struct{}

// Value returns the Call itself for the key of this package, and else the value of the context.
func (c *Call) Value(k any) any {
	if k == (key{}) {
		return c
	}
	return c.Context.Value(k)
}

// From returns the innermost Call that ctx was made from; nil where there is none.
func From(ctx context.Context) *Call {
	c, _ := ctx.Value(key{}).(*Call)
	return c
}

var last atomic.Uint64

// NextID returns a number that no other call of the process has. It is never zero. It is safe for
// concurrent use.
func NextID() uint64 { return last.Add(1) }
