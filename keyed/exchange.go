package keyed

import "context"

// Row is the count of one region for one cell. It only grows.
type Row struct {
	Cell
	Region string
	Count  int64 // units that the region has admitted in the cell
}

// Exchange carries the counts of regions to each other. Its methods are safe for concurrent use.
// Package keyedtest has one in memory, and a suite that every Exchange passes.
type Exchange interface {
	// Push publishes rows. It is idempotent: of a row that is pushed several times, the largest
	// count stays.
	Push(ctx context.Context, rows []Row) error
	// Pull returns the rows that were pushed after cursor, also those of the caller, and the
	// cursor for the next call. The empty cursor stands before all rows that are kept.
	Pull(ctx context.Context, cursor string) (rows []Row, next string, err error)
}
