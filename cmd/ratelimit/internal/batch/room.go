package batch

import (
	"context"
	"sync"

	"dappco.re/go/core/go-ratelimit/money"
)

// The bounds of what is in progress, whatever the length of IN. How many calls are in flight is
// left to the quota: a further line is taken once few of the others stand in line.
const (
	maxLines   = 2048     // lines that are read and not yet written
	maxBytes   = 48 << 20 // of these
	maxWaiting = 128      // of them that have never had their place in the quota
)

// room is what is in progress. Its zero value is empty.
type room struct {
	mu       sync.Mutex
	changed  chan struct{} // closed at the next change; nil where nobody waits
	lines    int
	bytes    int
	waiting  int
	flying   int          // lines whose calls are sent
	spent    money.Amount // by lines that are done or failed
	reserved money.Amount // the most that the others can cost
}

// enter waits for room for a line. It returns false for one that does not fit the budget, once
// nothing else is in progress, and when the context ends.
func (r *room) enter(ctx context.Context, c *call, budget money.Amount) (ok, broke bool) {
	for {
		r.mu.Lock()
		fits := r.lines == 0 || r.lines < maxLines && r.bytes+c.line.weight() <= maxBytes && r.waiting < maxWaiting
		affordable := r.spent.Add(r.reserved).Add(c.most) <= budget
		switch {
		case ctx.Err() != nil:
			r.mu.Unlock()
			return false, false
		case fits && affordable:
			r.lines++
			r.waiting++
			r.bytes += c.line.weight()
			r.reserved = r.reserved.Add(c.most)
			c.isWaiting = true
			r.mu.Unlock()
			return true, false
		case r.lines == 0:
			r.mu.Unlock()
			return false, true
		}
		if r.changed == nil {
			r.changed = make(chan struct{})
		}
		changed := r.changed
		r.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// fly notes that a call is sent, or no longer.
func (r *room) fly(c *call, flies bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.isWaiting {
		c.isWaiting = false
		r.waiting--
	}
	if c.flies != flies {
		c.flies = flies
		if flies {
			r.flying++
		} else {
			r.flying--
		}
	}
	r.changeLocked()
}

// leave notes that a line is written, and what it has cost.
func (r *room) leave(c *call) {
	r.fly(c, false)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines--
	r.bytes -= c.line.weight()
	r.reserved = r.reserved.Sub(c.most)
	r.spent = r.spent.Add(c.cost())
	r.changeLocked()
}

func (r *room) changeLocked() {
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

// costs returns what was spent, and how many calls are in flight.
func (r *room) costs() (spent money.Amount, flying int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.spent, r.flying
}

// weight is about what a line takes of the memory, with its request and its answer.
func (l *line) weight() int { return 2*len(l.raw) + 8<<10 }
