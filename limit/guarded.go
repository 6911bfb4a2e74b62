package limit

import (
	"sync"
	"time"
)

// purpose is what a request does with the units for which it is admitted.
type purpose int

const (
	peek purpose = iota // nothing
	charge
	hold
)

// algorithm is the state of a limiter, which a lock guards.
type algorithm interface {
	// decideLocked decides on n units at now. It returns the number of the hold, 0 if there is
	// none.
	decideLocked(now time.Time, n int, is purpose) (id uint64, d Decision)
	// endLocked ends a hold, and reports whether it was open.
	endLocked(id uint64, commit bool) bool
}

// guarded is an algorithm behind a mutex.
type guarded struct {
	caller
	mu    sync.Mutex
	state algorithm
}

// begin sets the algorithm. It must be called before any other method.
func (g *guarded) begin(state algorithm) {
	g.state = state
	g.init(g)
}

// TakeAt charges n units at now if all of them may pass.
func (g *guarded) TakeAt(now time.Time, n int) Decision {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, d := g.state.decideLocked(now, n, charge)
	return d
}

func (g *guarded) peekAt(now time.Time, n int) Decision {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, d := g.state.decideLocked(now, n, peek)
	return d
}

// HoldAt sets n units aside if all of them may pass.
func (g *guarded) HoldAt(now time.Time, n int) (Hold, Decision) {
	g.mu.Lock()
	defer g.mu.Unlock()
	id, d := g.state.decideLocked(now, n, hold)
	return heldBy(g, id), d
}

func (g *guarded) end(id uint64, commit bool) {
	g.mu.Lock()
	ended := g.state.endLocked(id, commit)
	g.mu.Unlock()
	if ended {
		g.changed()
	}
}
