package lines

import (
	"cmp"
	"slices"

	"dappco.re/go/core/go-ratelimit/internal/account"
)

// turn is what came of looking at a candidate.
type turn int

const (
	stays  turn = iota // it waits, and those behind it
	yields             // it waits for long or for a reserve, and the next of other classes may go
	moved              // the line has changed
)

// mostTries bounds how often a waiter is tried between two services: those that wake each other in
// the lines of pools must not do so without an end.
const mostTries = 4

// Serve serves all lines that are marked, as far as there is room. The lines of models go first:
// the next of them may come before those that wait for their pools.
func (l *Lines) Serve(now account.Now) {
	l.progress++
	for {
		for _, g := range l.fresh {
			l.wakeNext(g)
		}
		l.fresh = l.fresh[:0]
		g := l.unmark()
		if g == nil {
			return
		}
		if l.serveLine(g, now) {
			l.mark(g)
		}
	}
}

// unmark returns a line that is to be served; nil for none.
func (l *Lines) unmark() (g *line) {
	if g = l.models.take(); g == nil {
		g = l.pools.take()
	}
	if g != nil {
		g.marked = false
	}
	return g
}

// isWornOut counts a try of a waiter, and reports whether there were too many.
func (l *Lines) isWornOut(w *Waiter) bool {
	if w.triedAt != l.progress {
		w.triedAt, w.tries = l.progress, 0
	}
	w.tries++
	return w.tries > mostTries
}

// serveLine tries the head of a line and, where that yields, the heads of its other classes. It
// reports whether the line has changed.
func (l *Lines) serveLine(g *line, now account.Now) (changed bool) {
	head := g.turn()
	if head == nil {
		return false
	}
	t := l.try(head, g, now)
	if t != yields {
		return t == moved
	}
	for _, e := range g.queue.Heads() {
		if c := e.Value; c.Waiter != head.Waiter {
			if t = l.try(c, g, now); t != yields {
				return t == moved
			}
		}
	}
	return false
}

// try serves a candidate that is next in one line, if it passes and is next in its other lines.
func (l *Lines) try(c *Candidate, g *line, now account.Now) turn {
	w := c.Waiter
	if l.isWornOut(w) {
		return stays
	}
	if w.Deadline < now.Instant {
		l.refuseAll(w, Late, now)
		return moved
	}
	if !c.isNext() {
		return c.behind(g, l.sleepInPools(c, g))
	}
	c.Verdict = l.host.Decide(c, now)
	waits := false
	t := stays
	if c.modelsPass() {
		t, waits = l.standInPools(c, g)
	} else {
		t = l.sleepInPools(c, g)
	}
	switch {
	case c.Verdict.Never:
		l.refuse(c, Never, now)
		return moved
	case l.host.IsHopeless(c, now):
		l.refuse(c, Late, now)
		return moved
	}
	passes := c.Verdict.Allowed && !waits
	if passes || waits {
		if d := l.preferred(c, passes, now); d != nil {
			l.serve(d, now)
			return moved
		}
	}
	l.rest(c, now)
	return c.behind(g, t)
}

// behind returns what a turn means for the other classes of a line. Where a candidate yields they
// are next, also while it is not next itself in another line.
func (c *Candidate) behind(g *line, t turn) turn {
	if t == stays && c.yields && g.queue.Classes() > 1 {
		return yields
	}
	return t
}

// preferred returns the first candidate of c's waiter, by preference, that passes now; nil for
// none. The others share the head of a pool's line with c, so preferred also schedules the next
// look for each that it tried.
func (l *Lines) preferred(c *Candidate, passes bool, now account.Now) *Candidate {
	for _, d := range c.Waiter.Candidates {
		switch {
		case d == c && passes:
			return c
		case d == c || !d.stands() || !d.isNext():
			continue
		}
		d.Verdict = l.host.Decide(d, now)
		if !d.modelsPass() {
			continue
		}
		if _, waits := l.standInPools(d, nil); d.Verdict.Allowed && !waits {
			return d
		}
		l.rest(d, now)
	}
	return nil
}

