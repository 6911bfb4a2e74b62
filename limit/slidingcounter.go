package limit

import (
	"math/bits"
	"sync"
	"time"
)

// SlidingCounter estimates what passed in the time of the window before now from two
// counts: those of the cell of now and of the cell before, which counts by the share of
// it that the window still covers, as if it had been charged evenly. It admits n units if
//
//	⌊previous × (window−elapsed) / window⌋ + current + n ≤ limit
//
// where elapsed is how much of the cell of now has passed. All of that is in integers.
// The cells are aligned to the Unix epoch and follow the wall clock.
//
// It gives up exactness, though its cost is that of a FixedWindow. A cell of the calendar
// never holds more than limit units. The window before an instant holds up to 2*limit
// units where the cell before was charged at its very end: at most
// limit + ⌈previous × elapsed/window⌉. The estimate of the previous cell is wrong by up
// to previous × max(elapsed, window−elapsed)/window, too low if it was charged at its end
// and too high if at its beginning; so by half of it in the middle of a cell, and by
// nearly all of it at the edges. Of requests that come at random, 90 on average at a limit
// of 100, the estimate was off by 2.9 on average and by 19 at most in a million, and 3.1 %
// of them were decided in another way than by a SlidingLog. Take that where it matters.
//
// An instant before the latest at which units were charged or put on hold counts as that
// one. Make it with NewSlidingCounter: the zero SlidingCounter panics. It is safe for
// concurrent use.
type SlidingCounter struct {
	caller
	mu    sync.Mutex
	cells cells
	limit int
	count pair
	holds holds[struct{}] // which note the number of their cell
}

// pair is what was charged in a cell and in the one before. With what is on hold, and
// with the previous one weighted, it is at most the limit.
type pair struct {
	previous, current int
}

// NewSlidingCounter returns a SlidingCounter in which nothing is charged. It returns an
// error that matches ErrInvalid for a limit or a window that is not positive, and for a
// window above 36 years.
func NewSlidingCounter(limit int, window time.Duration) (*SlidingCounter, error) {
	if err := validateWindow("new sliding counter", limit, window); err != nil {
		return nil, err
	}
	s := &SlidingCounter{limit: limit, cells: cells{length: window, aligned: true}}
	s.init(s)
	return s, nil
}

// weighted is ⌊count × left / window⌋, where left is at most the window.
func weighted(count int, left, window time.Duration) int {
	high, low := bits.Mul64(uint64(count), uint64(left))
	n, _ := bits.Div64(high, low, uint64(window))
	return int(n)
}

// fades is how much of a cell has to elapse until no more than room of the count of the
// cell before counts: the least e with ⌊count × (window−e) / window⌋ ≤ room. It is the
// whole window where the count never gets so low before.
func fades(count, room int, window time.Duration) time.Duration {
	if count <= room {
		return 0
	}
	// Of window−e, the most that is less than (room+1) × window / count.
	high, low := bits.Mul64(uint64(room)+1, uint64(window))
	low, borrow := bits.Sub64(low, 1, 0)
	left, _ := bits.Div64(high-borrow, low, uint64(count))
	return window - time.Duration(left)
}

// until is how long it takes from elapsed on until both counts together are at most room.
func (s *SlidingCounter) until(p place, c pair, room int) time.Duration {
	window := s.cells.length
	if c.current <= room {
		return max(fades(c.previous, room-c.current, window)-p.elapsed, 0)
	}
	return window - p.elapsed + fades(c.current, room, window)
}

// decideLocked returns the answer, and the counts at now if that is charged.
func (s *SlidingCounter) decideLocked(now time.Time, n int) (d Decision, p place, c pair) {
	p = s.cells.at(now)
	switch p.cell - s.cells.number {
	case 0:
		c = s.count
	case 1:
		c.previous = s.count.current
	}
	unheld := s.limit - s.holds.units
	remaining := unheld - c.current - weighted(c.previous, s.cells.length-p.elapsed, s.cells.length)
	switch {
	case n < 0 || n > s.limit:
		d.Never = true
	case n > unheld: // only the end of a hold helps
	case n > remaining:
		d.RetryAfter = sum(s.until(p, c, unheld-n), p.behind)
	default:
		d.OK = true
		c.current += n
		remaining -= n
	}
	d.Remaining = remaining
	if reset := s.until(p, c, 0); reset > 0 {
		d.ResetAfter = sum(reset, p.behind)
	}
	return d, p, c
}

// Allow reports whether one unit may pass now, and charges it if so. It is faster than
// Take(1).
func (s *SlidingCounter) Allow() bool {
	now := time.Now()
	s.mu.Lock()
	ahead, ok := s.cells.within(now)
	if !ok {
		s.mu.Unlock()
		return s.TakeAt(now, 1).OK
	}
	left := s.cells.length - s.cells.elapsed - ahead
	if ok = s.count.current+weighted(s.count.previous, left, s.cells.length) < s.limit-s.holds.units; ok {
		s.cells.stay(now, ahead)
		s.count.current++
	}
	s.mu.Unlock()
	return ok
}

// TakeAt charges n units at now if all of them may pass.
func (s *SlidingCounter) TakeAt(now time.Time, n int) Decision {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, p, c := s.decideLocked(now, n)
	if d.OK && n > 0 {
		s.cells.moveTo(p)
		s.count = c
	}
	return d
}

func (s *SlidingCounter) peekAt(now time.Time, n int) Decision {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, _, _ := s.decideLocked(now, n)
	return d
}

// HoldAt sets n units aside if all of them may pass.
func (s *SlidingCounter) HoldAt(now time.Time, n int) (Hold, Decision) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, p, c := s.decideLocked(now, n)
	if !d.OK || n == 0 {
		return Hold{}, d
	}
	s.cells.moveTo(p)
	s.count = pair{c.previous, c.current - n}
	id := s.holds.add(p.cell, n, struct{}{})
	d, _, _ = s.decideLocked(now, 0)
	return Hold{s, id}, d
}

func (s *SlidingCounter) end(id uint64, commit bool) {
	s.mu.Lock()
	ended := s.endLocked(id, commit)
	s.mu.Unlock()
	if ended {
		s.changed()
	}
}

func (s *SlidingCounter) endLocked(id uint64, commit bool) bool {
	i, ok := s.holds.find(id)
	if !ok {
		return false
	}
	o := s.holds.remove(i)
	if commit {
		switch s.cells.number - o.at {
		case 0:
			s.count.current += o.n
		case 1:
			s.count.previous += o.n
		}
	}
	return true
}
