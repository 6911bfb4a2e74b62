package keyed

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"
)

// maxAccounts is the number of cells of a counter that are told apart. Beyond that, units that wait
// for their replay add up in the next cell: both have ended long ago.
const maxAccounts = 16

// ledger is what a counter shares with others. The entry's lock guards what is not atomic.
type ledger struct {
	freshUntil  atomic.Int64  // Unix nanoseconds; before it the last read answers for its cells
	strictUntil atomic.Int64  // Unix nanoseconds; before it an allow asks the Origin
	youngUntil  atomic.Int64  // Unix nanoseconds; before it the last reply answers for any charge
	latest      atomic.Int64  // Unix nanoseconds; of the latest charge
	since       atomic.Uint64 // units that this process charged since the last reply
	limit       atomic.Int64  // units; of the last charge, if there is an Exchange
	queued      atomic.Bool   // in remote.queue
	grown       atomic.Bool   // in regions.grown
	unread      atomic.Bool   // made in a shard that lost a live cell, and the Origin was not read since

	remote  *remote
	counter counter // fixed
	window  int64   // nanoseconds; fixed

	imported int64     // units of the entry's current cell that are not of this process
	cells    []account // the last is the current cell; in the order of sequence, some may be missing
	flight   *flight   // the read that goes on, or nil
	begun    uint64    // reads so far
	answered uint64    // number of the latest read that succeeded
	failed   bool      // the latest read failed
	retryAt  int64     // Unix nanoseconds; if failed, when to read again
	sentAt   int64     // Unix nanoseconds; of the latest charge in the latest replay
}

// account is what is known of one cell. Units of this process are own; of these acked are in the
// Origin, inFlight are in the replay that goes on, and the rest waits for the next.
//
// The others are the units of other processes of the region: an Origin's count less acked. A count
// that is read while a replay is in flight may contain that replay already. It is then counted
// twice, on the safe side, in others, but not in sure. When the replay is acknowledged, sure is
// exact, and others becomes that. Nothing else lowers others, and nothing lowers sure.
//
// An Origin that loses counts cannot know what it lost. But the counts after two replays of this
// process differ by the second at least. What is less than that was lost, and is added to every
// count of the Origin from then on.
type account struct {
	sequence     int64
	own          int64 // of a cell that has ended; the entry has that of the current one
	acked        int64
	inFlight     int64
	sure, others int64
	after        int64 // the Origin's count after the latest replay that had the cell
	lost         int64
}

// doubts reports whether a request that this process would admit may have to ask the Origin first.
// at is in Unix nanoseconds. A time limit that is twice as far away as it can be was set by a clock
// that was far ahead, and does not count.
func (g *ledger) doubts(at int64) bool {
	return g.remote.origin != nil && (!g.young(at) || g.stale(at) || g.strict(at))
}

// asks reports whether it has to, if doubts is true: it is for cost units, and leaves some.
func (g *ledger) asks(at int64, cost, left int) bool {
	return g.bold(cost, left) || g.stale(at) || g.strict(at)
}

// bold reports whether the charges since the last reply, with that of a request, are above a share
// of what they leave: others may have had it meanwhile.
func (g *ledger) bold(cost, left int) bool {
	return cost > 0 && g.since.Load()+uint64(cost) > uint64(max(left, 0))/boldShare
}

// young reports whether the last reply came just now.
func (g *ledger) young(at int64) bool {
	return uint64(g.youngUntil.Load()-at-1) < 2*uint64(youngFor(readTimeout))
}

// repliedLocked is called after a reply to what was asked at an instant, in Unix nanoseconds, and
// took some time.
func (g *ledger) repliedLocked(at int64, took time.Duration) {
	g.since.Store(0)
	if until := at + int64(youngFor(took)); !g.young(until) {
		g.youngUntil.Store(until)
	}
}

// youngFor returns how long a reply answers for any charge. Under load, replays follow one another,
// and what is known is up to two round trips old.
func youngFor(took time.Duration) time.Duration {
	return youngTrips * min(max(took, leastTrip), readTimeout)
}

func (g *ledger) stale(at int64) bool {
	return uint64(g.freshUntil.Load()-at-1) >= 2*uint64(freshFor)
}

func (g *ledger) strict(at int64) bool {
	return uint64(g.strictUntil.Load()-at-1) < 2*uint64(g.window)
}

