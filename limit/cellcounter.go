package limit

import (
	"time"

	"dappco.re/go/core/go-ratelimit/internal/slidingwindow"
)

// cellCounter counts the units of the current cell and, if it slides, a share of those of
// the cell before. FixedWindow, AnchoredWindow and SlidingCounter differ only in when a
// cell begins and in whether they slide.
type cellCounter struct {
	guarded
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

// begin sets the parameters, or returns an error. It must be called before any other method.
func (c *cellCounter) begin(operation string, limit int, cells cells, slides bool) error {
	c.limit, c.cells, c.slides = limit, cells, slides
	c.guarded.begin(c)
	return validate(operation, "limit", limit, "window", cells.length)
}

// sum returns the units that count while left of the cell is left.
func (p pair) sum(left, window time.Duration) int {
	return p.current + int(slidingwindow.Weighted(int64(p.previous), int64(left), int64(window)))
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

func fades(count, room int, window time.Duration) time.Duration {
	return time.Duration(slidingwindow.Fades(int64(count), int64(room), int64(window)))
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

func (c *cellCounter) decideLocked(now time.Time, n int, is purpose) (id uint64, d Decision) {
	p := c.cells.at(now)
	var count pair
	switch ahead := p.cell - c.cells.number; {
	case ahead == 0:
		count = c.count
	case ahead == 1 && c.slides:
		count.previous = c.count.current
	}
	unheld := c.limit - c.holds.units
	d.Remaining = unheld - count.sum(c.cells.length-p.elapsed, c.cells.length)
	switch {
	case n < 0 || n > c.limit:
		d.Never = true
	case n > unheld: // only the end of a hold helps
	case n > d.Remaining:
		d.RetryAfter = sum(c.until(p, count, unheld-n), p.behind)
	default:
		d.OK = true
		d.Remaining -= n
		count.current += n
	}
	if reset := c.until(p, count, 0); reset > 0 {
		d.ResetAfter = sum(reset, p.behind)
	}
	if is == peek || !d.OK || n == 0 {
		return 0, d
	}
	c.cells.moveTo(p)
	c.count = count
	if is == hold {
		c.count.current -= n
		id = c.holds.add(p.cell, n, struct{}{})
		_, d = c.decideLocked(now, 0, peek)
	}
	return id, d
}

func (c *cellCounter) endLocked(id uint64, commit bool) bool {
	o, _, ok := c.holds.remove(id)
	if !ok {
		return false
	}
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
