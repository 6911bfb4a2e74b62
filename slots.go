package ratelimit

import (
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/audit"
	"dappco.re/go/core/go-ratelimit/internal/chain"
	"dappco.re/go/core/go-ratelimit/internal/classuse"
	"dappco.re/go/core/go-ratelimit/internal/fairline"
	"dappco.re/go/core/go-ratelimit/internal/headroom"
	"dappco.re/go/core/go-ratelimit/internal/history"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/tally"
)

// slots is the present traffic of a model: its calls in flight and its waiters. It exists only
// while there is any, or the model has state. It is not persisted, and outlives Reset and Load: a
// call in flight stays in flight.
type slots struct {
	home     *RateLimiter
	name     string
	inFlight int
	line     fairline.Line[*waiter]
	scarce   state.Dimension // in which it last denied one that waits, with classes
	timer    *time.Timer     // wakes the line; nil until a waiter had to sleep
	firesAt  int64           // the instant for which it was set last
	dayEnded int64           // when the last day that is over ended, in UnixNano
	bare     bool            // the model has no state
	leftAt   int64           // the instant at which it last lost its state with calls in flight; 0 for never

	admitted  *tally.Minute   // by this limiter, with Config.Shared; nil before the first
	estimates tally.Estimates // against what the calls used

	uses  classuse.Uses // of classes with a reserve
	audit *audit.Sums   // what Audit adds up; nil before the first charge

	saves history.Saves // what of the model is in the file of Persist

	provider   Provider              // Event.Provider, as of
	providedAt int                   // this RateLimiter.quotaVersion, counted from 1
	open       chain.Chain[openCall] // in the order of their admission

	// Of the waiters with a deadline:
	headroom headroom.Line // how much may be charged before one of them is too late
	stale    bool          // all must be reviewed
	reviewed bool          // it is in waitLines.reviews
}

// waitLines is the calls and waiters of a limiter: those of each model in its slots, and the lines
// in which the waiters stand. The zero value has none.
type waitLines struct {
	rl *RateLimiter

	allSlots map[string]*slots // of each model
	occupied map[*slots]bool   // those with waiters
	waiting  int               // places in all lines
	forPlace placeQueue        // the waiters for a place for another model
	reviews  []*slots          // lines in which a waiter may be too late
	vacated  []*slots          // lines to be served, which candidates have left, or by a charge
	arrivals int               // how many ever had to wait
	progress int64             // counts what may let a waiter pass that did not before
	maxQueue int               // waiters per model; 0 is no cap
	flows    bool              // a waiter has named one
	shared   bool              // with other processes
}

// linesLocked returns the lines. They learn here which limiter theirs is, because a zero
// RateLimiter has no constructor.
func (rl *RateLimiter) linesLocked() *waitLines {
	rl.lines.rl = rl
	return &rl.lines
}

// calls and waiting are how many calls are in flight, and how many wait. Nil slots have none.
func (g *slots) calls() int {
	if g == nil {
		return 0
	}
	return g.inFlight
}

func (g *slots) waiting() int {
	if g == nil {
		return 0
	}
	return g.line.Len()
}

// head returns the waiter that is next in the line; nil for none.
func (g *slots) head() *waiter {
	if g == nil {
		return nil
	}
	if e := g.line.Head(); e != nil {
		return e.Value
	}
	return nil
}

// slotsLocked returns the slots of a model.
func (l *waitLines) slotsLocked(name string) *slots {
	g := l.allSlots[name]
	if g == nil {
		name = strings.Clone(name) // see stateLocked
		g = &slots{home: l.rl, name: name, bare: true}
		if l.allSlots == nil {
			l.allSlots = make(map[string]*slots)
		}
		l.allSlots[name] = g
		if stats := l.rl.statsRLocked(name); stats != nil && stats.window != nil {
			l.joinLocked(name, stats.window)
		}
	}
	return g
}

// joinLocked gives a window that is new in State the slots of its model.
func (l *waitLines) joinLocked(name string, w *window) {
	if g := l.allSlots[name]; g != nil {
		w.slots, g.bare = g, false
	}
}

// leftLocked notes that the model has lost its state.
func (g *slots) leftLocked() {
	g.bare, g.admitted, g.uses = true, nil, nil
	if g.inFlight > 0 {
		g.leftAt = max(g.home.clock.Now(), 1)
	}
	g.closeLocked()
}

// closeLocked removes the slots when they are empty.
func (g *slots) closeLocked() {
	if g.bare && g.inFlight == 0 && g.line.Len() == 0 && g.home.lines.allSlots[g.name] == g {
		delete(g.home.lines.allSlots, g.name)
	}
}

// sleepLocked has the line served when a wait is over, and not later than for another class of it.
func (g *slots) sleepLocked(wait time.Duration) {
	wait = min(wait, time.Duration(g.home.span()+1))
	now := g.home.clock.Now()
	if g.line.Classes() > 1 && g.firesAt > now && g.firesAt <= now+int64(wait) {
		return
	}
	g.firesAt = now + int64(wait)
	if g.timer == nil {
		g.timer = time.AfterFunc(wait, g.wake)
	} else {
		g.timer.Reset(wait)
	}
}

// wake serves the line when its timer fires.
func (g *slots) wake() {
	if !g.home.ledger.serve() {
		g.home.mu.Lock()
		defer g.home.mu.Unlock()
		g.home.linesLocked().serveLocked(g)
	}
}
