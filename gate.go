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
	reviewed bool                // it is in waitLines.reviews
}

// waitLines is the calls and waiters of a limiter: those of each model at its gate, and the lines
// in which the waiters stand. The zero value has none.
type waitLines struct {
	rl *RateLimiter

	gates    map[string]*gate // of each model
	occupied map[*gate]bool   // those with waiters
	waiting  int              // places in all lines
	forPlace placeQueue       // the waiters for a place for another model
	reviews  []*gate          // lines in which a waiter may be too late
	arrivals int              // how many ever had to wait
	maxQueue int              // waiters per model; 0 is no cap
}

// linesLocked returns the lines. They learn here which limiter theirs is, because a zero
// RateLimiter has no constructor.
func (rl *RateLimiter) linesLocked() *waitLines {
	rl.lines.rl = rl
	return &rl.lines
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
func (l *waitLines) gateLocked(name string) *gate {
	g := l.gates[name]
	if g == nil {
		name = strings.Clone(name) // see stateLocked
		g = &gate{home: l.rl, name: name, bare: true}
		if l.gates == nil {
			l.gates = make(map[string]*gate)
		}
		l.gates[name] = g
		if stats := l.rl.State[name]; stats != nil && stats.window != nil {
			l.joinLocked(name, stats.window)
		}
	}
	return g
}

// joinLocked gives a window that is new in State the gate of its model.
func (l *waitLines) joinLocked(name string, w *window) {
	if g := l.gates[name]; g != nil {
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
	if g.bare && g.inFlight == 0 && g.line.Len() == 0 && g.home.lines.gates[g.name] == g {
		delete(g.home.lines.gates, g.name)
	}
}
