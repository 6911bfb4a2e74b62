package ratelimit

import (
	"container/list"
	"strings"
	"time"
)

// gate is who is at a model at present: the calls in flight and those who wait.
// There is one only as long as there is somebody, or the model has state. It is
// not persisted, and outlives Reset and Load: a call in flight is in flight
// whatever is forgotten.
type gate struct {
	home     *RateLimiter
	name     string
	inFlight int
	line     list.List   // of *waiter, the first to come in front
	timer    *time.Timer // wakes the line; nil until somebody had to sleep
	dayEnded int64       // when the last day that is over ended, in UnixNano
	bare     bool        // the model has no state

	// What the last Persist saved of the model, or tried to, and what the last one before that
	// succeeded did, if that is not the same.
	lastSave, savedBefore saveNote
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

// joinLocked makes a window that is new in State know the gate of its model.
func (rl *RateLimiter) joinLocked(name string, w *window) {
	if g := rl.gates[name]; g != nil {
		w.gate, g.bare = g, false
	}
}

// leftLocked notes that the model has no state any more.
func (g *gate) leftLocked() {
	g.bare = true
	g.closeLocked()
}

// closeLocked removes the gate when nobody is there.
func (g *gate) closeLocked() {
	if g.bare && g.inFlight == 0 && g.line.Len() == 0 && g.home.gates[g.name] == g {
		delete(g.home.gates, g.name)
	}
}
