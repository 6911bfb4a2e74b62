package retry

import (
	"context"
	"sync/atomic"
	"time"
)

// Hope is the first attempt to use something again, at once after it failed: a lost reply is no
// outage, and callers that come next wait for what they need rather than go on without it. They
// wait for one attempt, and for a limited time. So an outage costs a caller no more than one such
// wait, whether calls come all the time or once a minute.
//
// The zero value hopes for nothing. A Hope is safe for concurrent use.
type Hope struct {
	over atomic.Pointer[context.Context]
}

// Begin makes the attempt on a goroutine of its own. Callers wait for it as long as most says.
func (h *Hope) Begin(most time.Duration, attempt func()) {
	over, end := context.WithTimeout(context.Background(), most)
	h.over.Store(&over)
	go func() {
		attempt()
		end()
		h.over.CompareAndSwap(&over, nil)
	}()
}

// Await waits until there is nothing to hope for, or ctx ends.
func (h *Hope) Await(ctx context.Context) {
	over := h.over.Load()
	if over == nil || (*over).Err() != nil {
		return
	}
	select {
	case <-(*over).Done():
	case <-ctx.Done():
	}
}
