package limit

import (
	"slices"
	"sync"
)

// watched is what tells those that wait that something on hold has ended. A limiter that
// consists of others passes it on to them.
type watched interface {
	// watch puts a word into kick whenever something has ended that was on hold. It
	// reports whether that is so for all that this limiter depends on; unwatch has to be
	// called in either case.
	watch(kick chan struct{}) bool
	unwatch(kick chan struct{})
}

// watchers are those that wait for the end of a hold of a limiter. The zero value is
// none.
type watchers struct {
	mu    sync.Mutex // nothing else is locked, or called, under it
	kicks []chan struct{}
}

// changed tells those that wait that something was given back.
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
