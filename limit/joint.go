package limit

import (
	"math"
	"reflect"
	"slices"
	"sync"
	"time"
)

// joint is several limiters for one request: it takes from all of them or from none.
//
// A joint first peeks at all members, and only if none refuses, it puts the request on hold
// with one after the other. So a refusal leaves no trace, and never stands in the way of
// other requests. Holds are given back only if a member was charged elsewhere between the
// two steps.
type joint struct {
	lock    *jointLock
	members []member // Holders come first
}

// together is a joint as a limiter: a Set, or a level of a Tree.
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

// member is one of the limiters, and its methods beside TakeAt.
type member struct {
	Limiter
	holder Holder // nil if it cannot hold
	peeker peeker // nil if it cannot be asked without a charge
	level  int    // its index in the list of which the joint was made
}

// jointLock is the lock under which joints decide, and the scratch space of a decision.
type jointLock struct {
	sync.Mutex
	seen []Decision // of each member
	held []Hold     // of the members that have the request on hold
}

// newJoint returns a joint of the limiters without nil ones and repetitions. A Set or a
// Tree is replaced by its members, so that no joint ever locks another, in any nesting.
func newJoint(lock *jointLock, limiters []Limiter) joint {
	j := joint{lock: lock}
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

// same reports whether a and b are one limiter. Limiters that cannot be compared are not:
// a == b panics only if both cannot.
func same(a, b Limiter) bool { return reflect.ValueOf(a).Comparable() && a == b }

// unlock unlocks. If a limiter panicked, it first cancels the holds that are left.
func (l *jointLock) unlock() {
	l.cancelLocked()
	l.Unlock()
}

func (l *jointLock) cancelLocked() {
	for _, h := range l.held {
		h.Cancel()
	}
	l.clearLocked()
}

func (l *jointLock) clearLocked() {
	clear(l.held)
	l.held = l.held[:0]
}

// takeAt is TakeAt, and returns the level of the member that refuses.
func (j *joint) takeAt(now time.Time, n int) (d Decision, level int) {
	j.lock.Lock()
	defer j.lock.unlock()
	if d, level = j.peekLocked(now, n); !d.OK || n == 0 {
		return d, level
	}
	// The last member needs no hold: if it admits, all have.
	last := len(j.members) - 1
	if d, level = j.gatherLocked(now, n, last); !d.OK {
		return d, level
	}
	for i, h := range j.lock.held {
		h.Commit()
		j.lookLocked(i, now)
	}
	j.lock.clearLocked()
	return j.verdict(n)
}

func (j *joint) peekAt(now time.Time, n int) (d Decision, level int) {
	j.lock.Lock()
	defer j.lock.unlock()
	return j.peekLocked(now, n)
}

// holdAt is HoldAt, and returns the level of the member that refuses. The end of the hold
// notifies the waiters of c.
func (j *joint) holdAt(c *caller, now time.Time, n int) (h Hold, d Decision, level int) {
	j.lock.Lock()
	defer j.lock.unlock()
	if d, level = j.peekLocked(now, n); !d.OK || n == 0 {
		return Hold{}, d, level
	}
	if d, level = j.gatherLocked(now, n, len(j.members)); !d.OK {
		return Hold{}, d, level
	}
	if len(j.lock.held) > 0 {
		h = Hold{owner: &jointHold{lock: j.lock, caller: c, holds: slices.Clone(j.lock.held)}}
		j.lock.clearLocked()
	}
	return h, d, level
}

// peekLocked asks all members. A member that can only be asked with a charge is assumed to
// admit, for now.
func (j *joint) peekLocked(now time.Time, n int) (d Decision, level int) {
	j.lock.seen = slices.Grow(j.lock.seen[:0], len(j.members))[:len(j.members)]
	for i, m := range j.members {
		if m.peeker != nil {
			j.lock.seen[i] = m.peeker.peekAt(now, n)
		} else {
			j.lookLocked(i, now)
		}
	}
	return j.resolveLocked(now, n)
}

// lookLocked sets what is seen of a member that does not refuse to its present state.
func (j *joint) lookLocked(i int, now time.Time) {
	j.lock.seen[i] = j.members[i].TakeAt(now, 0)
	j.lock.seen[i].OK = true
}

// resolveLocked returns the verdict. If that is a refusal, it cancels the holds, and looks
// again at the members that admitted the request.
func (j *joint) resolveLocked(now time.Time, n int) (d Decision, level int) {
	if d, level = j.verdict(n); d.OK {
		return d, level
	}
	j.lock.cancelLocked()
	for i, s := range j.lock.seen {
		if s.OK {
			j.lookLocked(i, now)
		}
	}
	return j.verdict(n)
}

// gatherLocked holds n units with the first holds members, and takes them from the others
// and from members that cannot hold. It stops at the first that refuses.
func (j *joint) gatherLocked(now time.Time, n, holds int) (d Decision, level int) {
	for i, m := range j.members {
		seen := &j.lock.seen[i]
		if m.holder != nil && i < holds {
			var h Hold
			h, *seen = m.holder.HoldAt(now, n)
			j.lock.held = append(j.lock.held, h)
		} else {
			*seen = m.TakeAt(now, n)
		}
		if !seen.OK {
			break
		}
	}
	return j.resolveLocked(now, n)
}

// verdict combines the decisions of all members into one, and returns the level of the
// member that refuses hardest, the first of equals.
func (j *joint) verdict(n int) (d Decision, level int) {
	d = Decision{OK: n >= 0, Never: n < 0, Remaining: math.MaxInt}
	var worst time.Duration
	for i, s := range j.lock.seen {
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

// hardness orders refusals: hardest is one for ever, then one without a known end, then the
// others by RetryAfter.
func hardness(d Decision) time.Duration {
	switch {
	case d.Never:
		return math.MaxInt64
	case d.RetryAfter <= 0:
		return math.MaxInt64 - 1
	}
	return min(d.RetryAfter, math.MaxInt64-2)
}

// watch notifies kick of the holds of all members, or of none if one member cannot notify:
// such a member is tried with a hold on the others, and two waiters would wake each other
// for ever with the ends of those holds.
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

// jointHold is the holds of the members for one request.
type jointHold struct {
	lock   *jointLock
	caller *caller
	holds  []Hold // guarded by lock; nil when they have ended
}

func (h *jointHold) end(_ uint64, commit bool) {
	h.lock.Lock()
	holds := h.holds
	h.holds = nil
	for _, part := range holds {
		part.finish(commit)
	}
	h.lock.Unlock()
	if holds != nil {
		h.caller.changed()
	}
}
