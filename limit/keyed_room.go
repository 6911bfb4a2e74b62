package limit

import (
	"container/heap"
	"time"
)

// To forget one of its entries, a full Keyed looks at up to oldLooks of those that got their
// turn first, and at no more than unusedLooks that were not used since.
const (
	oldLooks    = 256
	unusedLooks = 16
)

// roomLocked makes room for one more entry, or returns how long it takes until there can be
// room: 0 if that is not known.
func (k *Keyed[K]) roomLocked(t time.Time) (wait time.Duration, ok bool) {
	if k.entries.size < k.most {
		return 0, true
	}
	now := instant{t, k.line.at(t)}
	for {
		first, wait := k.firstLocked(now)
		if first == nil {
			return wait, false
		}
		// A request may have entered either of them since it was found.
		if e := k.oldLocked(now); e != nil && k.forgetLocked(e, now) || k.forgetLocked(first, now) {
			return 0, true
		}
	}
}

// firstLocked returns the entry that recovered first, or, if none has recovered, how long
// it takes until one has: 0 if that is not known.
func (k *Keyed[K]) firstLocked(now instant) (e *entry[K], wait time.Duration) {
	for charged := 0; k.free.size > 0; {
		if charged > 8+k.free.size/16 { // many were: put all in place at once
			k.free.renewLocked()
			charged = 0
		}
		top := k.free.at(0)
		e := top.entry
		e.mu.Lock()
		users, recovered := e.users, e.recovered
		e.parked = users > 0
		e.mu.Unlock()
		switch {
		case users > 0: // comes back with settle
			heap.Pop(&k.free)
		case top.due.before(recovered):
			top.due = recovered
			heap.Fix(&k.free, 0)
			charged++
		case now.before(recovered):
			return nil, k.line.time(recovered, now).Sub(now.time)
		default:
			return e, 0
		}
	}
	return nil, 0
}

// oldLocked returns, of some of the oldest entries that have recovered, the one that was
// used longest ago, or nil. It gives the entries a new turn that were used since theirs.
func (k *Keyed[K]) oldLocked(now instant) (oldest *entry[K]) {
	var last int64
	unused := 0
	e := k.recent.oldest
	for range min(oldLooks, k.entries.size) {
		newer := e.newer
		e.mu.Lock()
		used, isFree := e.last, e.isFreeLocked(now.tick)
		e.mu.Unlock()
		if isFree && (oldest == nil || used < last) {
			oldest, last = e, used
		}
		if used > e.turn {
			k.recent.renewLocked(e, max(now.ns, used))
		} else if unused++; unused == unusedLooks {
			break
		}
		e = newer
	}
	return oldest
}

// forgetLocked forgets an entry, unless it has users or has not recovered.
func (k *Keyed[K]) forgetLocked(e *entry[K], now instant) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.isFreeLocked(now.tick) {
		return false
	}
	if recovered := k.line.time(e.recovered, now); e.recovered != longAgo && k.floor.Before(recovered) {
		k.floor = recovered
	}
	k.dropLocked(e)
	return true
}

// dropLocked removes an entry without users, which is locked.
func (k *Keyed[K]) dropLocked(e *entry[K]) {
	e.gone = true
	k.entries.removeLocked(e)
	k.recent.removeLocked(e)
	if e.place >= 0 {
		heap.Remove(&k.free, e.place)
	}
}
