package keyed

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// shard is a part of the counters, by hash. Lookups take no lock; mu guards all that is not
// atomic. The lock of a shard is taken before that of an entry, and no two shards are locked at
// once.
type shard struct {
	table atomic.Pointer[table]
	due   atomic.Int64  // Unix nanoseconds at which a counter may have expired
	tick  atomic.Uint32 // counters added so far, modulo 2^32: the clock of entry.used

	mu    sync.Mutex
	queue queue // all entries of the table
	hand  int   // where the next search for a victim begins in queue

	// floor is the latest instant at which a counter was forgotten. For a key that is not
	// resident an earlier one counts as floor: a clock that goes back finds no counter as new
	// that it has charged before.
	floor time.Time
	// blocked is when the last of the counters that were evicted while they counted will have
	// no weight. Before that, a key that is not resident may be one of them.
	blocked time.Time
	_       [16]byte // to whole cache lines
}

func (s *shard) init() {
	s.table.Store(newTable(1))
	s.due.Store(math.MaxInt64)
	s.floor = time.Unix(-1<<62, 0)
	s.blocked = s.floor
}

// addLocked adds an entry that is not in the table.
func (s *shard) addLocked(e *entry) {
	t := s.table.Load()
	if len(s.queue) >= t.room() {
		t = s.resizeLocked(len(t.buckets) * 2)
	}
	e.used.Store(s.tick.Add(1))
	t.addLocked(e)
	s.queue.push(dueEntry{e.due(), e})
	s.nextDueLocked()
}

// removeLocked removes the entry at an index of the queue, which is dead.
func (s *shard) removeLocked(i int) {
	t := s.table.Load()
	t.removeLocked(s.queue[i].entry)
	s.queue.removeAt(i)
	if len(t.buckets) > 1 && len(s.queue) < t.room()/8 {
		s.resizeLocked(len(t.buckets) / 2)
	}
}

func (s *shard) resizeLocked(buckets int) *table {
	t := newTable(buckets)
	for _, d := range s.queue {
		t.addLocked(d.entry)
	}
	s.table.Store(t)
	return t
}

func (s *shard) nextDueLocked() {
	due := int64(math.MaxInt64)
	if len(s.queue) > 0 {
		due = s.queue[0].due
	}
	s.due.Store(due)
}
