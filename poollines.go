package ratelimit

import (
	"time"

	"dappco.re/go/core/go-ratelimit/internal/state"
)

// The line of a pool has all waiters of its models, but most of them sleep. Awake are those that
// are at the head of the lines of their models, which have room for them, and that the pool denies
// or that stand behind one that it denies. So a waiter that its own model denies keeps nobody out
// of the pool.

// passes reports whether the decision on the cost alone lets it pass.
func (m *modelCost) passes() bool {
	return m.code == DecisionAllowed || m.code == DecisionUnlimited || m.code == DecisionUnknownModel
}

// isPool reports whether it is the cost for a pool.
func (m *modelCost) isPool() bool { return m.pool != nil }

// hasPools reports whether w stands in the line of a pool.
func (w *waiter) hasPools() bool { return len(w.places) > 0 && w.places[len(w.places)-1].pool }

// standInPoolsLocked wakes a waiter, which is at the head of the lines of its models, in the pools
// that it waits for, and lets it sleep in the others. It reports whether no pool makes it wait.
func (l *waitLines) standInPoolsLocked(w *waiter, b *batch, g *slots, pending *[]*slots) (passes bool) {
	if !w.hasPools() {
		return true
	}
	passes = true
	for i := range w.places {
		if p := &w.places[i]; !p.pool && !b.costs[i].passes() {
			l.sleepInPoolsLocked(w, g, pending)
			return true
		}
	}
	for i := range w.places {
		p := &w.places[i]
		if !p.pool {
			continue
		}
		wasAwake := p.entry.IsAwake()
		p.slots.line.Wake(p.entry)
		waits := !b.costs[i].passes()
		if !w.leads(p) {
			waits, passes = true, false
		}
		if !waits {
			p.slots.line.Sleep(p.entry)
			if wasAwake && p.slots != g {
				*pending = append(*pending, p.slots)
			}
		} else {
			passes = false
		}
	}
	return passes
}

// leads reports whether a waiter with a place in the line of a pool, in which it is awake, or
// another candidate of its call is next there: a call does not hold itself up.
func (w *waiter) leads(p *place) bool {
	head := p.slots.head()
	return head == w || head != nil && w.any != nil && head.any == w.any || p.slots.isNext(p.entry)
}

// sleepInPoolsLocked lets a waiter sleep in the lines of its pools. It tells what that means for
// the line g.
func (l *waitLines) sleepInPoolsLocked(w *waiter, g *slots, pending *[]*slots) turn {
	t := stays
	for i := range w.places {
		p := &w.places[i]
		if !p.pool || !p.entry.IsAwake() {
			continue
		}
		if p.slots.line.Sleep(p.entry); p.slots == g {
			t = again
		} else {
			*pending = append(*pending, p.slots)
		}
	}
	return t
}

// rest returns how long until a waiter at the head of its lines is to be looked at. One that its
// own models deny sleeps in the lines of its pools, whose waits nobody would tell it of: they count
// when the models let it pass.
func (b *batch) rest() time.Duration {
	for i := range b.costs[:b.models()] {
		if !b.costs[i].passes() {
			return b.own
		}
	}
	return b.wait
}

// isAsleepIn reports whether a waiter sleeps in a line.
func (w *waiter) isAsleepIn(g *slots) bool {
	for i := range w.places {
		if p := &w.places[i]; p.slots == g {
			return !p.entry.IsAwake()
		}
	}
	return false
}

// restInPoolsLocked has the lines of the pools that keep a waiter served when a wait is over. It
// reports whether any keeps it.
func (w *waiter) restInPoolsLocked(wait time.Duration) (keeps bool) {
	for i := range w.places {
		p := &w.places[i]
		if !p.pool || !p.entry.IsAwake() {
			continue
		}
		if keeps = true; w.leads(p) {
			p.slots.sleepLocked(wait)
		}
	}
	return keeps
}

// wakeForPoolsLocked wakes the waiters of all processes in the lines of the pools that they wait
// for: see standInPoolsLocked. No event says which those are; all processes come to the same. A
// limiter that shares nothing does so as it serves them.
func (l *waitLines) wakeForPoolsLocked() {
	if l.waiting == 0 || !l.rl.pools.any() || !l.rl.ledger.shares() {
		return
	}
	var pending []*slots // which a plan looks at anyway
	for g := range l.occupied {
		if !state.IsPool(g.name) {
			continue
		}
		for e := range g.line.All() {
			if w := e.Value; l.isNextLocked(w) {
				l.standInPoolsLocked(w, l.rl.decideBatchLocked(w.requests), nil, &pending)
			} else {
				l.sleepInPoolsLocked(w, nil, &pending)
			}
		}
	}
}

// leadsPools reports whether a waiter is at the head of the lines of the pools that it waits for.
func (w *waiter) leadsPools() bool {
	for i := range w.places {
		if p := &w.places[i]; p.pool && p.entry.IsAwake() && !w.leads(p) {
			return false
		}
	}
	return true
}
