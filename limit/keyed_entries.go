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

// turnLocked puts an entry at the end of the ring.
func (k *Keyed[K]) turnLocked(e *entry[K], now time.Time) {
	e.unlinkLocked()
	e.turn, e.next, e.before = now, &k.turns, k.turns.before
	e.next.before, e.before.next = e, e
}

// roomLocked makes room for one more entry, or returns how long it takes until there can be room:
// 0 if that is not known.
func (k *Keyed[K]) roomLocked(now time.Time) (wait time.Duration, ok bool) {
	for charged := 0; k.size >= k.most; {
		if len(k.free) == 0 {
			return 0, false
		}
		if charged > 8+len(k.free)/16 { // many were: put all in place at once
			for _, e := range k.free {
				e.shard.Lock()
				e.due = e.recovered
				e.shard.Unlock()
			}
			heap.Init(&k.free)
			charged = 0
		}
		e := k.free[0]
		e.shard.Lock()
		users, moved, wait := e.users, e.due.Before(e.recovered), e.recovered.Sub(now)
		e.due, e.parked = e.recovered, users > 0
		e.shard.Unlock()
		switch {
		case users > 0: // comes back with leave
			heap.Pop(&k.free)
		case moved:
			heap.Fix(&k.free, 0)
			charged++
		case wait > 0:
			return wait, false
		default: // a request may enter either meanwhile
			k.forgetLocked(cmp.Or(k.oldLocked(now), e), now, math.MinInt64)
		}
	}
	return 0, true
}

// oldLocked returns, of some of the oldest entries that have recovered, the one that was used
// longest ago, or nil. It looks at 256 that got their turn first, and at no more than 16 that were
// not used since: it gives the others a new turn.
func (k *Keyed[K]) oldLocked(now time.Time) (oldest *entry[K]) {
	var last time.Time
	for e, looks, unused := k.turns.next, min(256, k.size), 0; looks > 0 && unused < 16; looks-- {
		next := e.next
		e.shard.Lock()
		used, free := e.last, e.users == 0 && !now.Before(e.recovered)
		e.shard.Unlock()
		if free && (oldest == nil || used.Before(last)) {
			oldest, last = e, used
		}
		if e.turn.Before(used) {
			k.turnLocked(e, latest(now, used))
		} else {
			unused++
		}
		e = next
	}
	return oldest
}

// forgetLocked forgets an entry, unless it has users, has not recovered, or was used within idle.
func (k *Keyed[K]) forgetLocked(e *entry[K], now time.Time, idle time.Duration) bool {
	e.shard.Lock()
	defer e.shard.Unlock()
	if e.users > 0 || now.Before(e.recovered) || now.Sub(e.last) < idle {
		return false
	}
	k.floor = latest(k.floor, e.recovered)
	k.dropLocked(e)
	return true
}

// dropLocked removes an entry without users, of which the shard is locked.
func (k *Keyed[K]) dropLocked(e *entry[K]) {
	k.size--
	e.unlinkLocked()
	if !e.parked {
		heap.Remove(&k.free, e.place)
	}
	e.shard.removeLocked(e)
}

// keyedShard is a part of the entries: a hash table with chains, by the lower bits of the hash. The
// lock of the Keyed is taken before that of a shard.
type keyedShard[K comparable] struct {
	sync.Mutex             // not held while a limiter is called that calls code of others
	chains     []*entry[K] // a power of two of them
	size       int
	_          [24]byte // a cache line each
}

// newShards returns shards that are so small that no request waits for many entries to move.
func newShards[K comparable](most int) []keyedShard[K] {
	count := 64
	for count < 4096 && count <= most/512 {
		count *= 2
	}
	shards := make([]keyedShard[K], count)
	for i := range shards {
		shards[i].chains = make([]*entry[K], 1)
	}
	return shards
}

