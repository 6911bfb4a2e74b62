package keyed

import "dappco.re/go/core/go-ratelimit/limit"

// evictions bounds how often a request makes room that others take.
const evictions = 100

// add returns the entry of a visit's counter, which it makes if there is none by now. It is still
// to be served. If the visit needs no entry, or gets none, add returns the decision.
func (l *Limiter) add(v *visit, p purpose) (*entry, limit.Decision) {
	for range evictions {
		e, d, full := l.tryAdd(v, p)
		if !full {
			return e, d
		}
		if !l.evictElsewhere(v) {
			break
		}
	}
	// Only the end of a hold helps.
	return nil, l.counted(limit.Decision{Never: v.Cost > v.Limit}, p)
}

// tryAdd is add, but for that it evicts in the visit's shard alone. full tells that there is no
// room there.
func (l *Limiter) tryAdd(v *visit, p purpose) (e *entry, d limit.Decision, full bool) {
	s := v.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.table.Load().find(v.hash, &v.Request); e != nil {
		return e, d, false
	}
	d, unknown := l.firstLocked(v, v.Cost)
	switch {
	case p == resetting:
		if !unknown {
			return nil, limit.Decision{OK: true}, false
		}
	case unknown && l.refuse:
		if p == holding {
			d = withoutEntry(d)
		}
		return nil, l.counted(d, p), false
	case l.remote != nil:
	case p == peeking:
		if d.OK {
			d, _ = l.firstLocked(v, 0)
		}
		return nil, d, false
	case !d.OK || v.Cost == 0 && p == charging:
		return nil, d, false
	}
	i := v.startLocked()
	if p != peeking && l.count.Add(1) > l.maxKeys && !l.evictLocked(s, v.now, i.nanos) {
		l.count.Add(-1)
		return nil, d, true
	}
	e = l.entryLocked(v, &i, unknown, p)
	if p != peeking {
		s.addLocked(e)
	}
	return e, d, false
}

// firstLocked decides on cost units of a counter without an entry. unknown tells that it may have
// been evicted.
func (l *Limiter) firstLocked(v *visit, cost int) (d limit.Decision, unknown bool) {
	if d, unknown = v.unknownLocked(cost); unknown && l.refuse {
		return d, true
	}
	c, at := counts{}.at(v.startLocked().sequence, &v.instant)
	return c.decide(v.Limit, cost, at), unknown
}

// startLocked returns the instant at which a key counts that is not resident.
func (v *visit) startLocked() instant {
	if v.now.Before(v.shard.floor) {
		return instantOf(v.shard.floor, v.Window)
	}
	return v.instant
}

// counted counts the decision on a visit for which there was no room, or no certainty.
func (l *Limiter) counted(d limit.Decision, p purpose) limit.Decision {
	if !d.OK && !d.Never && p != peeking && p != resetting {
		l.lacked(&l.room.refused)
	}
	return d
}

// withoutEntry makes a peek at a key that may have been evicted a refusal: there is no counter that
// could be charged later.
func withoutEntry(d limit.Decision) limit.Decision {
	if d.OK {
		d.OK, d.RetryAfter = false, d.ResetAfter
	}
	return d
}

// entryLocked returns an entry for the key of a visit, which has none in the table. It is dead if
// it is only to be looked at.
func (l *Limiter) entryLocked(v *visit, i *instant, unknown bool, p purpose) *entry {
	var e *entry
	if l.remote != nil {
		e = l.remote.orphan(v, p)
	}
	if e == nil {
		e = l.newEntry(v, i)
		if l.remote != nil {
			e.ledger = l.remote.open(e)
			e.ledger.unread.Store(unknown)
		}
	}
	e.lock()
	defer e.unlock()
	e.dead = p == peeking
	if l.remote != nil {
		l.remote.importLocked(e)
		l.remote.markGrown(e)
	}
	return e
}

// evictElsewhere makes room in any shard but that of a visit, or returns false.
func (l *Limiter) evictElsewhere(v *visit) bool {
	start := l.cursor.Add(1)
	for n := range uint32(len(l.shards)) {
		s := &l.shards[(start+n)&l.mask]
		if s == v.shard {
			continue
		}
		s.mu.Lock()
		ok := l.evictLocked(s, v.now, v.nanos)
		s.mu.Unlock()
		if ok {
			return true
		}
	}
	return false
}
