package ratelimit

import "fmt"

// DebugLines tells how all lines are, for a test that fails.
func (rl *RateLimiter) DebugLines() (s string) {
	rl.mu.Lock()
	defer rl.mu.Unlock()
	for g := range rl.lines.occupied {
		s += fmt.Sprintf("%s state %+v classes %d\n", g.name, g.line.State(nil, 0), g.line.Classes())
		for _, e := range g.line.Heads() {
			w := e.Value
			s += fmt.Sprintf("   head seq %d proc %d class %q ticket %d turn %d places:", w.seq, w.process, e.Class(), w.ticket, w.turn)
			for _, p := range w.places {
				s += fmt.Sprintf(" %s(head %v)", p.slots.name, p.slots.line.Head() == p.entry)
			}
			s += fmt.Sprintf(" next %v over %v any %v\n", rl.linesLocked().isNextLocked(w), w.over, w.any != nil)
		}
	}
	return s
}

// Charged returns the places of the charges of a reservation in the windows of its model and of its
// pools, by counted name: of two that are made without a cancellation between them, the later one
// has the larger place.
func (r *Reservation) Charged() map[string]uint32 {
	places := make(map[string]uint32)
	for ; r != nil; r = r.pool {
		if r.home != nil {
			places[r.slots().name] = r.requestAt
		}
	}
	return places
}
