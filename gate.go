package ratelimit

import (
	"container/list"
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/state"
)

// gate is the present traffic of a model: its calls in flight and its waiters. It exists only
// while there is any, or the model has state. It is not persisted, and outlives Reset and Load: a
// call in flight stays in flight.
type gate struct {
	home     *RateLimiter
	name     string
	inFlight int
	line     list.List   // of *waiter, the first to come in front
	timer    *time.Timer // wakes the line; nil until a waiter had to sleep
	dayEnded int64       // when the last day that is over ended, in UnixNano
	bare     bool        // the model has no state

	// The note of the last Persist that met the model, and that of the last one before it that
	// succeeded, if it is another.
	lastSave, savedBefore saveNote
	// Of the waiters with a deadline:
	slack    *slack              // the least of any; nil for none
	load     [state.InFlight]int // the charges since the line began
	stale    bool                // all are to be looked at
	reviewed bool                // it is in RateLimiter.reviews
}

// calls and waiting are how many calls are in flight, and how many wait. A nil gate
// has none.
func (g *gate) calls() int {
	if g == nil {
		return 0
	}
	return g.inFlight
}

func (g *gate) waiting() int {
	if g == nil {
		return 0
	}
	return g.line.Len()
}

// gateLocked returns the gate of a model.
func (rl *RateLimiter) gateLocked(name string) *gate {
	g := rl.gates[name]
	if g == nil {
		name = strings.Clone(name) // see stateLocked
		g = &gate{home: rl, name: name, bare: true}
		if rl.gates == nil {
			rl.gates = make(map[string]*gate)
		}
		rl.gates[name] = g
		if stats := rl.State[name]; stats != nil && stats.window != nil {
			rl.joinLocked(name, stats.window)
		}
	}
	return g
}

// joinLocked gives a window that is new in State the gate of its model.
func (rl *RateLimiter) joinLocked(name string, w *window) {
	if g := rl.gates[name]; g != nil {
		w.gate, g.bare = g, false
	}
}

// leftLocked notes that the model has lost its state.
func (g *gate) leftLocked() {
	g.bare = true
	g.closeLocked()
}

// closeLocked removes the gate when it is empty.
func (g *gate) closeLocked() {
	if g.bare && g.inFlight == 0 && g.line.Len() == 0 && g.home.gates[g.name] == g {
		delete(g.home.gates, g.name)
	}
}
