package limit

import (
	"cmp"
	"container/heap"
	"context"
	"hash/maphash"
	"math"
	"slices"
	"sync"
	"time"
)

// tidy is expireLocked when it is time for that, unless another request has the lock.
func (k *Keyed[K]) tidy(now time.Time) {
	if !now.Before(*k.look.Load()) && k.mu.TryLock() {
		defer k.mu.Unlock()
		k.expireLocked(now)
	}
}

// expireLocked looks at up to two entries that had their turn an idle ago, and forgets those that
// were not used for idle and have recovered. The others get a new turn.
func (k *Keyed[K]) expireLocked(now time.Time) {
	for range 2 {
		if e := k.turns.next; e != &k.turns && now.Sub(e.turn) >= k.idle && !k.forgetLocked(e, now, k.idle) {
			k.turnLocked(e, now)
		}
	}
	if e := k.turns.next; e != &k.turns {
		look := e.turn.Add(k.idle)
		k.look.Store(&look)
	}
}

// turnLocked gives an entry a turn, at the end of the ring.
func (k *Keyed[K]) turnLocked(e *entry[K], now time.Time) {
	e.next.before, e.before.next = e.before, e.next
	e.turn, e.next, e.before = now, &k.turns, k.turns.before
	e.next.before, e.before.next = e, e
}

// roomLocked makes room for one more entry, or returns how long it takes until there can be room:
// 0 if that is not known.
func (k *Keyed[K]) roomLocked(now time.Time) (wait time.Duration, ok bool) {
	for moves := 0; len(k.free) >= k.most; moves++ {
		if moves > 8+len(k.free)/16 { // many were charged: put all in place at once
			for _, e := range k.free {
				e.placeLocked()
			}
			heap.Init(&k.free)
			moves = 0
		}
		switch e := k.free[0]; {
		case e.placeLocked():
			heap.Fix(&k.free, 0)
		case e.parked:
			return 0, false
		case now.Before(e.due):
			return e.due.Sub(now), false
		default: // a request may enter either meanwhile
			k.forgetLocked(cmp.Or(k.oldLocked(now), e), now, math.MinInt64)
		}
	}
	return 0, true
}

// oldLocked returns, of up to 16 of the oldest entries, the one that has recovered and was used
// longest ago, or nil. Those that were used since their turn get a new one, up to 256 of them.
func (k *Keyed[K]) oldLocked(now time.Time) (oldest *entry[K]) {
	var last time.Time
	e := k.turns.next
	for looks, unused := min(256, len(k.free)), 0; looks > 0 && unused < 16; looks-- {
		next := e.next
		e.shard.Lock()
		used, isFree := e.last, e.users == 0 && !now.Before(e.recovered)
		e.shard.Unlock()
		if isFree && (oldest == nil || used.Before(last)) {
			oldest, last = e, used
		}
		if unused++; e.turn.Before(used) {
			unused--
			k.turnLocked(e, latest(now, used))
		}
		e = next
	}
	return oldest
}

// forgetLocked forgets an entry, unless it has users, has not recovered, or was used within idle.
func (k *Keyed[K]) forgetLocked(e *entry[K], now time.Time, idle time.Duration) bool {
	e.shard.Lock()
	defer e.shard.Unlock()
	if e.place < 0 || e.users > 0 || now.Before(e.recovered) || now.Sub(e.last) < idle {
		return false
	}
	if k.floor.Before(e.recovered) {
		k.floor = new(e.recovered)
	}
	e.next.before, e.before.next = e.before, e.next
	heap.Remove(&k.free, e.place)
	e.shard.removeLocked(e)
	return true
}

// keyedShard is a part of the entries: a hash table with chains. The lock of the Keyed is taken
// before that of a shard.
type keyedShard[K comparable] struct {
	sync.Mutex             // not held while a limiter is called that calls code of others
	chains     []*entry[K] // a power of two of them
	size       int
	_          [24]byte // a cache line each
}

func (k *Keyed[K]) shard(key K) (s *keyedShard[K], hash uint64) {
	hash = maphash.Comparable(k.seed, key)
	return &k.shards[hash>>32&uint64(len(k.shards)-1)], hash
}

func (s *keyedShard[K]) chain(hash uint64) **entry[K] { return &s.chains[hash&uint64(len(s.chains)-1)] }

func (s *keyedShard[K]) find(hash uint64, key K) *entry[K] {
	e := *s.chain(hash)
	for e != nil && (e.hash != hash || e.key != key) {
		e = e.chain
	}
	return e
}

func (s *keyedShard[K]) add(e *entry[K]) {
	s.Lock()
	defer s.Unlock()
	if s.size++; 2*s.size > len(s.chains) {
		s.resizeLocked(2 * len(s.chains))
	}
	first := s.chain(e.hash)
	e.chain, *first = *first, e
}

