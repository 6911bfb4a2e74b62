package keyed

import (
	"context"
	"time"
)

// Cell is one fixed cell of a counter: the units of Key in Namespace that were charged from
// Sequence × Window after the Unix epoch on, for the length of Window.
type Cell struct {
	Namespace string
	Key       string
	Window    time.Duration
	Sequence  int64 // floor of the Unix time / Window
}

// Delta is a number of units to add to a cell.
type Delta struct {
	Cell
	Add int64 // units, positive
}

// Replay is a batch of charges that a process has admitted. Process and Number name it: an Origin
// counts a replay that arrives twice once.
type Replay struct {
	Process string // unique to the Limiter that sends it
	Number  int64  // 1 for the first of a process, one more for each later one
	Deltas  []Delta
}

// Origin keeps the counts that several processes share, such as a Redis. Its methods are safe for
// concurrent use. Package keyedtest has one in memory, and a suite that every Origin passes.
type Origin interface {
	// Read returns the counts of cells, in their order: 0 for a cell that is not known.
	Read(ctx context.Context, cells []Cell) ([]int64, error)
	// Add adds the units of a replay, unless it was added before, and returns the counts
	// afterwards, in the order of its deltas.
	Add(ctx context.Context, replay Replay) ([]int64, error)
}
