package limit

import (
	"sync"
	"time"
)

// cellCounter counts the units of the current cell and, if it slides, a share of those of
// the cell before. FixedWindow, AnchoredWindow and SlidingCounter differ only in when a
// cell begins and in whether they slide.
type cellCounter struct {
	caller
	mu     sync.Mutex
	cells  cells
	limit  int
	slides bool
	count  pair
	holds  holds[struct{}] // their at is the number of their cell
}

// pair is the units charged in a cell and, if the counter slides, in the cell before. Their
// weighted sum and the units on hold are at most the limit.
type pair struct {
	previous, current int
}

func (c *cellCounter) begin(limit int, cells cells, slides bool) {
	c.limit, c.cells, c.slides = limit, cells, slides
	c.init(c)
}

// sum returns the units that count while left of the cell is left.
func (p pair) sum(left, window time.Duration) int {
	if p.previous == 0 {
		return p.current
	}
	return p.current + weighted(p.previous, left, window)
}

// until returns how long it takes from place p on until the counts sum to at most room. It
// is not positive if they do at p.
func (c *cellCounter) until(p place, count pair, room int) time.Duration {
	window := c.cells.length
	switch {
	case count.current <= room:
		return fades(count.previous, room-count.current, window) - p.elapsed
	case c.slides:
		return window - p.elapsed + fades(count.current, room, window)
	}
	return window - p.elapsed
}

// decideLocked returns the decision, and the place and the counts of now if that is
// charged.
func (c *cellCounter) decideLocked(now time.Time, n int) (d Decision, p place, count pair) {
	p = c.cells.at(now)
	switch ahead := p.cell - c.cells.number; {
	case ahead == 0:
		count = c.count
	case ahead == 1 && c.slides:
		count.previous = c.count.current
	}
	unheld := c.limit - c.holds.units
	remaining := unheld - count.sum(c.cells.length-p.elapsed, c.cells.length)
	switch {
	case n < 0 || n > c.limit:
		d.Never = true
	case n > unheld: // only the end of a hold helps
	case n > remaining:
		d.RetryAfter = sum(c.until(p, count, unheld-n), p.behind)
	default:
		d.OK = true
		count.current += n
		remaining -= n
	}
	d.Remaining = remaining
	if reset := c.until(p, count, 0); reset > 0 {
		d.ResetAfter = sum(reset, p.behind)
	}
	return d, p, count
}

// Allow reports whether one unit may pass now, and charges it if so. It is faster than
// Take(1).
func (c *cellCounter) Allow() bool {
	now := time.Now()
	c.mu.Lock()
	ahead, ok := c.cells.within(now)
	if !ok {
		c.mu.Unlock()
		return c.TakeAt(now, 1).OK
	}
	left := c.cells.length - c.cells.elapsed - ahead
	if ok = c.count.sum(left, c.cells.length) < c.limit-c.holds.units; ok {
		c.cells.stay(now, ahead)
		c.count.current++
	}
	c.mu.Unlock()
	return ok
}

// TakeAt charges n units at now if all of them may pass.
func (c *cellCounter) TakeAt(now time.Time, n int) Decision {
	c.mu.Lock()
	defer c.mu.Unlock()
	d, p, count := c.decideLocked(now, n)
	if d.OK && n > 0 {
		c.cells.moveTo(p)
		c.count = count
	}
	return d
}

func (c *cellCounter) peekAt(now time.Time, n int) Decision {
	c.mu.Lock()
	defer c.mu.Unlock()
	d, _, _ := c.decideLocked(now, n)
	return d
}

// HoldAt sets n units aside if all of them may pass.
func (c *cellCounter) HoldAt(now time.Time, n int) (Hold, Decision) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d, p, count := c.decideLocked(now, n)
	if !d.OK || n == 0 {
		return Hold{}, d
	}
	c.cells.moveTo(p)
	c.count = pair{count.previous, count.current - n}
	id := c.holds.add(p.cell, n, struct{}{})
	d, _, _ = c.decideLocked(now, 0)
	return Hold{c, id}, d
}

func (c *cellCounter) end(id uint64, commit bool) {
	c.mu.Lock()
	ended := c.endLocked(id, commit)
	c.mu.Unlock()
	if ended {
		c.changed()
	}
}

func (c *cellCounter) endLocked(id uint64, commit bool) bool {
	i, ok := c.holds.find(id)
	if !ok {
		return false
	}
	o := c.holds.remove(i)
	switch ago := c.cells.number - o.at; {
	case ago == 0 && commit:
		c.count.current += o.n
	case ago == 1 && commit && c.slides:
		c.count.previous += o.n
	case ago == 0 && !c.cells.aligned && c.count.current == 0 && !c.heldInCellLocked():
		c.cells.elapsed = c.cells.length // as if it had not begun
	}
	return true
}

func (c *cellCounter) heldInCellLocked() bool {
	open := c.holds.open // in the order of their cells
	return len(open) > 0 && open[len(open)-1].at == c.cells.number
}
