package ratelimit

import (
	"container/list"
	"context"
	"fmt"
	"time"
)

// waiter is somebody who waits, in the lines of all the models it asks for.
type waiter struct {
	ctx      context.Context
	op       string // for errors
	requests []Request
	charges  bool      // makes reservations
	deadline time.Time // zero for none

	places       []place
	reservations Reservations  // when it was served
	err          error         // when it was refused
	done         chan struct{} // closed when it was served or refused
}

// place is where a waiter stands in the line of one model.
type place struct {
	gate    *gate
	element *list.Element
}

// wait serves a waiter when its turn comes, and returns its error when it is
// refused or its context ends.
func (rl *RateLimiter) wait(ctx context.Context, w *waiter) (Reservations, error) {
	w.ctx = ctx
	w.deadline, _ = ctx.Deadline()
	w.done = make(chan struct{})
	rl.enter(w)
	select {
	case <-w.done:
	case <-ctx.Done():
	}
	if err := ctx.Err(); err != nil {
		rl.leave(w)
		return nil, err
	}
	rl.watchAll(w.reservations)
	return w.reservations, w.err
}

// enter serves or refuses a waiter at once, or puts it into all its lines in one
// step: so of two who stand in the same lines one is before the other in all.
func (rl *RateLimiter) enter(w *waiter) {
	rl.mu.Lock()
	defer rl.mu.Unlock()
	b := rl.weighLocked(w.requests)
	queued := b.queueLocked()
	if rl.concludeLocked(w, b) {
		return
	}
	for i := range b.demands {
		if g := b.demands[i].reading.gate; g != nil && rl.maxQueue > 0 && g.line.Len() >= rl.maxQueue {
			b.queue()
			b.Model = b.demands[i].model
			rl.refuseLocked(w, w.limited(b, ErrQueueFull))
			return
		}
	}
	for i := range b.demands {
		g := rl.gateLocked(b.demands[i].name)
		w.places = append(w.places, place{g, g.line.PushBack(w)})
		rl.waiting++
	}
	if !queued {
		w.sleepLocked(b.wait)
	}
}

// concludeLocked serves a waiter whose turn it is, or refuses one that waits in
// vain, and reports whether it was either.
func (rl *RateLimiter) concludeLocked(w *waiter, b *batch) bool {
	switch {
	case b.Allowed:
		if w.charges {
			w.reservations = rl.chargeAllLocked(w.requests, b)
		}
		rl.refuseLocked(w, nil)
	case b.Never:
		rl.refuseLocked(w, w.limited(b, ErrNeverFits))
	case rl.closed:
		rl.refuseLocked(w, fmt.Errorf("%s: %w", w.op, ErrClosed))
	case !w.deadline.IsZero() && w.deadline.Sub(rl.clock.at(rl.clock.sync())) < b.wait:
		rl.refuseLocked(w, w.limited(b, context.DeadlineExceeded))
	default:
		return false
	}
	return true
}

// limited returns the error of a refusal.
func (w *waiter) limited(b *batch, cause error) error {
	return &LimitError{Model: b.Model, Decision: b.Decision, op: w.op, cause: cause}
}

// refuseLocked ends the wait, with an error or without.
func (rl *RateLimiter) refuseLocked(w *waiter, err error) {
	rl.standDownLocked(w)
	w.err = err
	close(w.done)
}

// standDownLocked takes a waiter out of its lines.
func (rl *RateLimiter) standDownLocked(w *waiter) {
	for _, p := range w.places {
		p.gate.line.Remove(p.element)
		rl.waiting--
		if p.gate.line.Len() == 0 && p.gate.timer != nil {
			p.gate.timer.Stop()
		}
		p.gate.closeLocked()
	}
}

// leave ends the wait of one whose context has ended. If it was served in the
// same moment it gives that back. Who stood behind it moves up at once.
func (rl *RateLimiter) leave(w *waiter) {
	rl.mu.Lock()
	defer rl.mu.Unlock()
	select {
	case <-w.done:
		for _, r := range w.reservations {
			if r.window != nil {
				rl.settleLocked(r, amount{}, true)
			}
		}
	default:
		rl.standDownLocked(w)
		for _, p := range w.places {
			rl.serveLocked(p.gate)
		}
	}
}

// serveLocked serves those at the head of a line, as far as there is room.
func (rl *RateLimiter) serveLocked(g *gate) {
	for pending := []*gate{g}; len(pending) > 0; {
		g, pending = pending[len(pending)-1], pending[:len(pending)-1]
		for {
			front := g.line.Front()
			if front == nil {
				break
			}
			w := front.Value.(*waiter)
			if !w.first() {
				break // its turn comes when it is the first in its other lines, too
			}
			if err := w.ctx.Err(); err != nil {
				// It is about to leave. What it would get for a moment could keep
				// others out.
				rl.refuseLocked(w, err)
			} else if b := rl.weighLocked(w.requests); !rl.concludeLocked(w, b) {
				w.sleepLocked(b.wait)
				break
			}
			for _, p := range w.places {
				if p.gate != g {
					pending = append(pending, p.gate)
				}
			}
		}
	}
}

// first reports whether nobody stands before w.
func (w *waiter) first() bool {
	for _, p := range w.places {
		if p.gate.line.Front() != p.element {
			return false
		}
	}
	return true
}

// sleepLocked looks again when a wait is over, by the timer of the first line.
// One that only an event ends needs none.
//
// Nothing in the minute takes longer than its span. A longer wait is for the end
// of the day or of a cooldown, which follow the wall clock, and a timer does not
// when the clock is set or the machine was suspended.
func (w *waiter) sleepLocked(wait time.Duration) {
	if len(w.places) == 0 || wait <= 0 {
		return
	}
	g := w.places[0].gate
	wait = min(wait, time.Duration(g.home.span()+1))
	if g.timer == nil {
		g.timer = time.AfterFunc(wait, g.wake)
	} else {
		g.timer.Reset(wait)
	}
}

// wake serves the line when its timer fires.
func (g *gate) wake() {
	g.home.mu.Lock()
	defer g.home.mu.Unlock()
	g.home.serveLocked(g)
}

// serveAllLocked serves all lines, after something that can make room in any of
// them.
func (rl *RateLimiter) serveAllLocked() {
	if rl.waiting == 0 {
		return
	}
	for _, g := range rl.gates {
		rl.serveLocked(g)
	}
}

// requoteLocked serves all lines after quotas have changed. Who does not fit any
// more is refused wherever in its line it stands.
func (rl *RateLimiter) requoteLocked() {
	if rl.waiting == 0 {
		return
	}
	for _, g := range rl.gates {
		var next *list.Element
		for e := g.line.Front(); e != nil; e = next {
			next = e.Next()
			w := e.Value.(*waiter)
			if b := rl.weighLocked(w.requests); b.Never {
				rl.concludeLocked(w, b)
			}
		}
	}
	rl.serveAllLocked()
}