func (k *Keyed[K]) shard(key K) (s *keyedShard[K], hash uint64) {
	hash = maphash.Comparable(k.seed, key)
	return &k.shards[hash>>32&uint64(len(k.shards)-1)], hash
}

func (s *keyedShard[K]) find(hash uint64, key K) *entry[K] {
	e := s.chains[hash&uint64(len(s.chains)-1)]
	for e != nil && (e.hash != hash || e.key != key) {
		e = e.chain
	}
	return e
}

func (s *keyedShard[K]) addLocked(e *entry[K]) {
	if s.size++; 2*s.size > len(s.chains) {
		s.resizeLocked(2 * len(s.chains))
	}
	first := &s.chains[e.hash&uint64(len(s.chains)-1)]
	e.chain, *first = *first, e
}

func (s *keyedShard[K]) removeLocked(e *entry[K]) {
	link := &s.chains[e.hash&uint64(len(s.chains)-1)]
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
			next := e.chain
			first := &s.chains[e.hash&uint64(count-1)]
			e.chain, *first = *first, e
			e = next
		}
	}
}

// entry is the limiter of a key. The lock of its shard guards what is not said to be fixed.
type entry[K comparable] struct {
	hash      uint64    // fixed
	key       K         // fixed
	chain     *entry[K] // the next
	bucket    *bucketed // fixed: that of the limiter, or nil
	last      time.Time // when it was used last
	floor     time.Time // fixed: an earlier instant counts as this
	recovered time.Time // when the limiter will be as new, if nothing else is charged
	limiter   Limiter   // fixed
	plain     bool      // fixed: the limiter calls no code of others
	full      bool      // fixed: it was made for a look, while there was no room
	charged   bool      // if not, the entry goes with its last user
	parked    bool      // not in free: its last user puts it there
	users     int       // requests that have entered, waiters and holds
	waits     waiting   // fixed: the limiter, or a Set of it
	shard     *keyedShard[K]

	// The lock of the Keyed guards these.
	next, before *entry[K] // in the ring of turns
	turn         time.Time // when it got its turn
	due          time.Time // recovered, as of when it got its place
	place        int       // in free
}

type waiting interface {
	WaitN(ctx context.Context, n int) error
}

func newEntry[K comparable](key K, l Limiter, now time.Time) *entry[K] {
	e := &entry[K]{key: key, limiter: l, users: 1, parked: true, last: now, recovered: startOfTime}
	switch l := l.(type) {
	case *GCRA:
		e.bucket, e.plain = &l.bucketed, true
	case *Meter:
		e.bucket, e.plain = &l.bucketed, true
	case *AtomicGCRA, *FixedWindow, *AnchoredWindow, *SlidingCounter, *SlidingLog, *TokenBucket:
		e.plain = true
	}
	var ok bool
	if e.waits, ok = l.(waiting); !ok {
		e.waits = All(l)
	}
	return e
}

// noteLocked notes a use at now, and that the limiter, which was charged or not, said at an instant
// that it recovers within reset.
func (e *entry[K]) noteLocked(at, now time.Time, charged bool, reset time.Duration) {
	e.last = latest(e.last, now)
	e.charged = e.charged || charged || reset > 0
	if reset > 0 { // else it has recovered already, at an unknown instant
		recovered := at.Add(reset)
		if recovered.Sub(at) < reset {
			recovered = endOfTime
		}
		e.recovered = latest(e.recovered, recovered)
	}
}

func (e *entry[K]) unlinkLocked() {
	if e.next != nil {
		e.next.before, e.before.next = e.before, e.next
	}
}

// seen returns a decision of the limiter as it is seen from an instant that is early before that.
func (e *entry[K]) seen(d Decision, early time.Duration) Decision {
	if e.full {
		d.Remaining = 0
	}
	return d.asOf(early)
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
	if *r = slices.Delete(*r, last, last+1); cap(*r) > 1000+8*last {
		*r = slices.Clone(*r)
	}
	return e
}
