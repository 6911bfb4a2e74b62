package ratelimit

import "context"

// enter plans to serve or refuse a waiter at once, or to put it in its lines in one step: so
// of two that stand in the same lines one is before the other in all.
func (p *plan) enter(w *waiter) {
	if w.any != nil && w == w.any.whole {
		p.enterAny(w.any)
		return
	}
	p.rl.linesLocked().wakeForPoolsLocked()
	b := p.rl.decideBatchLocked(w.requests)
	queued := b.queuedLocked(w.class)
	if !p.resolve(w, b) {
		p.standInLine(w, b, queued)
	}
}

// standInLine plans that a waiter stands in its lines, or is refused because one is full.
func (p *plan) standInLine(w *waiter, b *batch, queued bool) {
	if p.rl.linesLocked().isLineFull(w, b) {
		p.end(w, nil, w.limited(b, ErrQueueFull))
		return
	}
	w.since = p.instant
	p.wait(w, b)
	p.then(func() {
		if w.stoodLocked(p.rl.teller, b); w.any != nil && w.any.whole.why == nil {
			w.any.whole.why = w.why
		}
		if len(w.places) != len(b.costs) {
			return // it was taken out already, or the pools are others now, which reviews the lines
		}
		l := p.rl.linesLocked()
		l.boundLocked(w, b)
		l.scarceLocked(w, b)
		switch {
		case !queued:
			w.sleepLocked(b, b.rest())
		case l.isNextLocked(w) || p.rl.hasReserve(w.class):
			p.s.lines.stirs++ // it goes before those that wait already, and no timer is set for it
		}
	})
}

// leave plans the end of the wait of a caller whose context has ended. If it was served in
// the same moment it gives that back.
func (p *plan) leave(w *waiter) {
	if w.over {
		for _, r := range w.reservations {
			p.cancel(r)
		}
		return
	}
	if w.any != nil {
		p.leaveAny(w.any)
		return
	}
	p.end(w, nil, context.Canceled)
}
