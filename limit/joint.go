package limit

import (
	"math"
	"reflect"
	"slices"
	"sync"
	"time"
)

// joint is limiters from which a request takes together: from all of them or from none.
//
// A request is shown to all of them first, and only when none refuses it, it is put on
// hold with one after the other. So a refusal leaves no trace, not even for a moment in
// which it would be in the way of others; what is put on hold is given back only where
// somebody else took something between the two steps.
type joint struct {
	turn    *turn
	members []member // those that are Holders come first
}

// together is what a Set and a level of a Tree are: a joint as a limiter.
type together struct {
	caller
	joint joint
}

// TakeAt charges n units at now with all of the limiters if all of them admit them.
func (t *together) TakeAt(now time.Time, n int) Decision {
	d, _ := t.joint.takeAt(now, n)
	return d
}

func (t *together) peekAt(now time.Time, n int) Decision {
	d, _ := t.joint.peekAt(now, n)
	return d
}

// HoldAt sets n units aside with all of the limiters if all of them admit them.
func (t *together) HoldAt(now time.Time, n int) (Hold, Decision) {
	h, d, _ := t.joint.holdAt(&t.caller, now, n)
	return h, d
}

func (t *together) watch(kick chan struct{}) bool {
	t.caller.watch(kick)
	return t.joint.watch(kick)
}

func (t *together) unwatch(kick chan struct{}) {
	t.caller.unwatch(kick)
	t.joint.unwatch(kick)
}

// member is one of the limiters, and what it can do beside TakeAt.
type member struct {
	Limiter
	holder Holder // nil where it cannot hold
	peeker peeker // nil where it cannot be asked without a charge
	level  int    // its place in the list of which the joint was made
}

// turn is the lock under which joints decide, and the room which they need for that.
type turn struct {
	mu   sync.Mutex
	seen []Decision
	held []Hold
}

// newJoint returns a joint of the limiters without those that are nil, and without
// repetitions. The members of a Set or a Tree stand for themselves: so no turn is taken
// within another, in whatever way they are put together.
func newJoint(t *turn, limiters []Limiter) joint {
	j := joint{turn: t}
	for level, l := range limiters {
		switch l := l.(type) {
		case nil:
		case *Set:
			j.addAll(l.joint.members, level)
		case *Tree:
			j.addAll(l.joint.members, level)
		default:
			j.add(l, level)
		}
	}
	slices.SortStableFunc(j.members, func(a, b member) int {
		switch {
		case a.holder != nil && b.holder == nil:
			return -1
		case a.holder == nil && b.holder != nil:
			return 1
		}
		return 0
	})
	return j
}

func (j *joint) addAll(members []member, level int) {
	for _, m := range members {
		j.add(m.Limiter, level)
	}
}

func (j *joint) add(l Limiter, level int) {
	if slices.ContainsFunc(j.members, func(m member) bool { return same(m.Limiter, l) }) {
		return
	}
	m := member{Limiter: l, level: level}
	m.holder, _ = l.(Holder)
	m.peeker, _ = l.(peeker)
	j.members = append(j.members, m)
}

// same reports whether a and b are one limiter. Those that cannot be compared are not.
func same(a, b Limiter) bool {
	return reflect.ValueOf(a).Comparable() && reflect.ValueOf(b).Comparable() && a == b
}

// done ends a turn, and gives back what is still on hold when a limiter panics.
func (t *turn) done() {
	t.releaseLocked()
	t.mu.Unlock()
}

func (t *turn) releaseLocked() {
	for _, h := range t.held {
		h.Release()
	}
	t.clearLocked()
}

func (t *turn) clearLocked() {
	clear(t.held)
	t.held = t.held[:0]
}

// takeAt is TakeAt, and tells the level of the member that refuses it.
func (j *joint) takeAt(now time.Time, n int) (d Decision, level int) {
	j.turn.mu.Lock()
	defer j.turn.done()
	if d, level = j.peekLocked(now, n); !d.OK || n == 0 {
		return d, level
	}
	// The last one needs no hold: where it admits, all have.
	last := len(j.members) - 1
	if d, level = j.gatherLocked(now, n, last); !d.OK {
		return d, level
	}
	for i, h := range j.turn.held {
		h.Commit()
		j.lookLocked(i, now)
	}
	j.turn.clearLocked()
	return j.verdict(n)
}

func (j *joint) peekAt(now time.Time, n int) (d Decision, level int) {
	j.turn.mu.Lock()
	defer j.turn.done()
	return j.peekLocked(now, n)
}

