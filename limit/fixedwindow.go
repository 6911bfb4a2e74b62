package limit

import (
	"sync"
	"time"
)

// FixedWindow admits up to limit units in each cell of the calendar: with a minute, from
// hh:mm:00 until just before the next. The cells are aligned to the Unix epoch and follow
// the wall clock. All that it remembers is one count.
//
// It gives up the bound between cells: limit units at the end of one and as many at the
// beginning of the next are 2*limit units in no time, and that is the most that any time
// as long as the window can hold. Take it where a provider counts like that; else
// SlidingCounter costs hardly more.
//
// An instant before the latest at which units were charged or put on hold counts as that
// one. Make it with NewFixedWindow: the zero FixedWindow must not be used. It is
// safe for concurrent use.
type FixedWindow struct {
	cellCounter
}

// NewFixedWindow returns a FixedWindow in which nothing is charged. It returns an error
// that matches ErrInvalid for a limit or a window that is not positive, and for a window
// above 36 years.
func NewFixedWindow(limit int, window time.Duration) (*FixedWindow, error) {
	if err := validateWindow("new fixed window", limit, window); err != nil {
		return nil, err
	}
	f := &FixedWindow{}
	f.begin(limit, cells{length: window, aligned: true})
	return f, nil
}

// AnchoredWindow admits up to limit units in a window that the first request begins. The
// next window begins with the first request after its end; one that comes just then, at
// start+window, begins a new one. It follows the monotonic clock. All that it remembers
// is one count.
//
// It gives up the bound between windows, as FixedWindow does: up to 2*limit-1 units can
// pass in a time as long as the window. Take it where a provider's window begins with
// the first request.
//
// A request that is refused begins no window. A window that a Hold has begun remains
// when that is released if anything else was charged or put on hold in it. An instant
// before the latest at which units were charged or put on hold counts as that one. Make
// it with NewAnchoredWindow: the zero AnchoredWindow must not be used. It is safe
// for concurrent use.
type AnchoredWindow struct {
	cellCounter
}

// NewAnchoredWindow returns an AnchoredWindow that has not begun. It returns an error
// that matches ErrInvalid for a limit or a window that is not positive, and for a window
// above 36 years.
func NewAnchoredWindow(limit int, window time.Duration) (*AnchoredWindow, error) {
	if err := validateWindow("new anchored window", limit, window); err != nil {
		return nil, err
	}
	a := &AnchoredWindow{}
	a.begin(limit, cells{length: window})
	return a, nil
}

// cellCounter counts what is charged in the cell of now.
type cellCounter struct {
	caller
	mu    sync.Mutex
	cells cells
	limit int
	used  int             // in the cell; with what is on hold at most the limit
	holds holds[struct{}] // which note the number of their cell
}

func (c *cellCounter) begin(limit int, cells cells) {
	c.limit, c.cells = limit, cells
	c.init(c)
}

// decideLocked returns the answer, and what is used in the cell of now if that is charged.
func (c *cellCounter) decideLocked(now time.Time, n int) (d Decision, p place, used int) {
	p = c.cells.at(now)
	if p.cell == c.cells.number {
		used = c.used
	}
	left := sum(c.cells.length-p.elapsed, p.behind)
	unheld := c.limit - c.holds.units
	switch {
	case n < 0 || n > c.limit:
		d.Never = true
	case n > unheld: // only the end of a hold helps
	case n > unheld-used:
		d.RetryAfter = left
	default:
		d.OK = true
		used += n
	}
	d.Remaining = unheld - used
	if used > 0 {
		d.ResetAfter = left
	}
	return d, p, used
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
	if ok = c.used < c.limit-c.holds.units; ok {
		c.cells.stay(now, ahead)
		c.used++
	}
	c.mu.Unlock()
	return ok
}

// TakeAt charges n units at now if all of them may pass.
func (c *cellCounter) TakeAt(now time.Time, n int) Decision {
	c.mu.Lock()
	defer c.mu.Unlock()
	d, p, used := c.decideLocked(now, n)
	if d.OK && n > 0 {
		c.cells.moveTo(p)
		c.used = used
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
	d, p, used := c.decideLocked(now, n)
	if !d.OK || n == 0 {
		return Hold{}, d
	}
	c.cells.moveTo(p)
	c.used = used - n
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
	switch {
	case o.at != c.cells.number: // its cell is over
	case commit:
		c.used += o.n
	case !c.cells.aligned && c.used == 0 && !c.heldInCellLocked():
		c.cells.elapsed = c.cells.length // as if it had not begun
	}
	return true
}

func (c *cellCounter) heldInCellLocked() bool {
	open := c.holds.open // in the order of their cells
	return len(open) > 0 && open[len(open)-1].at == c.cells.number
}
