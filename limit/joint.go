package limit

import (
	"math"
	"reflect"
	"slices"
	"sync"
	"time"
)

// joint is several limiters for one request: a Set, or a level of a Tree. It takes from all of
// them or from none.
//
// A joint first peeks at all members, and only if none refuses, it puts the request on hold
// with one after the other. So a refusal leaves no trace, and never stands in the way of
// other requests. Holds are given back only if a member was charged elsewhere between the
// two steps.
type joint struct {
	caller
	lock    *jointLock
	members []member
	holders int // of the members, the first ones
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

// begin makes a joint of the limiters without nil ones and repetitions. A Set or a Tree is
// replaced by its members, so that no joint ever locks another, in any nesting. It must be
// called before any other method.
func (j *joint) begin(lock *jointLock, limiters []Limiter) {
	j.lock = lock
	j.init(j)
	for level, l := range limiters {
		switch l := l.(type) {
		case nil:
		case *Set:
			j.addAll(l.members, level)
		case *Tree:
			j.addAll(l.members, level)
		default:
			j.add(l, level)
		}
	}
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
	m.peeker, _ = l.(peeker)
	if m.holder, _ = l.(Holder); m.holder == nil {
		j.members = append(j.members, m)
		return
	}
	j.members = slices.Insert(j.members, j.holders, m)
	j.holders++
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

// TakeAt charges n units at now with all of the limiters if all of them admit them.
func (j *joint) TakeAt(now time.Time, n int) Decision {
	d, _ := j.takeAt(now, n)
	return d
}

// takeAt is TakeAt, and returns the level of the member that refuses.
func (j *joint) takeAt(now time.Time, n int) (d Decision, level int) {
	j.lock.Lock()
	defer j.lock.unlock()
	// The last member needs no hold: if it admits, all have.
	if d, level = j.gatherLocked(now, n, len(j.members)-1); !d.OK || n == 0 {
		return d, level
	}
	for i, h := range j.lock.held {
		h.Commit()
		j.lookLocked(i, now)
	}
	j.lock.clearLocked()
	return j.verdict(n)
}

func (j *joint) peekAt(now time.Time, n int) Decision {
	j.lock.Lock()
	defer j.lock.unlock()
	d, _ := j.peekLocked(now, n)
	return d
}

// HoldAt sets n units aside with all of the limiters if all of them admit them.
func (j *joint) HoldAt(now time.Time, n int) (Hold, Decision) {
	j.lock.Lock()
	defer j.lock.unlock()
	d, _ := j.gatherLocked(now, n, len(j.members))
	if len(j.lock.held) == 0 {
		return Hold{}, d
	}
	h := Hold{owner: &jointHold{joint: j, holds: slices.Clone(j.lock.held)}}
	j.lock.clearLocked()
	return h, d
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

// gatherLocked peeks, and then holds n units with the first holds members, and takes them from
// the others and from members that cannot hold. It stops at the first that refuses.
func (j *joint) gatherLocked(now time.Time, n, holds int) (d Decision, level int) {
	if d, level = j.peekLocked(now, n); !d.OK || n == 0 {
		return d, level
	}
	for i, m := range j.members {
		seen := &j.lock.seen[i]
		if i < min(holds, j.holders) {
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
	j.caller.watch(kick)
	for i, m := range j.members {
		if w, ok := m.Limiter.(watched); !ok || !w.watch(kick) {
			unwatch(j.members[:i+1], kick)
			return false
		}
	}
	return true
}

func (j *joint) unwatch(kick chan struct{}) {
	j.caller.unwatch(kick)
	unwatch(j.members, kick)
}

func unwatch(members []member, kick chan struct{}) {
	for _, m := range members {
		if w, ok := m.Limiter.(watched); ok {
			w.unwatch(kick)
		}
	}
}

// jointHold is the holds of the members for one request.
type jointHold struct {
	joint *joint
	holds []Hold // guarded by the lock of the joint; nil when they have ended
}

func (h *jointHold) end(_ uint64, commit bool) {
	h.joint.lock.Lock()
	holds := h.holds
	h.holds = nil
	for _, part := range holds {
		part.finish(commit)
	}
	h.joint.lock.Unlock()
	if holds != nil {
		h.joint.changed()
	}
}
