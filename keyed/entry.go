package keyed

import (
	"math"
	"math/rand/v2"
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
// The first 64 bytes on a 64-bit machine are all that the fast path touches, but for used. The
// size is 128 bytes at most, so that no entry begins in the middle of a cache line.
type entry struct {
	word     atomic.Uint64 // total<<1 | busy
	base     atomic.Uint64 // the total at which the current cell is empty, modulo 2^63
	sequence atomic.Int64  // of the current cell
	previous atomic.Int64  // units of the cell before
	held     atomic.Int64  // units on hold
	kind     *kind         // fixed
	key      string        // fixed

	used   atomic.Uint32 // shard.tick at the last use
	dead   bool          // not in the table, or not any more; busy stays set. Guarded by mu.
	mu     sync.Mutex
	pins   int    // open holds and batches; above 0 the entry stays in the table. Guarded by mu.
	id     uint64 // fixed: the order in which batches lock
	others int64  // units of the current cell that are not of this process. Guarded by mu.
	before int64  // units of the previous cell that are of this process. Guarded by mu.

	ledger *ledger     // fixed; nil without Origin and Exchange
	unread atomic.Bool // made in a shard that lost a live cell, and the origin was not read since
}

const (
	busy  = 1
	units = math.MaxInt64 // the bits of a total
)

// kind is what the counters of a namespace and a window share.
type kind struct {
	namespace string
	window    time.Duration
}

// is reports whether the entry is the counter of r.
func (e *entry) is(r *Request) bool {
	return e.key == r.Key && e.kind.window == r.Window && e.kind.namespace == r.Namespace
}

// lock takes the lock of the slow path. It waits for no I/O: nothing holds the lock for longer than
// a few instructions. The entry may be dead.
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
	var others, othersBefore int64
	if e.ledger != nil {
		others, othersBefore = e.ledger.rollLocked(from, e.ownLocked(), sequence)
	}
	c := e.countsLocked().later(sequence, from)
	e.before = 0
	if sequence-1 == from {
		e.before = e.ownLocked()
	}
	c.current = others
	c.previous = max(c.previous, addUnits(e.before, othersBefore))
	e.others = others
	e.setLocked(c)
	e.sequence.Store(sequence)
}

// chargeLocked adds units to the current cell, of which it holds 2^63 − 1 at most.
func (e *entry) chargeLocked(cost int64) {
	c := e.countsLocked()
	c.current = addUnits(c.current, cost)
	e.setLocked(c)
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
func (e *entry) ownLocked() int64 { return e.countsLocked().current - e.others }

// importLocked merges the units that others charged in the current and the previous cell. It never
// lowers a count.
func (e *entry) importLocked(current, previous int64) {
	c := e.countsLocked()
	own := c.current - e.others
	c.current = max(c.current, addUnits(own, current))
	c.previous = max(c.previous, addUnits(e.before, previous))
	e.others = c.current - own
	e.setLocked(c)
	e.unread.Store(false)
}
