package keyed

import (
	"time"

	"dappco.re/go/core/go-ratelimit/limit"
)

// purpose is what a request does with its units if they fit.
type purpose uint8

const (
	charging purpose = iota
	holding
	joining   // nothing: it pins the counter, for a batch
	resetting // nothing: it makes a counter where one may have been evicted
)

// evictions bounds how often a request makes room that others take.
const evictions = 100

// add decides on a request for a key without an entry, and makes the entry that it needs. If there
// is an entry by now, add returns that, undecided. With an Origin the entry is not decided on yet.
func (l *Limiter) add(s *shard, hash uint64, now time.Time, r *Request, p purpose) (e *entry, d limit.Decision, o outcome) {
	for range evictions {
		e, d, o = l.tryAdd(s, hash, now, r, p)
		if o != full {
			return e, d, o
		}
		if !l.evictElsewhere(s, now) {
			break
		}
	}
	// Only the end of a hold helps.
	d = limit.Decision{Never: r.Cost > r.Limit}
	if !d.Never && p != resetting {
		l.refusedOne()
	}
	return nil, d, decided
}

func (l *Limiter) tryAdd(s *shard, hash uint64, now time.Time, r *Request, p purpose) (*entry, limit.Decision, outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.table.Load().find(hash, r); e != nil {
		return e, limit.Decision{}, locked
	}
	d, unknown := s.unknownLocked(now, r)
	if p == resetting && !unknown {
		return nil, limit.Decision{OK: true}, decided
	}
	if unknown && l.refuse && p != resetting {
		if p == holding {
			d = withoutEntry(d)
		}
		return nil, l.counted(d), decided
	}
	i := s.instantLocked(now, r.Window)
	d = i.decideFirst(now, r, p)
	if l.remote == nil && (!d.OK || r.Cost == 0 && p == charging) {
		return nil, d, decided
	}
	if l.count.Add(1) > l.maxKeys && !l.evictLocked(s, now, i.nanos) {
		l.count.Add(-1)
		return nil, d, full
	}
	e, known := l.entryLocked(r, &i)
	if l.remote != nil && !known {
		e.ledger.unread.Store(unknown)
	}
	e.beginLocked(r.Cost, p)
	s.addLocked(hash, e, l.hashOf)
	if l.remote != nil {
		l.remote.attach(e)
	}
	return e, d, decided
}

// counted counts the decision on a request for a key that may have been evicted.
func (l *Limiter) counted(d limit.Decision) limit.Decision {
	if !d.OK && !d.Never {
		l.refusedOne()
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

// entryLocked returns a dead entry for the key of a request, which has none in the table.
func (l *Limiter) entryLocked(r *Request, i *instant) (e *entry, known bool) {
	if l.remote != nil {
		if e := l.remote.orphan(r.Namespace, r.Key, r.Window); e != nil {
			return e, true
		}
	}
	e = l.newEntry(r, i)
	if l.remote != nil {
		e.ledger = l.remote.open(e)
	}
	return e, false
}

// beginLocked brings a dead entry to life, with the units of its first request. With a ledger that
// is decided afterwards. The lock is that of the shard.
func (e *entry) beginLocked(cost int, p purpose) {
	e.lock()
	defer e.unlock()
	e.dead = false
	c := e.countsLocked()
	switch {
	case p == joining:
		e.pins++
	case e.ledger != nil:
	case p == holding:
		c.held += int64(cost)
		e.pins++
	default:
		c.current += int64(cost)
	}
	e.setLocked(c)
}

// instantLocked returns the instant at which a key counts that is not resident.
func (s *shard) instantLocked(now time.Time, window time.Duration) instant {
	if now.Before(s.floor) {
		now = s.floor
	}
	return instantOf(now, window)
}

// evictElsewhere makes room in any shard but home, or returns false.
func (l *Limiter) evictElsewhere(home *shard, now time.Time) bool {
	nanos := instantOf(now, minWindow).nanos
	start := l.cursor.Add(1)
	for n := range uint32(len(l.shards)) {
		s := &l.shards[(start+n)&l.mask]
		if s == home {
			continue
		}
		s.mu.Lock()
		ok := l.evictLocked(s, now, nanos)
		s.mu.Unlock()
		if ok {
			return true
		}
	}
	return false
}
