package keyed

import (
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// entry is one counter: its current and its previous cell. The fast path of a request reads it
// and charges it without a lock, by one compare-and-swap of word.
//
// word holds a total modulo 2^63 above the busy bit. The units of the current cell are
// total − base, so a charge adds to word and changes nothing else. All else changes under mu with
// the busy bit set: lock sets it, unlock clears it. A reader that finds it clear, reads the other
// fields and then finds word unchanged (by a load or by a compare-and-swap) has read a consistent
// state. For that, no word may come twice with different fields beside it: whatever is changed
// under the lock gets a new random total. Between two such changes word only grows, by less than
// 2^63 units, since a cell holds at most that. So a goroutine that sleeps between its load and its
// compare-and-swap, however long, charges nothing on a state that it has not seen, but with a
// probability of 2^-63.
//
// On a 64-bit machine an entry is 128 bytes, two cache lines: what the fast path reads and writes,
// and the key, which it compares. All other memory that a request touches is that of its bucket.
type entry struct {
	word     atomic.Uint64 // total<<1 | busy
	base     atomic.Uint64 // the total at which the current cell is empty, modulo 2^63
	sequence atomic.Int64  // of the current cell
	previous atomic.Int64  // units of the cell before
	held     atomic.Int64  // units on hold
	kind     *kind         // fixed
	ledger   *ledger       // fixed; nil without Origin and Exchange
	used     atomic.Uint32 // shard.tick at the last use
	pins     int32         // open holds and batches: above 0 it stays in the table. Guarded by mu.

	mu     sync.Mutex
	hash   uint64 // fixed
	dead   bool   // not in the table, or not any more; busy stays set. Guarded by mu.
	length uint8  // of key, or longKey; fixed
	key    [46]byte
}

// longKey is the length of a key that does not fit the entry. Its kind has it.
const longKey = math.MaxUint8

// kind is what the counters of a namespace and a window share. An entry with a long key has a kind
// of its own.
type kind struct {
	namespace string
	window    time.Duration
	key       string // empty if shared
}

const (
	busy  = 1
	units = math.MaxInt64 // the bits of a total
)

// newEntry returns a dead entry without units for the key of a visit. Its cell is that of i.
func (l *Limiter) newEntry(v *visit, i *instant) *entry {
	e := &entry{kind: l.kinds.get(&v.Request), hash: v.hash, dead: true}
	if e.length = uint8(len(v.Key)); len(v.Key) <= len(e.key) {
		copy(e.key[:], v.Key)
	} else {
		e.length = longKey
		e.kind = &kind{e.kind.namespace, e.kind.window, strings.Clone(v.Key)}
	}
	e.word.Store(busy)
	e.sequence.Store(i.sequence)
	return e
}

// is reports whether the entry is the counter of r.
func (e *entry) is(r *Request) bool {
	k := e.kind
	if k.window != r.Window || k.namespace != r.Namespace {
		return false
	}
	if e.length == longKey {
		return k.key == r.Key
	}
	return string(e.key[:e.length]) == r.Key
}

// name returns the key. It may allocate.
func (e *entry) name() string {
	if e.length == longKey {
		return e.kind.key
	}
	return string(e.key[:e.length])
}

// lock takes the lock of the slow path. It waits for no I/O: nothing holds the lock for longer
// than a few instructions. The entry may be dead.
func (e *entry) lock() {
	e.mu.Lock()
	for {
		w := e.word.Load()
		if w&busy != 0 || e.word.CompareAndSwap(w, w|busy) {
			return
		}
	}
}

func (e *entry) unlock() {
	if !e.dead {
		e.word.Store(e.word.Load() &^ busy)
	}
	e.mu.Unlock()
}

// countsAt returns the counts of the current cell, if word is its state.
func (e *entry) countsAt(word uint64) counts {
	return counts{
		current:  int64((word>>1 - e.base.Load()) & units),
		previous: e.previous.Load(),
		held:     e.held.Load(),
	}
}

// countsLocked returns the counts of the current cell.
func (e *entry) countsLocked() counts { return e.countsAt(e.word.Load()) }

// setLocked sets the counts of the current cell.
func (e *entry) setLocked(c counts) {
	total := rand.Uint64() & units
	e.base.Store((total - uint64(c.current)) & units)
	e.previous.Store(c.previous)
	e.held.Store(c.held)
	e.word.Store(total<<1 | busy)
}

// rollLocked makes the cell with the given sequence the current one, if it is later. With a ledger
// it asks that for what others charged there.
func (e *entry) rollLocked(sequence int64) {
	from := e.sequence.Load()
	if sequence <= from {
		return
	}
	c := e.countsLocked().later(sequence, from)
	if g := e.ledger; g != nil {
		current, previous := g.rollLocked(from, e.ownLocked(), sequence)
		g.imported, c.current = current, current
		c.previous = max(c.previous, previous)
	}
	e.setLocked(c)
	e.sequence.Store(sequence)
}

// The rest of this file is what the ledger of an entry needs.

// advanceLocked makes the cell of an instant the current one, if it is later. at is in nanoseconds
// since the Unix epoch.
func (e *entry) advanceLocked(at int64) {
	e.rollLocked(placeOf(at, e.kind.window).sequence)
}

// sequenceLocked returns the sequence of the current cell.
func (e *entry) sequenceLocked() int64 { return e.sequence.Load() }

// ownLocked returns the units that this process charged in the current cell, without holds.
func (e *entry) ownLocked() int64 { return e.countsLocked().current - e.ledger.imported }

// importLocked sets the units that others charged in the current cell, and all of the previous one.
// The ledger lowers them only by what it had counted twice.
func (e *entry) importLocked(others, previous int64) {
	c, own := e.countsLocked(), e.ownLocked()
	c.current, c.previous = addUnits(own, others), previous
	e.ledger.imported = c.current - own
	e.setLocked(c)
}