// waits reports whether it is too early to read again after a failure.
func (g *ledger) waitsLocked(at int64) bool {
	return g.failed && uint64(g.retryAt-at-1) < 2*uint64(readTimeout+retryAfter)
}

// accountLocked returns the account of a cell, and adds it if it is missing. The result is valid
// until the next call.
func (g *ledger) accountLocked(sequence int64) *account {
	i, ok := g.indexLocked(sequence)
	if !ok {
		g.cells = slices.Insert(g.cells, i, account{sequence: sequence})
	}
	return &g.cells[i]
}

// findLocked returns the account of a cell, or nil.
func (g *ledger) findLocked(sequence int64) *account {
	if i, ok := g.indexLocked(sequence); ok {
		return &g.cells[i]
	}
	return nil
}

func (g *ledger) indexLocked(sequence int64) (int, bool) {
	return slices.BinarySearchFunc(g.cells, sequence, func(a account, sequence int64) int {
		return cmp.Compare(a.sequence, sequence)
	})
}

// ownLocked returns the units of this process in a cell.
func (g *ledger) ownLocked(e *entry, a *account) int64 {
	if a.sequence == e.sequenceLocked() {
		return e.ownLocked()
	}
	return a.own
}

// othersLocked returns the units of others in a cell, those of other regions as well; own are those
// of this process. If the region's row has more, another process pushed it, or this one before it
// was started again: the count of the region is raised to that.
func (g *ledger) othersLocked(sequence, own int64) int64 {
	var foreign int64
	if g.remote.exchange != nil {
		var count int64
		if foreign, count = g.remote.regions.counts(g.counter, sequence); count > own {
			a := g.accountLocked(sequence)
			a.sure = max(a.sure, count-own)
			a.others = max(a.others, a.sure)
		}
	}
	if a := g.findLocked(sequence); a != nil {
		return addUnits(a.others, foreign)
	}
	return foreign
}

// previousLocked returns the units of all in the cell before the one with the given sequence.
func (g *ledger) previousLocked(sequence int64) int64 {
	var own int64
	if a := g.findLocked(sequence - 1); a != nil {
		own = a.own
	}
	return addUnits(own, g.othersLocked(sequence-1, own))
}

// unacknowledgedLocked returns the units that the Origin has not acknowledged.
func (g *ledger) unacknowledgedLocked(e *entry) int64 {
	var units int64
	for i := range g.cells {
		units = addUnits(units, g.ownLocked(e, &g.cells[i])-g.cells[i].acked)
	}
	return units
}

// rollLocked is called when the current cell of the entry, from, gives way to another. own are its
// units of this process. It returns what others charged in the new cell, and what all did in the
// one before that.
func (g *ledger) rollLocked(from, own, to int64) (others, previous int64) {
	g.accountLocked(from).own = own
	g.accountLocked(to)
	g.cells = slices.DeleteFunc(g.cells, func(a account) bool {
		return a.sequence < to-1 && (g.remote.origin == nil || a.own == a.acked)
	})
	for len(g.cells) > maxAccounts && g.mergeLocked() {
	}
	return g.othersLocked(to, 0), g.previousLocked(to)
}

// mergeLocked has the units of an old cell wait in the next one. It returns false if all are in
// flight.
func (g *ledger) mergeLocked() bool {
	for i := range len(g.cells) - 3 { // not into the current cell or the one before
		if a := &g.cells[i]; a.inFlight == 0 {
			g.cells[i+1].own = addUnits(g.cells[i+1].own, a.own-a.acked)
			g.cells = slices.Delete(g.cells, i, i+1)
			return true
		}
	}
	return false
}

// readLocked merges a count that was read. included is what it may contain of this process: what
// was acknowledged or in flight when the read returned. If all of that is acknowledged by now, the
// count is exact, or older than the acknowledgement and of no use.
func (a *account) readLocked(count, included int64) {
	count = addUnits(count, a.lost)
	a.sure = max(a.sure, count-included)
	a.others = max(a.others, a.sure)
	if a.acked < included {
		a.others = max(a.others, count-a.acked)
	}
}

// ackLocked merges the count after the replay in flight.
func (a *account) ackLocked(count int64) {
	if least := addUnits(a.after, a.inFlight); count < least {
		a.lost = addUnits(a.lost, least-count)
	}
	a.after = count
	a.acked += a.inFlight
	a.inFlight = 0
	a.sure = max(a.sure, addUnits(count, a.lost)-a.acked)
	a.others = a.sure
}
