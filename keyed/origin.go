package keyed

import (
	"context"
	"time"
)

// Cell names one fixed cell of a counter: the time from Sequence × Window on, since the Unix epoch,
// for one Window. Cells can be compared with ==.
type Cell struct {
	Namespace string        // what is counted
	Key       string        // whose
	Window    time.Duration // length of the cell, 1 ms to 400 days
	Sequence  int64         // ⌊Unix time / Window⌋
}

// Delta is units to add to a cell.
type Delta struct {
	Cell
	Add int64 // units, not negative
}

// Replay is what one process has charged since its last Replay, summed per cell: no cell comes
// twice. A Limiter repeats a Replay, with the same Number and the same content, until the Origin
// acknowledges it, and only then sends the next Number.
type Replay struct {
	Process string // names one Limiter; unique
	Number  int64  // 1 for the first of the process, then 2, 3, …
	Deltas  []Delta
}

// Origin keeps the counts that the processes of a region share. The memory of package keyedtest and
// the Redis of package redislimit are Origins; package keyedtest has the tests that an Origin must
// pass.
//
// A request that its process would admit waits for a Read if the counter is new, if its cell is, if
// the last Read was 5 s ago, or if the counter refused a request within the last window, or if what
// the process charged since the last reply is more than a sixteenth of what that left. All callers
// of a counter share one Read of both cells, and all counters of a batch. A refusal reads nothing.
// A Read that fails or takes 300 ms is given up: the process decides by what it knows, and the next
// request 300 ms later tries again. If half of at least 20 Reads within 5 s failed, there are none
// for 5 s, and no Adds.
//
// What is charged is added in the background, one Replay at a time: what is charged meanwhile adds
// up in the next. A count is that of the Origin, and what it has not acknowledged. It never lowers,
// but for a Replay that was counted twice because it was read before its acknowledgement came. If
// the Origin loses counts, each process still counts what it knew.
//
// A Limiter calls the methods from goroutines of its own, Read with a context that ends after 300
// ms and Add with one that ends after a second. Methods must return soon after their context ends,
// and must not keep or change the slices that they get. Counts saturate at the largest int64. A
// panic in a method counts as an error. Methods must be safe for concurrent use.
type Origin interface {
	// Read returns the counts of the cells, in their order, and 0 for a cell of which nothing
	// is known.
	Read(ctx context.Context, cells []Cell) ([]int64, error)
	// Add adds the deltas, all or none, and returns the counts after that, in the order of the
	// deltas. A Replay that comes again, known by Process and Number, adds nothing and returns
	// the counts as they are then. An error says nothing about whether the deltas were added.
	Add(ctx context.Context, r Replay) ([]int64, error)
}

// Row is the count of one region for one cell. It only grows.
type Row struct {
	Cell
	Region string
	Count  int64 // units, not negative
}

// Exchange passes the counts of the regions to each other. The memory of package keyedtest and the
// Redis of package redislimit are Exchanges; package keyedtest has the tests that an Exchange must
// pass.
//
// Every Options.ExchangeEvery, from New to Close, a Limiter pushes and then pulls, so that regions
// know each other's counts within two intervals. It pushes counts that grew, if other
// regions use the counter or if a fifth of the limit is used, in the order of their cells and 500
// at most at once. Units on hold and those of other regions are never pushed. Without an Origin a
// region is one process: the rows of two would count as one.
//
// Contexts end after a second. Methods must return soon after that, must not keep or change the
// slices that they get, and must be safe for concurrent use. A panic in a method counts as an
// error.
type Exchange interface {
	// Push raises rows. The Exchange keeps the largest Count of each cell and region, so that
	// pushing a row again, or an older one after a newer, changes nothing.
	Push(ctx context.Context, rows []Row) error
	// Pull returns rows that were raised since the Pull that returned cursor, those of the own
	// region too, and the next cursor. The cursor "" stands for the beginning: Pull returns all
	// rows that are kept. So does a cursor that the Exchange does not know, as after it lost
	// its rows. One Pull may return a part: there is no more when it returns no rows. A row may
	// come twice.
	Pull(ctx context.Context, cursor string) (rows []Row, next string, err error)
}
