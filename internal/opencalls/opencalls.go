// Package opencalls adds up what the calls without a settlement have charged to a window, by the
// time of the charge. A settlement may give that back, so a waiter is too late only if it could
// not pass without it. The limiter (windows and deadlines) uses it.
package opencalls

import (
	"math"

	"dappco.re/go/core/go-ratelimit/internal/tokens"
)

const (
	pieces  = 16 // of the time that a sum covers
	largest = 1 << 40
)

// Sum is the charges of open calls. It is exact for the day, and for the minute up to the length of
// a piece, a fifteenth of the span at least: see [Sum.Since]. Charges count up to 2^40 tokens each.
// The zero value has no room: use [New]. A nil Sum is empty. A Sum is not safe for concurrent use.
type Sum struct {
	shift  uint8 // a piece is 1<<shift nanoseconds long
	pieces [pieces]piece
	day    Charges
}

// Charges is a number of calls and their tokens. The zero value is none.
type Charges struct{ Requests, Input, Output int64 }

// Total returns the tokens, input and output together.
func (c Charges) Total() int64 { return c.Input + c.Output }

type piece struct {
	of int64 // the instants of the piece, in pieces since instant 0
	Charges
}

// New returns an empty sum for charges that count for a span of nanoseconds.
func New(span int64) *Sum {
	s := &Sum{shift: 32}
	for (pieces-1)<<s.shift < span {
		s.shift++
	}
	for i := range s.pieces {
		s.pieces[i].of = math.MinInt64
	}
	return s
}

func chargesOf(c tokens.Count) Charges {
	return Charges{1, min(int64(c.Input), largest), min(int64(c.Output), largest)}
}

func (c *Charges) add(d Charges) {
	c.Requests += d.Requests
	c.Input += d.Input
	c.Output += d.Output
}

func (c *Charges) remove(d Charges) {
	c.Requests -= d.Requests
	c.Input -= d.Input
	c.Output -= d.Output
}

// Open adds a call that was charged at an instant, the latest of all or any within the span.
func (s *Sum) Open(instant int64, c tokens.Count) {
	of := instant >> (s.shift & 63)
	p := &s.pieces[of&(pieces-1)]
	if p.of != of {
		if of < p.of {
			return // it left long ago
		}
		*p = piece{of: of}
	}
	p.add(chargesOf(c))
}

// Close removes a call that was opened at the same instant with the same tokens.
func (s *Sum) Close(instant int64, c tokens.Count) {
	of := instant >> (s.shift & 63)
	if p := &s.pieces[of&(pieces-1)]; p.of == of {
		p.remove(chargesOf(c))
	}
}

// OpenToday adds a call to the day that lasts.
func (s *Sum) OpenToday(c tokens.Count) { s.day.add(chargesOf(c)) }

// CloseToday removes a call that was opened in the day that lasts.
func (s *Sum) CloseToday(c tokens.Count) { s.day.remove(chargesOf(c)) }

// EndDay forgets the calls of the day, because another begins. A nil Sum has none.
func (s *Sum) EndDay() {
	if s != nil {
		s.day = Charges{}
	}
}

// Today returns the open calls that the day that lasts has.
func (s *Sum) Today() Charges {
	if s == nil {
		return Charges{}
	}
	return s.day
}

// Since returns the open calls that were charged at the instant from or later. Those of the piece
// in which from lies are apart, in border, which ends before the instant end: some of them may be
// older.
func (s *Sum) Since(from int64) (c, border Charges, end int64) {
	if s == nil {
		return c, border, from
	}
	first := from >> (s.shift & 63)
	for i := range s.pieces {
		switch p := &s.pieces[i]; {
		case p.of > first:
			c.add(p.Charges)
		case p.of == first:
			border = p.Charges
		}
	}
	return c, border, (first + 1) << (s.shift & 63)
}