func (s *keyedShard[K]) removeLocked(e *entry[K]) {
	link := s.chain(e.hash)
	for *link != e {
		link = &(*link).chain
	}
	*link = e.chain
	if s.size--; s.size < len(s.chains)/16 {
		s.resizeLocked(len(s.chains) / 4)
	}
}

func (s *keyedShard[K]) resizeLocked(count int) {
	old := s.chains
	s.chains = make([]*entry[K], count)
	for _, e := range old {
		for e != nil {
			first, next := s.chain(e.hash), e.chain
			e.chain, *first = *first, e
			e = next
		}
	}
}

// entry is the limiter of a key. The lock of its shard guards what is not said to be fixed.
type entry[K comparable] struct {
	hash      uint64         // fixed
	key       K              // fixed
	chain     *entry[K]      // the next in its chain
	limiter   Limiter        // fixed
	bucket    *bucketed      // fixed: that of the limiter, or nil
	floor     *time.Time     // fixed: an earlier instant counts as this
	last      time.Time      // when it was used last
	recovered time.Time      // when the limiter will be as new, if nothing else is charged
	charged   bool           // if not, the entry goes with its last user
	parked    bool           // last in free: its last user puts it in its place
	plain     bool           // fixed: the limiter calls no code of others
	full      bool           // fixed: it was made for a look, while there was no room
	users     int32          // requests that have entered, waiters and holds
	set       *Set           // fixed: of the limiter, if that has no WaitN
	shard     *keyedShard[K] // fixed

	// The lock of the Keyed guards these.
	next, before *entry[K] // in the ring of turns
	turn         time.Time // when it got its turn
	due          time.Time // recovered, as of when it got its place, or endOfTime if parked
	place        int       // in free; -1 if it is not in the Keyed
}

type waiting interface {
	WaitN(ctx context.Context, n int) error
}

func newEntry[K comparable](key K, l Limiter, now time.Time) *entry[K] {
	e := &entry[K]{key: key, limiter: l, users: 1, last: now, recovered: startOfTime,
		parked: true, due: endOfTime, place: -1}
	e.next, e.before = e, e
	switch l := l.(type) {
	case *GCRA:
		e.bucket, e.plain = &l.bucketed, true
	case *Meter:
		e.bucket, e.plain = &l.bucketed, true
	case *AtomicGCRA, *FixedWindow, *AnchoredWindow, *SlidingCounter, *SlidingLog, *TokenBucket:
		e.plain = true
	}
	if _, ok := l.(waiting); !ok {
		e.set = All(l)
	}
	return e
}

// noteLocked notes that the limiter, which was charged or not, said at an instant that it recovers
// within reset.
func (e *entry[K]) noteLocked(at time.Time, charged bool, reset time.Duration) {
	e.charged = e.charged || charged || reset > 0
	if reset > 0 { // else it has recovered already, at an unknown instant
		recovered := at.Add(reset)
		if recovered.Sub(at) < reset {
			recovered = endOfTime
		}
		e.recovered = latest(e.recovered, recovered)
	}
}

// placeLocked says where in free an entry belongs now, and whether that is another place.
func (e *entry[K]) placeLocked() (moved bool) {
	e.shard.Lock()
	defer e.shard.Unlock()
	due := e.recovered
	if e.parked = e.users > 0; e.parked {
		due = endOfTime
	}
	moved = !due.Equal(e.due)
	e.due = due
	return moved
}

// startOfTime and endOfTime are the first and the last instant of a time.Time.
var (
	startOfTime = time.Unix(-1<<63, 0)
	endOfTime   = time.Unix(1<<63-62135596801, 999999999)
)

func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// recoveries is a heap of entries, by when they will have recovered. An entry that is charged keeps
// its place until it comes to the top, so a charge costs nothing here.
type recoveries[K comparable] []*entry[K]

func (r recoveries[K]) Len() int           { return len(r) }
func (r recoveries[K]) Less(i, j int) bool { return r[i].due.Before(r[j].due) }

func (r recoveries[K]) Swap(i, j int) {
	r[i], r[j] = r[j], r[i]
	r[i].place, r[j].place = i, j
}

// Push adds an entry at the end.
func (r *recoveries[K]) Push(x any) {
	e := x.(*entry[K])
	e.place = len(*r)
	*r = append(*r, e)
}

// Pop removes the entry at the end.
func (r *recoveries[K]) Pop() any {
	last := len(*r) - 1
	e := (*r)[last]
	e.place = -1
	if *r = slices.Delete(*r, last, last+1); cap(*r) > 1000+8*last {
		*r = slices.Clone(*r)
	}
	return e
}
