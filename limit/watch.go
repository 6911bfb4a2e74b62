package limit

import (
	"slices"
	"sync"
)

// watched is a limiter that notifies waiters of the end of a hold. A limiter that consists
// of others passes the waiters on to them.
type watched interface {
	// watch sends to kick, without blocking, whenever a hold has ended. It reports whether
	// that covers all limiters on which this one depends; call unwatch in either case.
	watch(kick chan struct{}) bool
	unwatch(kick chan struct{})
}

// watchers are the waiters to notify of the end of a hold of a limiter. The zero value has
// none.
type watchers struct {
	mu    sync.Mutex // a leaf: nothing else is locked or called under it
	kicks []chan struct{}
}

// changed notifies the waiters that a hold has ended.
func (w *watchers) changed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, kick := range w.kicks {
		select {
		case kick <- struct{}{}:
		default:
		}
	}
}

func (w *watchers) watch(kick chan struct{}) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kicks = append(w.kicks, kick)
	return true
}

func (w *watchers) unwatch(kick chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if i := slices.Index(w.kicks, kick); i >= 0 {
		w.kicks = slices.Delete(w.kicks, i, i+1)
	}
}
