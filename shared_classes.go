package ratelimit

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
	"dappco.re/go/core/go-ratelimit/internal/sharedlog/combine"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// setClasses plans other classes for all processes.
func (p *plan) setClasses(classes map[string]Class) {
	p.addNow(&sharedlog.Event{Kind: sharedlog.Classes, Text: classesText(classes)})
}

// joinClasses plans the classes of Config.Classes, unless the log says the same. None leave those
// of the log in force.
func (p *plan) joinClasses(classes map[string]Class) {
	if len(classes) > 0 && p.s.classes != classesText(classes) {
		p.setClasses(classes)
	}
}

// setClasses does what an event says of the classes, or of a line.
func (f effect) setClasses(e *sharedlog.Event) {
	if e.Model != "" {
		f.rl.linesLocked().setStateLocked(e.Model, e.Text)
		return
	}
	classes, err := state.ParseClasses(e.Text)
	if err != nil {
		return
	}
	f.s.classes = e.Text
	is := make(map[string]Class, len(classes))
	for name, c := range classes {
		is[name] = Class(c)
	}
	f.rl.setClassesLocked(is)
	f.s.lines.reviews++
}

// loadClasses makes the classes those of the log, if it says any, before its waiters are put in
// their lines.
func (b *rebuild) loadClasses() {
	if text := b.img.Classes[""]; text != "" {
		b.setClasses(&sharedlog.Event{Text: text})
	}
}

// loadLines says how far the lines are, when the waiters of the log stand in them.
func (b *rebuild) loadLines() {
	for _, model := range slices.Sorted(maps.Keys(b.img.Classes)) {
		if model != "" {
			b.rl.linesLocked().setStateLocked(model, b.img.Classes[model])
		}
	}
}

// restoreClasses writes the classes to a log that took the place of another.
func (b *rebuild) restoreClasses() {
	if b.s.classes != "" && b.img.Classes[""] == "" {
		b.emit(&sharedlog.Event{Kind: sharedlog.Classes, At: b.instant, Text: b.s.classes})
	}
}

// statesLocked returns how far the lines in which classes share are, by model.
func (l *waitLines) statesLocked() map[string]string {
	states := make(map[string]string)
	for g := range l.occupied {
		if g.line.Classes() > 1 {
			s := g.line.State(nil, 0)
			s.Of = l.rl.classesID
			states[g.name] = state.LineText(s)
		}
	}
	return states
}

// setStateLocked says how far the line of a model is. What was said of other classes is nothing.
func (l *waitLines) setStateLocked(model, text string) {
	g := l.allSlots[model]
	if g == nil || text == "" {
		return
	}
	if s, err := state.ParseLine(text); err == nil && s.Of == l.rl.classesID {
		g.line.SetState(s, l.rl.fairClassRLocked)
	}
}

// turns plans to say how far the lines of a waiter are after it was served.
func (p *plan) turns(w *waiter, b *batch) {
	for i := range w.places {
		g := w.places[i].slots
		if len(p.rl.classes) == 0 || g.line.Classes() < 2 {
			continue
		}
		text := ""
		if g.line.Len() > 1 {
			s := g.line.State(w.places[i].entry, b.costs[i].part(g.scarce))
			s.Of = p.rl.classesID
			text = state.LineText(s)
		}
		p.addNow(&sharedlog.Event{Kind: sharedlog.Classes, Model: g.name, Text: text})
	}
}

// turnOf returns the turn of a waiter among the flows of its class, in the line where it is latest.
func (p *plan) turnOf(w *waiter, b *batch) (turn int64) {
	for i := range b.costs {
		if g := b.costs[i].view.slots; g != nil {
			turn = max(turn, g.line.Turn(p.rl.fairClassRLocked(w.class), w.flow))
		}
	}
	return max(turn, 1)
}

// isHeldOffLocked reports whether a waiter is the first of its class in all its lines, and those of
// other classes that are before it wait for long.
func (l *waitLines) isHeldOffLocked(w *waiter) bool {
	for i := range w.places {
		p := &w.places[i]
		if p.pool || p.slots.line.Head() == p.entry {
			continue
		}
		if p.slots.line.Classes() < 2 {
			return false
		}
		heads := p.slots.line.Heads()
		at := slices.Index(heads, p.entry)
		for n := range max(at, 0) {
			if b := l.rl.decideBatchLocked(heads[n].Value.requests); b.Allowed || b.event || b.wait <= time.Duration(l.rl.span()) {
				return false
			}
		}
		if at < 0 {
			return false
		}
	}
	return true
}

// enterAny plans to serve a call by the first of its candidates that passes, or to put them into
// their lines; while it is patient, the first alone.
func (p *plan) enterAny(a *anyCall) {
	a.begin()
	p.goOn(a, a.patience > 0)
}

// goOn plans that candidates enter until one is served; with patience, until one waits.
func (p *plan) goOn(a *anyCall, patient bool) {
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
			p.s.endAnyLocked(a, nil, a.refusal())
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
			p.s.endAnyLocked(a, rs, nil)
		case errors.Is(err, ErrClosed), a.entered > 0 && a.isRefused():
			p.s.endAnyLocked(a, nil, a.refusal())
		case a.timer != nil && a.entered < len(a.candidates):
			a.timer.Reset(0) // there is nothing left to be patient for
		}
	})
}

// endAnyLocked notes that a call is over.
func (s *ledger) endAnyLocked(a *anyCall, rs Reservations, err error) {
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
		p.s.endAnyLocked(a, nil, context.Canceled)
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
