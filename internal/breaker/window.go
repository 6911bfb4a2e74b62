package breaker

import "time"

// cells is how many parts a window has.
const cells = 50

// window counts the calls of the last time, in cells.
type window struct {
	width           time.Duration // of a cell
	number          int64         // of the latest cell
	calls, failures int64         // in all cells
	all             [cells]struct{ calls, failures int64 }
}

func newWindow(span time.Duration) window { return window{width: max(span/cells, 1)} }

// add counts a call at an instant, which is not before the last one.
func (w *window) add(instant time.Duration, failed bool) {
	number := int64(instant / w.width)
	for gone := max(w.number+1, number-cells+1); gone <= number; gone++ {
		c := &w.all[gone%cells]
		w.calls, w.failures = w.calls-c.calls, w.failures-c.failures
		c.calls, c.failures = 0, 0
	}
	w.number = number
	c := &w.all[number%cells]
	c.calls, w.calls = c.calls+1, w.calls+1
	if failed {
		c.failures, w.failures = c.failures+1, w.failures+1
	}
}

// clear forgets all calls.
func (w *window) clear() { *w = window{width: w.width, number: w.number} }
