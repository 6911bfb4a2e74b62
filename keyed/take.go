package keyed

import (
	"time"

	"dappco.re/go/core/go-ratelimit/limit"
)

// outcome is how an attempt to decide on an entry ended.
type outcome uint8

const (
	decided outcome = iota
	locked          // the entry must be locked for it
	gone            // the entry has left the table
	full            // there is no room for another entry in the shard
)

// at returns the counts of an entry as they are at an instant, if those of the cell with the given
// sequence are c, and the place to weigh them at. An instant before that cell counts as its
// beginning; it is the most that a count weighs.
func (c counts) at(sequence int64, i *instant) (counts, weighing) {
	w := weighing{elapsed: i.elapsed, window: i.window}
	switch {
	case i.sequence > sequence:
		c = c.later(i.sequence, sequence)
	case i.sequence < sequence:
		w.elapsed, w.behind = 0, i.behind(sequence)
	}
	return c, w
}

// take decides on a request, and charges it, without a lock. It returns false, with nothing
// changed, if it needs the lock: for a new cell, and while another goroutine has it.
func (e *entry) take(i *instant, r *Request, d *limit.Decision) bool {
	for {
		word := e.word.Load()
		if word&busy != 0 {
			return false
		}
		sequence := e.sequence.Load()
		later := i.sequence > sequence
		if later && e.ledger != nil {
			return false
		}
		c, at := e.countsAt(word).at(sequence, i)
		*d = c.decide(r.Limit, r.Cost, at)
		switch {
		case !d.OK || r.Cost == 0:
			if e.word.Load() == word {
				return true
			}
		case later:
			return false
		case e.word.CompareAndSwap(word, word+uint64(r.Cost)<<1):
			return true
		}
	}
}

// takeSlowly is take under the lock, with a new cell if the request needs one.
func (e *entry) takeSlowly(i *instant, r *Request) (limit.Decision, outcome) {
	e.lock()
	defer e.unlock()
	if e.dead {
		return limit.Decision{}, gone
	}
	if e.ledger != nil {
		e.rollLocked(i.sequence)
	}
	d := e.decideLocked(i, r.Limit, r.Cost)
	if d.OK && r.Cost > 0 {
		e.rollLocked(i.sequence)
		e.chargeLocked(r.Cost)
	}
	return d, decided
}

// holdSlowly sets the cost of a request aside.
func (e *entry) holdSlowly(i *instant, r *Request) (limit.Decision, outcome) {
	e.lock()
	defer e.unlock()
	if e.dead {
		return limit.Decision{}, gone
	}
	if e.ledger != nil {
		e.rollLocked(i.sequence)
	}
	d := e.decideLocked(i, r.Limit, r.Cost)
	if d.OK {
		d.ResetAfter = e.decideLocked(i, r.Limit, 0).ResetAfter
		e.holdLocked(i, r.Cost)
	}
	return d, decided
}

// holdLocked sets units aside. The entry stays in the table until they are given back. They do not
// count in ResetAfter.
func (e *entry) holdLocked(i *instant, cost int) {
	e.rollLocked(i.sequence)
	c := e.countsLocked()
	c.held += int64(cost)
	e.setLocked(c)
	e.pins++
}

// decideFirst decides on a request for a counter that has no units. now is i, or earlier.
func (i *instant) decideFirst(now time.Time, r *Request, p purpose) limit.Decision {
	at := weighing{elapsed: i.elapsed, window: i.window}
	if early := instantOf(now, i.window); early.sequence < i.sequence {
		at.behind = addTime(early.behind(i.sequence), i.elapsed)
	}
	d := counts{}.decide(r.Limit, r.Cost, at)
	if p == holding {
		d.ResetAfter = 0
	}
	return d
}

// peek decides on a request with another cost, and changes nothing.
func (e *entry) peek(i *instant, most, cost int) limit.Decision {
	c, at := e.weigh(i)
	return c.decide(most, cost, at)
}

// weigh returns the counts of an entry at an instant, and the place to weigh them at.
func (e *entry) weigh(i *instant) (counts, weighing) {
	for {
		word := e.word.Load()
		if word&busy != 0 {
			break
		}
		c, at := e.countsAt(word).at(e.sequence.Load(), i)
		if e.word.Load() == word {
			return c, at
		}
	}
	e.lock()
	defer e.unlock()
	return e.countsLocked().at(e.sequence.Load(), i)
}

// decideLocked decides on cost units, and changes nothing.
func (e *entry) decideLocked(i *instant, most, cost int) limit.Decision {
	c, at := e.countsLocked().at(e.sequence.Load(), i)
	return c.decide(most, cost, at)
}
