package keyed

import "dappco.re/go/core/go-ratelimit/limit"

// purpose is what a request does with its units if they fit.
type purpose uint8

const (
	charging purpose = iota
	holding
	joining   // nothing: it pins the counter, for a batch
	peeking   // nothing: an entry that it needs stays outside the table
	resetting // nothing: it forgets what was charged
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

// serve does with an entry what a request is for. It returns false, with nothing changed, if the
// entry is dead, unless it is only looked at.
func (e *entry) serve(i *instant, r *Request, p purpose) (d limit.Decision, ok bool) {
	if p == peeking {
		return e.look(i, r), true
	}
	if p == charging && e.take(i, r, &d) {
		return d, true
	}
	e.lock()
	defer e.unlock()
	switch {
	case e.dead:
		return d, false
	case p == joining:
		e.pins++
		return d, true
	case p == resetting:
		e.setLocked(counts{held: e.held.Load()})
		e.sequence.Store(i.sequence)
		return limit.Decision{OK: true}, true
	case e.ledger != nil:
		e.rollLocked(i.sequence)
	}
	if d = e.decideLocked(i, r.Limit, r.Cost); d.OK {
		e.admitLocked(i, r, p, &d)
	}
	return d, true
}

// admitLocked charges a request that fits, or sets its units aside: the entry then stays in the
// table until they are given back, and they do not count in ResetAfter.
func (e *entry) admitLocked(i *instant, r *Request, p purpose, d *limit.Decision) {
	if r.Cost == 0 && p == charging {
		return
	}
	e.rollLocked(i.sequence)
	c := e.countsLocked()
	if p == holding {
		d.ResetAfter = e.decideLocked(i, r.Limit, 0).ResetAfter
		c.held += int64(r.Cost)
		e.pins++
	} else {
		c.current = addUnits(c.current, int64(r.Cost))
	}
	e.setLocked(c)
}

// peek decides on a request with another cost, and changes nothing.
func (e *entry) peek(i *instant, most, cost int) limit.Decision {
	c, at := e.weigh(i)
	return c.decide(most, cost, at)
}

// look decides on a request that is not charged.
func (e *entry) look(i *instant, r *Request) limit.Decision {
	if e.ledger != nil {
		e.lock()
		e.rollLocked(i.sequence)
		e.unlock()
	}
	c, at := e.weigh(i)
	d := c.decide(r.Limit, r.Cost, at)
	if d.OK {
		d = c.decide(r.Limit, 0, at)
	}
	return d
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
