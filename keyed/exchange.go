package keyed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	// pushRows bounds the rows of one Push.
	pushRows = 500
	// pullParts bounds the Pulls of one exchange.
	pullParts = 1000
	// exchangeTimeout is how long a Push or a Pull may take.
	exchangeTimeout = time.Second
)

// exchangeAll exchanges counts with other regions until Close.
func (r *remote) exchangeAll() {
	defer close(r.exchanged)
	ticker := time.NewTicker(r.every)
	defer ticker.Stop()
	for r.life.Err() == nil {
		r.exchangeOnce()
		select {
		case <-r.life.Done():
		case <-ticker.C:
		}
	}
}

// exchangeOnce pushes before it pulls, so that others that exchange now see these counts. What it
// pulls may be a reason to push more, which it does at once.
func (r *remote) exchangeOnce() {
	r.failed("push to exchange", r.push(r.life))
	r.failed("pull from exchange", r.pull())
	r.failed("push to exchange", r.push(r.life))
	r.regions.prune(time.Now())
}

// lastPush pushes what has grown since the last exchange, after the goroutine has ended.
func (r *remote) lastPush(ctx context.Context) error {
	select {
	case <-r.exchanged:
		return r.push(ctx)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// growth is a row to push, and its entry.
type growth struct {
	Row
	entry *entry
}

// push pushes the counts that grew, in the order of their cells and in chunks. What fails is pushed
// with the next exchange.
func (r *remote) push(ctx context.Context) error {
	var rows []growth
	for _, e := range r.regions.takeGrown() {
		e.ledger.grown.Store(false) // before its counts are read: later growth marks it again
		e.lock()
		rows = r.growthLocked(e, rows)
		e.unlock()
	}
	slices.SortFunc(rows, func(x, y growth) int { return compareCells(x.Cell, y.Cell) })
	var failed error
	for chunk := range slices.Chunk(rows, pushRows) {
		rows := make([]Row, len(chunk))
		for i, g := range chunk {
			rows[i] = g.Row
		}
		err := call(ctx, exchangeTimeout, func(ctx context.Context) error { return r.exchange.Push(ctx, rows) })
		failed = errors.Join(failed, err)
		for _, g := range chunk {
			if err != nil {
				r.markGrown(g.entry)
			} else {
				r.regions.merge(g.Row, time.Now()) // as the next Pull does
			}
		}
	}
	return failed
}

// growthLocked adds the counts of the region that grew and have a reason to be pushed: other
// regions use the counter as well, or a fifth of the limit is used. Held units and those of other
// regions are not in them, nor is what may have been counted twice.
func (r *remote) growthLocked(e *entry, rows []growth) []growth {
	g, sequence, limit := e.ledger, e.sequenceLocked(), e.ledger.limit.Load()
	current, _ := r.regions.counts(g.counter, sequence)
	previous, _ := r.regions.counts(g.counter, sequence-1)
	for i := range g.cells {
		a := &g.cells[i]
		if a.sequence < sequence-1 {
			continue
		}
		count := addUnits(g.ownLocked(e, a), a.sure)
		_, known := r.regions.counts(g.counter, a.sequence)
		reason := current > 0 || previous > 0 || limit > 0 && count >= fifth(limit)
		if count > known && reason {
			rows = append(rows, growth{Row{g.counter.cell(a.sequence), r.regions.region, count}, e})
		}
	}
	return rows
}

// fifth returns a fifth of a limit, rounded up.
func fifth(limit int64) int64 {
	if limit%5 == 0 {
		return limit / 5
	}
	return limit/5 + 1
}

// pull merges the rows that were pushed since the last exchange.
func (r *remote) pull() error {
	full := false
	for range pullParts {
		var rows []Row
		var next string
		err := call(r.life, exchangeTimeout, func(ctx context.Context) (err error) {
			rows, next, err = r.exchange.Pull(ctx, r.cursor)
			return err
		})
		if err != nil {
			return err
		}
		now := time.Now()
		for _, row := range rows {
			if row.Count <= 0 || row.Window < minWindow || row.Window > maxWindow {
				continue // no region counts that
			}
			raised, ok := r.regions.merge(row, now)
			full = full || !ok
			if raised {
				r.raised(row)
			}
		}
		r.cursor = next
		if len(rows) == 0 {
			break
		}
	}
	if full {
		return fmt.Errorf("%w: rows are not kept", ErrFull)
	}
	return nil
}

// raised has the entry of a row count it.
func (r *remote) raised(row Row) {
	e := r.limiter.find(&Request{Namespace: row.Namespace, Key: row.Key, Window: row.Window})
	if e == nil {
		return
	}
	e.lock()
	if sequence := e.sequenceLocked(); row.Sequence == sequence || row.Sequence == sequence-1 {
		r.importLocked(e)
	}
	e.unlock()
	r.markGrown(e)
}
