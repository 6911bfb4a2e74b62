// Package tally counts what becomes of the calls of models, in bounded memory: the sums of all
// calls (Sums), those of the last minute that were admitted and refused (Minute), how far their use
// was from their estimates (Estimates), and what their answers teach of the next ones (Answers).
// The limiter tells it by RateLimiter.Audit, and warns by it in RateLimiter.Health.
package tally

import "time"

const (
	span  = int64(10 * time.Second) // of a cell
	cells = 7                       // a minute, and the cell that is not over
)

// Minute counts calls by the time at which they were decided, in cells of ten seconds. The zero
// value has none. It is not safe for concurrent use.
type Minute struct{ cells [cells]cell }

type cell struct {
	of int64 // the instants of the cell, in cells since instant 0
	Calls
}

// Calls is a number of calls.
type Calls struct{ Admitted, Refused int }

// At returns what counts the calls of an instant, to be changed.
func (m *Minute) At(instant int64) *Calls {
	of := instant / span
	c := &m.cells[uint64(of)%cells]
	if c.of != of {
		*c = cell{of: of}
	}
	return &c.Calls
}

// Last returns the calls of the minute that ends at an instant, and of up to ten seconds before it.
func (m *Minute) Last(instant int64) (all Calls) {
	of := instant / span
	for i := range m.cells {
		if c := &m.cells[i]; c.of <= of && of-c.of < cells {
			all.Admitted += c.Admitted
			all.Refused += c.Refused
		}
	}
	return all
}

const (
	mostCalls = 128     // then they count half
	mostOfOne = 1 << 48 // tokens, so that the sums stay in range
)

// Estimates compares the tokens of calls with their estimates. It forgets by number and not by
// time. The zero value has none. It is not safe for concurrent use.
type Estimates struct {
	Calls           int32
	Estimated, Used int64 // tokens
}

// Add adds a call, by its tokens.
func (e *Estimates) Add(estimated, used int) {
	if e.Calls >= mostCalls {
		e.Calls, e.Estimated, e.Used = e.Calls/2, e.Estimated/2, e.Used/2
	}
	e.Calls++
	e.Estimated += min(int64(estimated), mostOfOne)
	e.Used += min(int64(used), mostOfOne)
}

// Off reports whether at least 32 calls show that they use less than a quarter or more than twice
// of what they estimate.
func (e *Estimates) Off() bool {
	return e.Calls >= 32 && (e.Used < e.Estimated/4 || e.Used/2 > e.Estimated)
}
