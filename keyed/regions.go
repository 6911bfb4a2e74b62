package keyed

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

const (
	// maxCells bounds the cells of a counter of which rows are kept.
	maxCells = 4
	// keepWindows is how many windows a row is kept after it came, and pruned how many counters
	// an exchange looks at to forget such rows.
	keepWindows = 3
	pruned      = 1000
)

// regions keeps the rows of the Exchange, by counter, whether the counter has an entry or not. What
// other regions counted is kept apart, and is never published.
type regions struct {
	mu     sync.Mutex
	region string // the name of this one; fixed
	rows   map[counter][]regionCell
	most   int      // bound of rows; fixed
	grown  []*entry // whose counts may have grown since they were pushed
}

// regionCell is what is known of one cell of a counter.
type regionCell struct {
	sequence int64
	shares   []share
	came     time.Time // when the latest row came
}

// share is the count of a region.
type share struct {
	region string
	count  int64
}

// merge merges a row, and reports whether that raised a count. Rows for a counter beyond the bound
// are not kept; ok is then false.
func (r *regions) merge(row Row, now time.Time) (raised, ok bool) {
	c := counter{row.Namespace, row.Key, row.Window}
	r.mu.Lock()
	defer r.mu.Unlock()
	cells, known := r.rows[c]
	if !known && len(r.rows) >= r.most {
		return false, false
	}
	i, found := slices.BinarySearchFunc(cells, row.Sequence, func(c regionCell, sequence int64) int {
		return cmp.Compare(c.sequence, sequence)
	})
	if !found {
		cells = slices.Insert(cells, i, regionCell{sequence: row.Sequence})
	}
	raised = cells[i].raise(row.Region, row.Count)
	cells[i].came = now
	if len(cells) > maxCells {
		cells = slices.Delete(cells, 0, 1)
	}
	r.rows[c] = cells
	return raised, true
}

// raise raises the count of a region.
func (c *regionCell) raise(region string, count int64) (raised bool) {
	i := slices.IndexFunc(c.shares, func(s share) bool { return s.region == region })
	if i < 0 {
		i = len(c.shares)
		c.shares = append(c.shares, share{region: region})
	}
	s := &c.shares[i]
	raised = count > s.count
	s.count = max(s.count, count)
	return raised
}

// counts returns the units of the other regions in a cell, and those of this one, as
// far as rows tell.
func (r *regions) counts(c counter, sequence int64) (foreign, own int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, cell := range r.rows[c] {
		if cell.sequence != sequence {
			continue
		}
		for _, s := range cell.shares {
			if s.region == r.region {
				own = s.count
			} else {
				foreign = addUnits(foreign, s.count)
			}
		}
	}
	return foreign, own
}

// prune forgets rows that came three windows ago, of some of the counters.
func (r *regions) prune(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	looked := 0
	for c, cells := range r.rows { // begins anywhere
		cells = slices.DeleteFunc(cells, func(cell regionCell) bool {
			return now.Sub(cell.came) >= keepWindows*c.window
		})
		if len(cells) == 0 {
			delete(r.rows, c)
		} else {
			r.rows[c] = cells
		}
		if looked++; looked >= pruned {
			break
		}
	}
}

// markGrown has the counts of an entry pushed with the next exchange, if there is a reason.
func (r *remote) markGrown(e *entry) {
	if r.exchange == nil || !e.ledger.grown.CompareAndSwap(false, true) {
		return
	}
	r.regions.mu.Lock()
	defer r.regions.mu.Unlock()
	r.regions.grown = append(r.regions.grown, e)
}

// takeGrown returns the entries that are marked.
func (r *regions) takeGrown() []*entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	grown := r.grown
	r.grown = nil
	return grown
}
