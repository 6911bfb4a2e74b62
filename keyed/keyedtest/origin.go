package keyedtest

import (
	"context"
	"math"
	"sync"

	"dappco.re/go/core/go-ratelimit/keyed"
)

// Origin is a keyed.Origin in memory. It keeps every cell until Flush, so it is for tests and short
// programs. Make it with NewOrigin. Its methods are safe for concurrent use.
type Origin struct {
	network
	mu     sync.Mutex
	counts map[keyed.Cell]int64
	latest map[string]int64 // number of the latest replay, by process
}

// NewOrigin returns an Origin without counts.
func NewOrigin() *Origin {
	o := &Origin{}
	o.Flush()
	return o
}

// Read returns the counts of the cells.
func (o *Origin) Read(ctx context.Context, cells []keyed.Cell) ([]int64, error) {
	counts := make([]int64, len(cells))
	err := o.call(ctx, "Read", func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		for i, cell := range cells {
			counts[i] = o.counts[cell]
		}
	})
	if err != nil {
		return nil, err
	}
	return counts, nil
}

// Add adds the deltas of a replay, unless it or a later one of its process came before.
func (o *Origin) Add(ctx context.Context, r keyed.Replay) ([]int64, error) {
	counts := make([]int64, len(r.Deltas))
	err := o.call(ctx, "Add", func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if r.Number > o.latest[r.Process] {
			o.latest[r.Process] = r.Number
			for _, d := range r.Deltas {
				o.counts[d.Cell] = saturated(o.counts[d.Cell], d.Add)
			}
		}
		for i, d := range r.Deltas {
			counts[i] = o.counts[d.Cell]
		}
	})
	if err != nil {
		return nil, err
	}
	return counts, nil
}

// Count returns the count of a cell, without a call.
func (o *Origin) Count(cell keyed.Cell) int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.counts[cell]
}

// Total returns the count of a key in all its cells, without a call.
func (o *Origin) Total(namespace, key string) int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	var sum int64
	for cell, count := range o.counts {
		if cell.Namespace == namespace && cell.Key == key {
			sum = saturated(sum, count)
		}
	}
	return sum
}

// Charge adds units to a cell, as another process does, without a call.
func (o *Origin) Charge(cell keyed.Cell, units int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.counts[cell] = saturated(o.counts[cell], units)
}

// Flush forgets all counts, and which replays came.
func (o *Origin) Flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.counts = map[keyed.Cell]int64{}
	o.latest = map[string]int64{}
}

// saturated returns a+b, which are not negative, or the largest int64 if the sum overflows.
func saturated(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