// holdAt is HoldAt. The caller c is told of its end.
func (j *joint) holdAt(c *caller, now time.Time, n int) (h Hold, d Decision, level int) {
	j.turn.mu.Lock()
	defer j.turn.done()
	if d, level = j.peekLocked(now, n); !d.OK || n == 0 {
		return Hold{}, d, level
	}
	if d, level = j.gatherLocked(now, n, len(j.members)); !d.OK {
		return Hold{}, d, level
	}
	if len(j.turn.held) > 0 {
		h = Hold{owner: &jointHold{turn: j.turn, caller: c, holds: slices.Clone(j.turn.held)}}
		j.turn.clearLocked()
	}
	return h, d, level
}

// peekLocked asks all of them. One that can only be asked with a charge is taken to
// admit it, for now.
func (j *joint) peekLocked(now time.Time, n int) (d Decision, level int) {
	j.turn.seen = slices.Grow(j.turn.seen[:0], len(j.members))[:len(j.members)]
	for i, m := range j.members {
		if m.peeker != nil {
			j.turn.seen[i] = m.peeker.peekAt(now, n)
		} else {
			j.lookLocked(i, now)
		}
	}
	return j.settleLocked(now, n)
}

// lookLocked notes how things stand with a member that does not refuse.
func (j *joint) lookLocked(i int, now time.Time) {
	j.turn.seen[i] = j.members[i].TakeAt(now, 0)
	j.turn.seen[i].OK = true
}

// settleLocked is the verdict. If it is a refusal, what is on hold is given back, and
// those that admitted the request say how things stand without it.
func (j *joint) settleLocked(now time.Time, n int) (d Decision, level int) {
	if d, level = j.verdict(n); d.OK {
		return d, level
	}
	j.turn.releaseLocked()
	for i, s := range j.turn.seen {
		if s.OK {
			j.lookLocked(i, now)
		}
	}
	return j.verdict(n)
}

// gatherLocked holds n units with the first holds members, and takes them from the
// others and from those that cannot hold. It stops at the first that refuses.
func (j *joint) gatherLocked(now time.Time, n, holds int) (d Decision, level int) {
	for i, m := range j.members {
		seen := &j.turn.seen[i]
		if m.holder != nil && i < holds {
			var h Hold
			h, *seen = m.holder.HoldAt(now, n)
			j.turn.held = append(j.turn.held, h)
		} else {
			*seen = m.TakeAt(now, n)
		}
		if !seen.OK {
			break
		}
	}
	return j.settleLocked(now, n)
}

// verdict is the decision that those of all members make together, and the level of the
// one that refuses hardest, the first of equals.
func (j *joint) verdict(n int) (d Decision, level int) {
	d = Decision{OK: n >= 0, Never: n < 0, Remaining: math.MaxInt}
	var worst time.Duration
	for i, s := range j.turn.seen {
		d.Remaining = min(d.Remaining, s.Remaining)
		d.ResetAfter = max(d.ResetAfter, s.ResetAfter)
		if s.OK {
			continue
		}
		if h := hardness(s); h > worst {
			worst, level = h, j.members[i].level
			d.OK, d.Never, d.RetryAfter = false, s.Never, s.RetryAfter
		}
	}
	return d, level
}

// hardness orders refusals: one for ever, one of which nobody knows for how long, and
// the others by time.
func hardness(d Decision) time.Duration {
	switch {
	case d.Never:
		return math.MaxInt64
	case d.RetryAfter <= 0:
		return math.MaxInt64 - 1
	}
	return min(d.RetryAfter, math.MaxInt64-2)
}

// watch has kick told of the members' holds, or of none of them where one cannot tell:
// such a member is tried with a hold on the others, and two that wait would go on waking
// each other with the ends of those.
func (j *joint) watch(kick chan struct{}) bool {
	for i, m := range j.members {
		if w, ok := m.Limiter.(watched); !ok || !w.watch(kick) {
			unwatch(j.members[:i+1], kick)
			return false
		}
	}
	return true
}

func (j *joint) unwatch(kick chan struct{}) { unwatch(j.members, kick) }

func unwatch(members []member, kick chan struct{}) {
	for _, m := range members {
		if w, ok := m.Limiter.(watched); ok {
			w.unwatch(kick)
		}
	}
}

// jointHold is the holds of the members that belong to one.
type jointHold struct {
	turn   *turn
	caller *caller
	holds  []Hold // the turn's lock guards it; nil when they have ended
}

func (h *jointHold) end(_ uint64, commit bool) {
	h.turn.mu.Lock()
	holds := h.holds
	h.holds = nil
	for _, part := range holds {
		part.finish(commit)
	}
	h.turn.mu.Unlock()
	if holds != nil {
		h.caller.changed()
	}
}
