// Package opencalls adds up what the calls without a settlement have charged to a window, by the
// time of the charge. A settlement may give that back, so a waiter is too late only if it could
// not pass without it. The limiter (windows and deadlines) uses it.
package opencalls

import (
	"math"

	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/tokens"
)

const (
	shift  = 32 // a piece is 1<<shift nanoseconds long: 4.3 s
	pieces = 16 // which cover 64 s at least
)

// Sum is the charges of open calls. It knows the time of each to the piece, some four seconds, and
// of those that are more than a minute old only that they are of the day. The zero value has no
// room: use [New]. A nil Sum is empty. A Sum is not safe for concurrent use.
//
// It is on the path of each reservation, so it adds without a check: sums of more than the largest
// int wrap around, and are right again when the calls are closed.
type Sum struct {
	pieces   [pieces]piece
	old      piece // of the day, and left their pieces
	lost     piece // of a day that is over
	newest   int64 // piece
	dayBegan int64 // instant
}

type piece struct {
	of int64 // the instants of the piece, in pieces since instant 0
	Charges
}

// Charges is a number of calls and their tokens. The zero value is none. Of the requests, those
// that have arrived at the provider are not given back.
type Charges struct{ Requests, Input, Output, Arrived int }

// Total returns the tokens, input and output together.
func (c Charges) Total() int { return c.Input + c.Output }

// Of returns what may be given back of the charges that a limit counts.
func (c Charges) Of(limit state.Dimension) int {
	switch limit {
	case state.RPM, state.RPD:
		return c.Requests - c.Arrived
	case state.ITPM:
		return c.Input
	case state.OTPM:
		return c.Output
	}
	return c.Total()
}

// Less returns what is left of usage without open calls. Their sum is negative where it is too
// large for an int.
func Less(used, open int) int {
	if open < 0 {
		return 0
	}
	return max(used-open, 0)
}

func (c *Charges) add(d *Charges) {
	c.Requests += d.Requests
	c.Input += d.Input
	c.Output += d.Output
	c.Arrived += d.Arrived
}

// New returns an empty sum.
func New() *Sum {
	s := &Sum{newest: math.MinInt64, dayBegan: math.MinInt64}
	for i := range s.pieces {
		s.pieces[i].of = math.MinInt64
	}
	return s
}

// Open adds a call that was charged at an instant.
func (s *Sum) Open(instant int64, c tokens.Count) {
	p := &s.pieces[instant>>shift&(pieces-1)]
	if p.of != instant>>shift {
		p = s.begin(instant)
	}
	p.Requests++
	p.Input += c.Input
	p.Output += c.Output
}

// Close removes a call that was opened at the same instant with the same tokens.
func (s *Sum) Close(instant int64, c tokens.Count) {
	p := s.pieceOf(instant)
	p.Requests--
	p.Input -= c.Input
	p.Output -= c.Output
}

// Arrive adds so many calls that were opened at an instant to those that have arrived. A call that
// has arrived is removed by -1 when it is closed.
func (s *Sum) Arrive(instant int64, calls int) { s.pieceOf(instant).Arrived += calls }

// pieceOf returns where a call counts that was opened at an instant.
func (s *Sum) pieceOf(instant int64) *piece {
	if p := &s.pieces[instant>>shift&(pieces-1)]; p.of == instant>>shift {
		return p
	}
	return s.past(instant)
}

// begin returns the piece of an instant, in place of one that is over.
func (s *Sum) begin(instant int64) *piece {
	of := instant >> shift
	p := &s.pieces[of&(pieces-1)]
	if of < p.of {
		return s.past(instant)
	}
	s.past(p.of << shift).add(&p.Charges)
	*p = piece{of: of}
	s.newest = max(s.newest, of)
	return p
}

// past returns where a call counts whose piece is over.
func (s *Sum) past(instant int64) *piece {
	if instant>>shift < s.dayBegan>>shift {
		return &s.lost
	}
	return &s.old
}

// BeginDay tells that a day began at an instant: calls that were charged before are not in it. A
// nil Sum has none.
func (s *Sum) BeginDay(instant int64) {
	if s != nil && instant > s.dayBegan {
		s.lost.add(&s.old.Charges)
		s.dayBegan, s.old = instant, piece{}
	}
}

// Today returns the open calls of the day that lasts, and maybe some that were charged less than a
// piece before it.
func (s *Sum) Today() (c Charges) {
	if s == nil {
		return c
	}
	c = s.old.Charges
	for i := range s.pieces {
		if p := &s.pieces[i]; p.of >= s.dayBegan>>shift {
			c.add(&p.Charges)
		}
	}
	if c.Requests <= 0 { // a day that began in the past has calls of the old one
		return Charges{}
	}
	return c
}

// Since returns the open calls that were charged at the instant from or later. Those of the piece
// in which from lies are apart, in border, which ends before the instant end: some of them may be
// older.
func (s *Sum) Since(from int64) (c, border Charges, end int64) {
	if s == nil {
		return c, border, from
	}
	first := from >> shift
	last := first // of the border
	if oldest := s.newest - (pieces - 1); first < oldest {
		border, last = s.old.Charges, oldest-1
	}
	for i := range s.pieces {
		switch p := &s.pieces[i]; {
		case p.of > last:
			c.add(&p.Charges)
		case p.of >= first:
			border.add(&p.Charges)
		}
	}
	return c, border, (last + 1) << shift
}

// Ages returns how old the oldest open call is at the instant now, and how many are older than
// limit, which is at most a minute. Both are too small rather than too large: the age by up to a
// piece, and by more if it is over a minute; the number by calls whose piece reaches the limit. A
// nil Sum has none.
func (s *Sum) Ages(now, limit int64) (oldest int64, over int) {
	if s == nil {
		return 0, 0
	}
	if over = s.old.Requests + s.lost.Requests; over > 0 {
		oldest = now - (s.newest-(pieces-1))<<shift
	}
	for i := range s.pieces {
		p := &s.pieces[i]
		if p.Requests <= 0 {
			continue
		}
		age := now - (p.of+1)<<shift
		if oldest = max(oldest, age); age >= limit {
			over += p.Requests
		}
	}
	return max(oldest, 0), max(over, 0)
}

// Calls returns how many calls are open. A nil Sum has none.
func (s *Sum) Calls() int { return s.all().Requests }

// Arrived returns how many of the open calls have arrived. A nil Sum has none.
func (s *Sum) Arrived() int { return s.all().Arrived }

func (s *Sum) all() (c Charges) {
	if s == nil {
		return c
	}
	c = s.old.Charges
	c.add(&s.lost.Charges)
	for i := range s.pieces {
		c.add(&s.pieces[i].Charges)
	}
	return c
}
