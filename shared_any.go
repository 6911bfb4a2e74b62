package ratelimit

import (
	"context"
	"errors"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
	"dappco.re/go/core/go-ratelimit/internal/sharedlog/combine"
)

// enterAny plans to serve a call by the first of its candidates that passes, or to put them into
// their lines; while it is patient, the first alone.
func (p *plan) enterAny(a *anyCall) {
	a.begin()
	p.goOn(a, a.patience > 0)
}

// goOn plans that candidates enter until one is served; with patience, until one waits.
func (p *plan) goOn(a *anyCall, patient bool) {
	p.rl.linesLocked().wakeForPoolsLocked()
	entered := a.entered
	var waiting []func()
	for ; entered < len(a.candidates) && a.plan != p.serial && !(patient && len(waiting) > 0); entered++ {
		w := a.candidates[entered]
		b := p.rl.decideBatchLocked(w.requests)
		queued := b.queuedLocked(w.class)
		if !p.resolve(w, b) {
			waiting = append(waiting, func() { p.standInLine(w, b, queued) })
		}
	}
	if a.plan != p.serial { // none is served, so they wait
		for _, wait := range waiting {
			wait()
		}
	}
	p.then(func() {
		a.entered = max(a.entered, entered)
		switch {
		case a.whole.over:
		case a.isRefused():
			a.endLocked(p.s, nil, a.refusal())
		case a.entered < len(a.candidates):
			s, patience := p.s, a.patience
			if a.isRefusedSoFar() {
				patience = 0
			}
			a.timer = time.AfterFunc(patience, func() {
				s.do(background, combine.Apart, func(p *plan) {
					if !a.whole.over {
						p.goOn(a, false)
					}
				})
			})
		}
	})
}

// endCandidate plans the end of the wait of a candidate. If it was served, that of all others is
// over.
func (p *plan) endCandidate(w *waiter, rs Reservations, err error) {
	a := w.any
	leaves := []*waiter{w}
	if err == nil {
		leaves, a.plan = a.candidates, p.serial
	}
	for _, c := range leaves {
		if c.ticket != 0 {
			p.addNow(&sharedlog.Event{Kind: sharedlog.Leave, Ref: c.ticket})
		}
	}
	p.then(func() {
		for _, c := range leaves {
			c.err, c.over, c.ticket = err, true, 0
			p.s.lines.forget(c)
		}
		switch {
		case a.whole.over:
		case err == nil:
			a.endLocked(p.s, rs, nil)
		case errors.Is(err, ErrClosed), a.entered > 0 && a.isRefused():
			a.endLocked(p.s, nil, a.refusal())
		case a.timer != nil && a.entered < len(a.candidates):
			a.timer.Reset(0) // there is nothing left to be patient for
		}
	})
}

// endLocked notes that a call is over.
func (a *anyCall) endLocked(s *ledger, rs Reservations, err error) {
	if a.timer != nil {
		a.timer.Stop()
	}
	a.whole.reservations, a.whole.err, a.whole.over = rs, err, true
	s.lines.served = append(s.lines.served, a.whole)
}

// leaveAny plans that a call gives up.
func (p *plan) leaveAny(a *anyCall) {
	for _, c := range a.candidates {
		if c.ticket != 0 {
			p.addNow(&sharedlog.Event{Kind: sharedlog.Leave, Ref: c.ticket})
		}
	}
	p.then(func() {
		for _, c := range a.candidates {
			c.over, c.ticket = true, 0
			p.s.lines.forget(c)
		}
		a.endLocked(p.s, nil, context.Canceled)
	})
}

// againLocked has a call that was served in vain stand in line again.
func (l *lines) againLocked(w *waiter) {
	if w.any == nil {
		l.evicted = append(l.evicted, w)
		return
	}
	for _, c := range w.any.candidates[:w.any.entered] {
		c.over, c.err = false, nil
		l.evicted = append(l.evicted, c)
	}
}
