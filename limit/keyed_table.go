package limit

import (
	"hash/maphash"
	"math/bits"
	"sync/atomic"
)

// table finds entries by their keys, without a lock. The lock of its Keyed guards add and
// remove. It consists of segments that grow on their own, so no request waits for all
// entries to move.
type table[K comparable] struct {
	seed     maphash.Seed
	segments []segment[K] // a power of two of them, by the upper bits of the hash
	shift    uint         // from the hash to the index of its segment
	size     int          // entries
}

// segment is a hash table with chains, by the lower bits of the hash.
type segment[K comparable] struct {
	chains atomic.Pointer[[]chain[K]] // a power of two of them
	size   int                        // entries
}

type chain[K comparable] struct{ first atomic.Pointer[entry[K]] }

// A segment of a table of most entries has segmentSize of them on average, or more in a
// table of more than segmentSize*maxSegments.
const (
	segmentSize = 512
	maxSegments = 4096
)

func newTable[K comparable](most int) table[K] {
	count := 1
	for count < maxSegments && count <= most/segmentSize {
		count *= 2
	}
	t := table[K]{seed: maphash.MakeSeed(), segments: make([]segment[K], count)}
	t.shift = uint(64 - bits.TrailingZeros(uint(count)))
	return t
}

// find returns the entry of a key and its hash. Without the lock it may miss an entry that
// is there, while the segment is resized.
func (t *table[K]) find(hash uint64, key K) *entry[K] {
	chains := t.segments[hash>>t.shift].chains.Load()
	if chains == nil {
		return nil
	}
	e := (*chains)[hash&uint64(len(*chains)-1)].first.Load()
	for e != nil && (e.hash != hash || e.key != key) {
		e = e.next.Load()
	}
	return e
}

func (t *table[K]) hash(key K) uint64 { return maphash.Comparable(t.seed, key) }

func (t *table[K]) addLocked(e *entry[K]) {
	s := &t.segments[e.hash>>t.shift]
	if chains := s.chains.Load(); chains == nil {
		s.resizeLocked(2)
	} else if 2*s.size >= len(*chains) {
		s.resizeLocked(2 * len(*chains))
	}
	s.putLocked(*s.chains.Load(), e)
	s.size++
	t.size++
}

func (t *table[K]) removeLocked(e *entry[K]) {
	s := &t.segments[e.hash>>t.shift]
	chains := *s.chains.Load()
	link := &chains[e.hash&uint64(len(chains)-1)].first
	for link.Load() != e {
		link = &link.Load().next
	}
	link.Store(e.next.Load()) // a request that is at e goes on from there
	s.size--
	t.size--
	if len(chains) > 8 && s.size <= len(chains)/16 {
		s.resizeLocked(len(chains) / 4)
	}
}

// resizeLocked moves the entries to a new array. A request that follows a chain meanwhile
// comes to the end of another one.
func (s *segment[K]) resizeLocked(count int) {
	chains := make([]chain[K], count)
	if old := s.chains.Load(); old != nil {
		for i := range *old {
			for e := (*old)[i].first.Load(); e != nil; {
				next := e.next.Load()
				s.putLocked(chains, e)
				e = next
			}
		}
	}
	s.chains.Store(&chains)
}

func (s *segment[K]) putLocked(chains []chain[K], e *entry[K]) {
	first := &chains[e.hash&uint64(len(chains)-1)].first
	e.next.Store(first.Load())
	first.Store(e)
}
