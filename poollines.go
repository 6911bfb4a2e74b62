package ratelimit

import (
	"slices"
	"strings"
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
	if !b.modelsPass() {
		l.sleepInPoolsLocked(w, g, pending)
		return true
	}
	for i := range w.places {
		p := &w.places[i]
		if !p.pool {
			continue
		}
		wasAwake := p.entry.IsAwake()
		p.held = wasAwake
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
	if !b.modelsPass() {
		return b.own
	}
	return b.wait
}

// modelsPass reports whether all models let the requests pass, whatever their pools do.
func (b *batch) modelsPass() bool {
	for i := range b.costs[:b.models()] {
		if !b.costs[i].passes() {
			return false
		}
	}
	return true
}

// isAsleepIn reports whether a waiter sleeps in a line.
func (w *waiter) isAsleepIn(g *slots) bool {
	return slices.ContainsFunc(w.places, func(p place) bool { return p.slots == g && !p.entry.IsAwake() })
}

// restInPoolsLocked has the line of each pool that keeps a waiter served when the wait for that one
// is over: those behind it may go then, although it may have to wait for another one. It reports
// whether any pool keeps it. wait is when to look at it at the latest.
func (w *waiter) restInPoolsLocked(b *batch, wait time.Duration) (keeps bool) {
	for i := range w.places {
		p := &w.places[i]
		if !p.pool || !p.entry.IsAwake() {
			continue
		}
		if keeps = true; w.leads(p) {
			p.slots.sleepLocked(sooner(b.costs[i].wait, wait))
		}
	}
	return keeps
}

// wakeNextLocked wakes the waiter that is next in the line of a model in those of its pools, before
// any of these lines is served: it may come before those that are awake there already. After others
// have left places, it is woken where a pool keeps somebody, or held the one that left.
func (g *slots) wakeNextLocked(left []place) {
	next := g.head()
	if next == nil || !next.isNext(nil) {
		return
	}
	for i := range next.places {
		p := &next.places[i]
		held := func(was place) bool { return was.held && was.slots == p.slots }
		if p.pool && (left == nil || p.slots.head() != nil || slices.ContainsFunc(left, held)) {
			p.slots.line.Wake(p.entry)
		}
	}
}

// wakeForPoolsLocked wakes the waiters of all processes in the lines of the pools that they wait
// for. No event says which those are; all processes come to the same. A limiter that shares nothing
// does so as it serves them: see standInPoolsLocked.
//
// One that passes stays awake, so that those behind it wait until its process has served it: what
// is left then is not known before.
func (l *waitLines) wakeForPoolsLocked() {
	if l.waiting == 0 || !l.rl.pools.any() || !l.rl.ledger.shares() {
		return
	}
	var pools []*slots
	decided := make(map[*waiter]*batch)
	for g := range l.occupied {
		if !state.IsPool(g.name) {
			continue
		}
		pools = append(pools, g)
		for e := range g.line.All() {
			w := e.Value
			if decided[w] == nil && l.isNextLocked(w) {
				decided[w] = l.rl.decideBatchLocked(w.requests)
			}
			if b := decided[w]; b != nil && b.modelsPass() {
				g.line.Wake(e)
			} else {
				g.line.Sleep(e)
			}
		}
	}
	slices.SortFunc(pools, func(a, b *slots) int { return strings.Compare(a.name, b.name) })
	for moved := true; moved; {
		moved = false
		for _, g := range pools {
			for e := g.line.Head(); e != nil && !e.Value.holds(g, decided[e.Value]); e = g.line.Head() {
				g.line.Sleep(e)
				moved = true
			}
		}
	}
}

// holds reports whether a waiter at the head of the line of a pool keeps its place there: if the
// pool makes it wait, or nothing does. Then it is looked at again when the wait for the pool is
// over, whosever it is, because those behind it may go then.
func (w *waiter) holds(g *slots, b *batch) bool {
	passes := true
	for i := range w.places {
		p := &w.places[i]
		if p.slots == g && !b.costs[i].passes() {
			if wait := b.costs[i].wait; wait > 0 {
				g.sleepLocked(wait)
			}
			return true
		}
		passes = passes && b.costs[i].passes() && (!p.pool || !p.entry.IsAwake() || w.leads(p))
	}
	return passes
}

// leadsPools reports whether a waiter is at the head of the lines of the pools that it waits for.
func (w *waiter) leadsPools() bool {
	return !slices.ContainsFunc(w.places, func(p place) bool { return p.pool && p.entry.IsAwake() && !w.leads(&p) })
}
