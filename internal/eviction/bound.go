package eviction

import "math"

// Bound keeps the waiters that need places by a deadline, so that they are looked at again only
// when as many places come later than before. The zero value is none. A Bound is not safe for
// concurrent use.
type Bound[W comparable] struct {
	waiters  map[W]bool
	most     int   // how many places any of them needs, at most
	earliest int64 // no deadline of them is before this instant
	at       int64 // the instant at which there are as many, when that was last looked at,
	looked   bool  // which was since there were none
}

// Add notes a waiter that needs so many places by a deadline.
func (b *Bound[W]) Add(w W, needs int, deadline int64) {
	if b.waiters == nil {
		b.waiters, b.most, b.earliest = make(map[W]bool), 0, Never
	}
	b.waiters[w] = true
	b.most, b.earliest = max(b.most, needs), min(b.earliest, deadline)
}

// Remove forgets a waiter, if it is there.
func (b *Bound[W]) Remove(w W) { delete(b.waiters, w) }

// Most returns how many places any of the waiters needs, at most; 0 where there are none, and none
// is to be added again.
func (b *Bound[W]) Most() int {
	if len(b.waiters) == 0 {
		*b = Bound[W]{}
	}
	return b.most
}

// Moved notes the instant at which time alone makes as many places as Most: math.MinInt64 where
// they are there, Never where it does not make them. It returns the waiters that may come too late
// by that, and forgets them: those that stay are to be added again. They are not returned again for
// the same instant.
func (b *Bound[W]) Moved(at int64) (late map[W]bool) {
	if at == Never {
		at = math.MinInt64 // an event may make them at any time
	}
	later := !b.looked || at > b.at
	if b.at, b.looked = at, true; !later || at <= b.earliest {
		return nil
	}
	late, b.waiters, b.most = b.waiters, nil, 0
	return late
}
