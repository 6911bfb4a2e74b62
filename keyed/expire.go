package keyed

import (
	"math"
	"math/bits"
	"time"
)

const (
	// sweepOwn and sweepOther are how many counters that are due a request looks at, in its
	// own shard and, once in a janitorEvery, in another one.
	sweepOwn   = 4
	sweepOther = 16
	// janitorEvery is the least time between two looks at other shards.
	janitorEvery = int64(time.Millisecond)
	// janitorShards is how many other shards are looked at each time.
	janitorShards = 4
	// backwards is how far requests may lie behind each other without being taken for a clock
	// that was set back.
	backwards = int64(time.Second)
	// sampled is how many counters a search for a victim compares.
	sampled = 16
)

// due returns the Unix nanoseconds from which on an entry that is not used has no weight: the end
// of the cell after its current one.
func (e *entry) due() int64 {
	high, low := bits.Mul64(uint64(max(e.sequence.Load()+2, 0)), uint64(e.kind.window))
	if high > 0 || low > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(low)
}

// isDue reports whether tidy has something to do.
func (l *Limiter) isDue(s *shard, nanos int64) bool {
	passed := nanos - l.seen.Load()
	return s.due.Load() <= nanos || passed >= janitorEvery || passed <= -backwards
}

// tidy forgets a few counters that expired, as far as there are any at an instant in Unix
// nanoseconds: first of the shard that a request belongs to, then of others.
func (l *Limiter) tidy(s *shard, now time.Time, nanos int64) {
	if s.due.Load() <= nanos {
		l.sweep(s, now, nanos, sweepOwn)
	}
	last := l.seen.Load()
	passed := nanos - last
	if passed < janitorEvery && passed > -backwards || !l.seen.CompareAndSwap(last, nanos) {
		return
	}
	for range janitorShards {
		other := &l.shards[l.cursor.Add(1)&l.mask]
		if other.due.Load() <= nanos {
			l.sweep(other, now, nanos, sweepOther)
			return
		}
	}
}

// sweep looks at the counters of a shard that are due, up to most of them.
func (l *Limiter) sweep(s *shard, now time.Time, nanos int64, most int) {
	if !s.mu.TryLock() {
		return // another request works on it
	}
	defer s.mu.Unlock()
	l.sweepLocked(s, now, nanos, most)
}

func (l *Limiter) sweepLocked(s *shard, now time.Time, nanos int64, most int) {
	for ; most > 0 && len(s.queue) > 0 && s.queue[0].due <= nanos; most-- {
		e := s.queue[0].entry
		if due, expired := l.expire(e, nanos); !expired {
			s.queue[0].due = due
			s.queue.down(0)
			continue
		}
		l.forgetLocked(s, 0, now)
	}
	s.nextDueLocked()
}

// expire makes an entry dead if it has no weight at an instant, in Unix nanoseconds. If it has, or
// cannot be spared, expire returns when to look again.
func (l *Limiter) expire(e *entry, nanos int64) (due int64, expired bool) {
	e.lock()
	defer e.unlock()
	if due = e.due(); due > nanos {
		return due, false
	}
	return addUnits(max(nanos, 0), int64(min(e.kind.window, time.Second))), l.killLocked(e)
}

// killLocked makes an entry dead, unless it cannot be spared.
func (l *Limiter) killLocked(e *entry) bool {
	e.dead = e.pins == 0 && (l.remote == nil || l.remote.detach(e))
	return e.dead
}

// forgetLocked removes the entry at an index of a shard's queue, which is dead.
func (l *Limiter) forgetLocked(s *shard, i int, now time.Time) {
	s.removeLocked(i)
	l.count.Add(-1)
	if now = now.Round(0); s.floor.Before(now) {
		s.floor = now
	}
}

// evictLocked makes room in a shard: it forgets a counter that has expired, or else the one of a
// few that was used longest ago. It returns false if none can be spared.
func (l *Limiter) evictLocked(s *shard, now time.Time, nanos int64) bool {
	before := len(s.queue)
	if l.sweepLocked(s, now, nanos, sweepOwn); len(s.queue) < before {
		return true
	}
	for range len(s.queue)/sampled + 1 {
		victim, oldest := -1, uint32(0)
		tick := s.tick.Load()
		for range min(sampled, len(s.queue)) {
			s.hand = (s.hand + 1) % len(s.queue)
			age := tick - s.queue[s.hand].entry.used.Load()
			if (victim < 0 || age > oldest) && !s.queue[s.hand].entry.pinned() {
				victim, oldest = s.hand, age
			}
		}
		if victim >= 0 && l.evictAtLocked(s, victim, now) {
			return true
		}
	}
	return false
}

func (e *entry) pinned() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.pins > 0
}

// evictAtLocked forgets the entry at an index of a shard's queue unless it is pinned, and blocks
// the keys of the shard that are not resident for as long as the counter would have weight.
func (l *Limiter) evictAtLocked(s *shard, i int, now time.Time) bool {
	e := s.queue[i].entry
	e.lock()
	defer e.unlock()
	if !l.killLocked(e) {
		return false
	}
	at := instantOf(now, e.kind.window)
	if weight := e.decideLocked(&at, math.MaxInt, 0).ResetAfter; weight > 0 {
		l.lacked(&l.room.evicted)
		if until := now.Round(0).Add(weight); s.blocked.Before(until) {
			s.blocked = until
		}
	}
	l.forgetLocked(s, i, now)
	s.nextDueLocked()
	return true
}