// standInPools wakes a candidate, which its models let pass, in the lines of the pools that it
// waits for, and lets it sleep in those of the others. It reports what that means for a line, and
// whether a pool makes it wait.
func (l *Lines) standInPools(c *Candidate, g *line) (t turn, waits bool) {
	pools, first := c.pools(), len(c.models())
	for i := range pools {
		p := &pools[i]
		was := p.entry.IsAwake()
		p.line.queue.Wake(p.entry)
		if !c.Items[first+i].Passes() || !p.line.leads(p, c) {
			waits = true
			continue
		}
		p.line.queue.Sleep(p.entry)
		if was {
			t = l.left(p.line, g, t)
		}
	}
	if !c.torn && c.isTorn() {
		c.torn = true
		l.torn = append(l.torn, c)
	}
	return t, waits
}

// isTorn reports whether one of the pools of a candidate makes it wait and another one does not.
func (c *Candidate) isTorn() bool {
	pools := c.pools()
	return slices.ContainsFunc(pools, func(p place) bool { return p.entry.IsAwake() != pools[0].entry.IsAwake() })
}

// markTorn has the candidates looked at that sleep in the line of a pool and wait for another one.
func (l *Lines) markTorn(pool *line) {
	l.torn = slices.DeleteFunc(l.torn, func(c *Candidate) bool {
		c.torn = c.isTorn()
		return !c.torn
	})
	slices.SortFunc(l.torn, func(a, b *Candidate) int {
		return cmp.Or(cmp.Compare(a.Waiter.Seq, b.Waiter.Seq), cmp.Compare(a.index(), b.index()))
	})
	for _, c := range l.torn {
		if slices.ContainsFunc(c.pools(), func(p place) bool { return p.line == pool && !p.entry.IsAwake() }) {
			l.mark(c.places[0].line)
		}
	}
}

// index returns the place of the candidate among those of its waiter.
func (c *Candidate) index() int { return slices.Index(c.Waiter.Candidates, c) }

// sleepInPools lets a candidate sleep in the lines of all its pools.
func (l *Lines) sleepInPools(c *Candidate, g *line) (t turn) {
	pools := c.pools()
	for i := range pools {
		if p := &pools[i]; p.entry.IsAwake() {
			p.line.queue.Sleep(p.entry)
			t = l.left(p.line, g, t)
		}
	}
	return t
}

// left notes that a candidate has left the head of a pool's line. If that is g, the line that is
// being served, left returns moved, and the caller goes on with g. Otherwise left marks the
// pool's line itself.
func (l *Lines) left(pool, g *line, t turn) turn {
	if pool == g {
		return moved
	}
	l.mark(pool)
	return t
}

// wakeNext wakes the candidate that is next in the line of a model in those of its pools, before
// any of these is served: it may come before those that are awake there already.
func (l *Lines) wakeNext(g *line) {
	next := g.turn()
	if next == nil || !next.isNext() {
		return
	}
	for _, p := range next.pools() {
		p.line.queue.Wake(p.entry)
	}
}

// rest schedules the next look at a candidate that waits. If one of its models denies it, it
// sleeps in its pools' lines, and only the wait of its models counts. Otherwise each pool's line
// that it leads is looked at when that pool's wait is over.
func (l *Lines) rest(c *Candidate, now account.Now) {
	c.noteScarce()
	v := &c.Verdict
	c.yields = len(l.classes) > 0 && (v.Wait() > l.span+1 || v.Keeps)
	if v.Keeps && c.keptAt == 0 {
		c.keptAt = now.Instant
	}
	first := len(c.models())
	rests := false
	for i := range c.places {
		if p := &c.places[i]; i >= first && p.entry.IsAwake() {
			if rests = true; p.line.leads(p, c) {
				l.restUntil(p.line, c.Items[i].Wait, now)
			}
		}
		if g := c.places[0].line; c.Items[i].Full && !g.needy {
			g.needy = true
			l.needy = append(l.needy, g)
		}
	}
	if rests {
		return
	}
	wait := v.Wait()
	if !c.modelsPass() {
		wait = v.OwnWait()
	}
	l.restUntil(c.places[0].line, wait, now)
}

// restUntil has a line served when a wait is over; one that only an event ends needs no time. No
// wait in the minute is longer than its span. A longer one is for the end of the day or of a
// cooldown, which follow the wall clock: that may be set meanwhile.
func (l *Lines) restUntil(g *line, wait int64, now account.Now) {
	if wait <= 0 {
		return
	}
	at := now.Instant + min(wait, l.span+1)
	if g.at > 0 && g.restAt > now.Instant && g.restAt <= at {
		return
	}
	l.resting.remove(g)
	g.restAt = at
	l.resting.put(g)
}
