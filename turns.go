package ratelimit

import (
	"slices"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/fairline"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// turn is what came of looking at the head of a line.
type turn int

const (
	stays  turn = iota // the next one waits, and those behind it
	yields             // it waits for long or for a reserve, and the heads of other classes may go
	again              // the line has changed
)

// serveLineLocked serves a line, and those that this moves on.
func (l *waitLines) serveLineLocked(g *slots) {
	l.progress++
	for pending := []*slots{g}; len(pending) > 0; {
		g, pending = pending[len(pending)-1], pending[:len(pending)-1]
		for {
			head := g.head()
			if head == nil {
				break
			}
			t := l.tryLocked(head, g, &pending)
			if t == yields {
				t = l.tryOthersLocked(head, g, &pending)
			}
			if t != again {
				break
			}
		}
	}
}

// tryOthersLocked tries the heads of the other classes of a line, of which the first waits for
// long.
func (l *waitLines) tryOthersLocked(head *waiter, g *slots, pending *[]*slots) (t turn) {
	for _, e := range g.line.Heads() {
		if e.Value == head || head.any != nil && e.Value.any == head.any {
			continue // the candidates of a call were all tried with the head
		}
		if t = l.tryLocked(e.Value, g, pending); t != yields {
			return t
		}
	}
	return stays
}

// tryLocked serves a waiter that is the head of a line, or of its class there, if it passes and is
// next in its other lines. The lines that this moves on are added to pending.
func (l *waitLines) tryLocked(w *waiter, g *slots, pending *[]*slots) turn {
	if w.process != 0 || l.isWornOutLocked(w) { // another process serves it, or none yet
		return stays
	}
	if !w.isNext(g) {
		next := l.breakTieLocked(w)
		if next == nil {
			return l.sleepInPoolsLocked(w, g, pending)
		}
		if next != w {
			l.sleepInPoolsLocked(w, g, pending) // where it would keep the other one out
		}
		w = next
	}
	if ended := l.hasEndedLocked(w); ended != nil {
		// It is about to leave. What it would get for a moment could keep
		// others out.
		*pending = append(*pending, w.otherLines(g)...)
		l.endWaitLocked(w, ended)
		return again
	}
	b := l.rl.decideBatchLocked(w.requests)
	waits := !l.standInPoolsLocked(w, b, g, pending)
	soonest := b.wait
	if w.any != nil && (b.Allowed || waits) {
		w, b, waits, soonest = l.preferredLocked(w, b, waits, pending)
	}
	others := w.otherLines(g)
	if !(b.Allowed && waits) && l.resolveLocked(w, b) {
		*pending = append(*pending, others...)
		return again
	}
	l.scarceLocked(w, b)
	b.wait = soonest
	l.restLocked(w, b)
	if was := w.yields; l.yieldsLocked(w, b) && !was {
		*pending = append(*pending, others...)
	}
	switch {
	case w.isAsleepIn(g):
		return again
	case g.line.Classes() > 1 && w.yields:
		return yields
	}
	return stays
}

// yieldsLocked notes whether a waiter, which was decided upon, lets those of other classes go
// first: it waits for longer than the minute, or for what is kept for them.
func (l *waitLines) yieldsLocked(w *waiter, b *batch) bool {
	w.yields = len(l.rl.classes) > 0 && (b.wait > time.Duration(l.rl.span()+1) || b.keeps())
	return w.yields
}

// mostTries is how often a waiter is tried between two changes of the lines.
const mostTries = 4

// isWornOutLocked counts a try of a waiter. It reports whether there were too many since anybody
// left the lines: waiters that wake each other in the lines of pools must not do so without an end.
func (l *waitLines) isWornOutLocked(w *waiter) bool {
	if w.triedAt != l.progress {
		w.triedAt, w.tries = l.progress, 0
	}
	w.tries++
	return w.tries > mostTries
}

// otherLines returns the lines of a waiter but for one.
func (w *waiter) otherLines(but *slots) (lines []*slots) {
	for i := range w.places {
		if g := w.places[i].slots; g != but {
			lines = append(lines, g)
		}
	}
	return lines
}

// isNext reports whether w is next in the lines of all its models, but for one, in which its turn
// is known to have come; nil for none.
func (w *waiter) isNext(but *slots) bool {
	for i := range w.places {
		if p := &w.places[i]; !p.pool && p.slots != but && !p.slots.isNext(p.entry) {
			return false
		}
	}
	return true
}

// isNext reports whether a waiter that is awake is at the head of the line, or is the first of its
// class behind others that yield.
func (g *slots) isNext(e *fairline.Entry[*waiter]) bool {
	if g.line.Head() == e || g.line.Classes() < 2 {
		return g.line.Head() == e
	}
	for _, head := range g.line.Heads() {
		switch {
		case head == e:
			return true
		case !head.Value.yields:
			return false
		}
	}
	return false
}

// isNextLocked reports whether a waiter may be served: it is at the head of all its lines, or is
// the one that goes first of those that block each other.
func (l *waitLines) isNextLocked(w *waiter) bool {
	return w.isNext(nil) || l.breakTieLocked(w) == w
}

// mayLeadLocked reports whether a waiter that came to lines that are not empty goes before others,
// or makes another one next that it blocks. Without classes and flows it does not.
func (l *waitLines) mayLeadLocked(w *waiter) bool {
	return (len(l.rl.classes) > 0 || l.flows) && (w.isNext(nil) || l.breakTieLocked(w) != nil)
}

// breakTieLocked returns which waiter goes of those that block each other, where w is one of them:
// each is the head of a line in which another one of them waits, and only they are before them. It
// is the one that came first. It returns nil where a waiter of none of them blocks one.
//
// Lines of one class have the order of arrival, so there nobody blocks the other.
func (l *waitLines) breakTieLocked(w *waiter) *waiter {
	if len(w.places) < 2 || len(l.rl.classes) == 0 && !l.flows {
		return nil
	}
	among, earliest := []*waiter{w}, w
	for i := 0; i < len(among); i++ {
		for j := range among[i].places {
			p := &among[i].places[j]
			if p.pool {
				continue
			}
			head := p.slots.head()
			if !slices.Contains(among, head) && len(head.places) < 2 {
				return nil
			}
			if !slices.Contains(among, head) {
				among = append(among, head)
			}
		}
		if among[i].seq < earliest.seq {
			earliest = among[i]
		}
	}
	if !fairline.BlocksAll(among, (*waiter).isBlockedBy) {
		return nil
	}
	return earliest
}

// isBlockedBy reports whether one of some waiters is before w in the line of a model.
func (w *waiter) isBlockedBy(some map[*waiter]bool) bool {
	return slices.ContainsFunc(w.places, func(p place) bool { return !p.pool && some[p.slots.head()] })
}

// scarceLocked notes in the lines of a waiter what denies it.
func (l *waitLines) scarceLocked(w *waiter, b *batch) {
	if len(l.rl.classes) == 0 {
		return
	}
	for i := range b.costs {
		if b.costs[i].passes() {
			continue
		}
		for of := range state.Dimensions {
			if DecisionCode(state.Limits[of].Code) == b.costs[i].code {
				w.places[i].slots.scarce = of
			}
		}
	}
}

// partsLocked notes what part of what is scarce a waiter that passes takes of each line.
func (l *waitLines) partsLocked(w *waiter, b *batch) {
	for i := range b.costs {
		m := &b.costs[i]
		switch g := m.view.slots; {
		case len(w.places) > 0:
			w.places[i].part = m.part(w.places[i].slots.scarce)
		case g.waiting() > 0:
			l.passLocked(g, w.class, m)
		}
	}
}

// passLocked charges a class in a line for a call that did not stand in it. The next one may be
// another one then, so settleLocked serves the line.
func (l *waitLines) passLocked(g *slots, class string, m *modelCost) {
	if len(l.rl.classes) > 0 {
		g.line.Pass(l.rl.fairClassRLocked(class), m.part(g.scarce))
		l.vacated = append(l.vacated, g)
	}
}

// passedLocked charges a class for reservations that were made while others wait, in the lines of
// those, and settles.
func (l *waitLines) passedLocked(class string, made ...*Reservation) {
	for _, r := range made {
		for ; r != nil && r.home != nil && !l.shared && len(l.rl.classes) > 0; r = r.pool {
			if r.slots().waiting() > 0 {
				m := modelCost{cost: cost{Requests: 1, Count: r.estimate}}
				l.rl.coverRLocked(r.slots().name, &m.quota)
				l.passLocked(r.slots(), class, &m)
			}
		}
	}
	l.settleLocked()
}

// part returns what part of the scarce limit the cost is, at least 1; where the quota has no such
// limit, of that of requests.
func (m *modelCost) part(scarce state.Dimension) int64 {
	for _, of := range [...]state.Dimension{scarce, state.RPM, state.InFlight, state.RPD} {
		if limit := *m.quota.limit(of); limit > 0 {
			return fairline.Part(min(max(m.cost.Of(of), 0), limit), limit)
		}
	}
	return fairline.Unit >> 10 * int64(min(m.cost.Requests, 1<<10))
}
