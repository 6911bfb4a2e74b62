package ratelimit

import (
	"maps"
	"slices"

	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
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
		f.s.lines.stirs++ // another class may be next
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

// passes plans to charge a class for a call that does not stand in the lines in which others wait.
// It reports false where the plan has done so already, for another call.
func (p *plan) passes(class string, costs []modelCost) bool {
	passed := p.passed
	for i := range costs {
		m := &costs[i]
		g := m.view.slots
		switch {
		case len(p.rl.classes) == 0 || g.waiting() == 0:
			continue
		case passed:
			return false
		}
		s := g.line.StateAfterPass(p.rl.fairClassRLocked(class), m.part(g.scarce))
		s.Of = p.rl.classesID
		p.passed = true
		p.addNow(&sharedlog.Event{Kind: sharedlog.Classes, Model: g.name, Text: state.LineText(s)})
	}
	return true
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

// yieldAllLocked notes which of the waiters of all processes yield, and what is scarce, where
// classes share lines. A limiter that shares nothing does so as it serves them.
func (l *waitLines) yieldAllLocked() {
	if len(l.rl.classes) == 0 {
		return
	}
	for g := range l.occupied {
		if state.IsPool(g.name) {
			continue // in which heads of models' lines are awake
		}
		for _, e := range g.line.Heads() {
			b := l.rl.decideBatchLocked(e.Value.requests)
			l.yieldsLocked(e.Value, b)
			l.scarceLocked(e.Value, b)
		}
	}
}
