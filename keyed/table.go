package keyed

import (
	"math/bits"
	"sync/atomic"
)

// table finds the entries of a shard by hash. Lookups take no lock, and may miss an entry that is
// added or moved meanwhile, so a miss is looked up again under the shard's lock. All else happens
// under that lock.
type table struct {
	buckets []bucket // a power of two
}

// slots is how many entries a bucket has room for: with the marks, 64 bytes on a 64-bit machine.
const slots = 7

// bucket is a cache line of entries. Byte i of marks is the mark of slot i, or 0 if that is empty.
// The last byte counts the entries that found this bucket full and lie in a later one; at 255 it
// stays.
type bucket struct {
	marks   atomic.Uint64
	entries [slots]atomic.Pointer[entry]
}

const (
	overflowShift = 8 * slots
	overflowOne   = 1 << overflowShift
	overflowMost  = 255
	everyByte     = 0x0101010101010101
)

func newTable(buckets int) *table { return &table{make([]bucket, buckets)} }

// home returns the index of the bucket where an entry belongs.
func (t *table) home(hash uint64) int { return int(hash>>16) & (len(t.buckets) - 1) }

// mark returns the byte that stands for a hash in marks.
func mark(hash uint64) uint64 { return max(hash>>56, 1) }

// find returns the entry of r, or nil.
func (t *table) find(hash uint64, r *Request) *entry {
	pattern := mark(hash) * everyByte
	last := len(t.buckets) - 1
	for n, i := 0, t.home(hash); n <= last; n, i = n+1, (i+1)&last {
		b := &t.buckets[i]
		marks := b.marks.Load()
		// A byte of equal is 0 where the mark matches. candidates has the top bit of each
		// such byte, and at times that of a byte above one: entries are compared anyway.
		equal := marks ^ pattern
		candidates := (equal - everyByte) &^ equal & (everyByte << 7)
		for ; candidates != 0; candidates &= candidates - 1 {
			slot := bits.TrailingZeros64(candidates) / 8
			if slot == slots {
				break
			}
			if e := b.entries[slot].Load(); e != nil && e.is(r) {
				return e
			}
		}
		if marks < overflowOne {
			break
		}
	}
	return nil
}

// addLocked puts an entry in its place. There must be an empty one.
func (t *table) addLocked(e *entry) {
	for i := t.home(e.hash); ; i = (i + 1) & (len(t.buckets) - 1) {
		b := &t.buckets[i]
		marks := b.marks.Load()
		for slot := range slots {
			if byte(marks>>(8*slot)) == 0 {
				b.entries[slot].Store(e)
				b.marks.Store(marks | mark(e.hash)<<(8*slot))
				return
			}
		}
		if marks>>overflowShift < overflowMost {
			b.marks.Store(marks + overflowOne)
		}
	}
}

// removeLocked takes out an entry that is there.
func (t *table) removeLocked(e *entry) {
	for i := t.home(e.hash); ; i = (i + 1) & (len(t.buckets) - 1) {
		b := &t.buckets[i]
		marks := b.marks.Load()
		for slot := range slots {
			if b.entries[slot].Load() == e {
				b.marks.Store(marks &^ (0xff << (8 * slot)))
				b.entries[slot].Store(nil)
				return
			}
		}
		if overflow := marks >> overflowShift; 0 < overflow && overflow < overflowMost {
			b.marks.Store(marks - overflowOne)
		}
	}
}

// room returns how many entries a table holds before it has to grow: four fifths of its slots.
func (t *table) room() int { return len(t.buckets) * slots * 4 / 5 }
