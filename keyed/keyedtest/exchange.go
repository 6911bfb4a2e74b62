package keyedtest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"dappco.re/go/core/go-ratelimit/keyed"
)

// pullRows is the number of rows that one Pull returns at most.
const pullRows = 1000

// Exchange is a keyed.Exchange in memory. It keeps every row until Flush, so it is for tests and
// short programs. Make it with NewExchange. Its methods are safe for concurrent use.
type Exchange struct {
	network
	mu   sync.Mutex
	life int64 // part of its cursors, so that a cursor from before a Flush is not known
	last int64 // change of the latest row
	rows map[place]change
}

// place is what a row counts.
type place struct {
	cell   keyed.Cell
	region string
}

// change is the count of a row, and the number of the change that raised it to that.
type change struct{ count, number int64 }

// lives numbers the lives of all Exchanges.
var lives atomic.Int64

// NewExchange returns an Exchange without rows.
func NewExchange() *Exchange {
	e := &Exchange{}
	e.Flush()
	return e
}

// Push raises rows.
func (e *Exchange) Push(ctx context.Context, rows []keyed.Row) error {
	return e.call(ctx, "Push", func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		for _, row := range rows {
			p := place{row.Cell, row.Region}
			if was, ok := e.rows[p]; ok && row.Count <= was.count {
				continue
			}
			e.last++
			e.rows[p] = change{row.Count, e.last}
		}
	})
}

// Pull returns rows that were raised after cursor, at most 1,000.
func (e *Exchange) Pull(ctx context.Context, cursor string) (rows []keyed.Row, next string, err error) {
	err = e.call(ctx, "Pull", func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		rows, next = e.afterLocked(e.numberLocked(cursor))
	})
	if err != nil {
		return nil, cursor, err
	}
	return rows, next, nil
}

// numberLocked returns the number of the change at a cursor, and 0 for a cursor that is not known.
func (e *Exchange) numberLocked(cursor string) int64 {
	var life, number int64
	_, err := fmt.Sscanf(cursor, "%d-%d", &life, &number)
	if err != nil || life != e.life || number > e.last {
		return 0
	}
	return number
}

func (e *Exchange) afterLocked(number int64) (rows []keyed.Row, next string) {
	var later []place
	for p, c := range e.rows {
		if c.number > number {
			later = append(later, p)
		}
	}
	slices.SortFunc(later, func(x, y place) int { return cmp.Compare(e.rows[x].number, e.rows[y].number) })
	for _, p := range later[:min(len(later), pullRows)] {
		number = e.rows[p].number
		rows = append(rows, keyed.Row{Cell: p.cell, Region: p.region, Count: e.rows[p].count})
	}
	return rows, fmt.Sprintf("%d-%d", e.life, number)
}

// Count returns the count of a region for a cell, without a call.
func (e *Exchange) Count(cell keyed.Cell, region string) int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.rows[place{cell, region}].count
}

// Flush forgets all rows.
func (e *Exchange) Flush() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.life, e.last = lives.Add(1), 0
	e.rows = map[place]change{}
}
