package tally

import (
	"math"
	"strings"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/money"
)

// Sum is a number of calls, with their tokens and money. It stops at the largest number. It has 64
// bits on all machines: what is open is a difference of sums.
type Sum struct {
	Calls, Input, Output int64
	Money                money.Amount
}

// Add adds a call. Tokens and money are not negative. It is short enough to be inlined.
func (s *Sum) Add(c state.Count, amount money.Amount) {
	s.Calls++
	s.Input += int64(c.Input)
	s.Output += int64(c.Output)
	s.Money += amount
	if s.Input|s.Output|int64(s.Money) < 0 {
		s.clamp()
	}
}

// clamp makes what has passed the largest number that number.
func (s *Sum) clamp() {
	for _, n := range [...]*int64{&s.Input, &s.Output, (*int64)(&s.Money)} {
		if *n < 0 {
			*n = math.MaxInt64
		}
	}
}

// plus adds another sum, or takes it off where sign is -1.
func (s *Sum) plus(o *Sum, sign int) {
	s.Calls += int64(sign) * o.Calls
	s.Input = int64(money.Amount(s.Input).Add(money.Amount(o.Input).Mul(sign)))
	s.Output = int64(money.Amount(s.Output).Add(money.Amount(o.Output).Mul(sign)))
	s.Money = s.Money.Add(o.Money.Mul(sign))
}

// Sums are those of a model, a pool or a class, by what has become of the calls. They are not safe
// for concurrent use.
type Sums struct{ Reserved, Estimated, Settled, Released, Expired, Recorded Sum }

// End adds a call that was reserved and has ended. used is what it used where it was committed.
func (a *Sums) End(c *account.Call, how account.How, used state.Count) {
	switch how {
	case account.Committed:
		a.Estimated.Add(c.Tokens, c.Most)
		a.Settled.Add(used, c.Cost)
	case account.Cancelled:
		a.Released.Add(c.Tokens, c.Most)
	default:
		a.Expired.Add(c.Tokens, c.Most)
	}
}

// Plus adds other sums.
func (a *Sums) Plus(o *Sums) { a.plus(o, 1) }

// Less takes other sums off.
func (a *Sums) Less(o *Sums) { a.plus(o, -1) }

func (a *Sums) plus(o *Sums, sign int) {
	a.Reserved.plus(&o.Reserved, sign)
	a.Estimated.plus(&o.Estimated, sign)
	a.Settled.plus(&o.Settled, sign)
	a.Released.plus(&o.Released, sign)
	a.Expired.plus(&o.Expired, sign)
	a.Recorded.plus(&o.Recorded, sign)
}

// Open returns what was reserved and has not ended.
func (a *Sums) Open() Sum {
	open := a.Reserved
	for _, ended := range [...]*Sum{&a.Estimated, &a.Released, &a.Expired} {
		open.plus(ended, -1)
	}
	return open
}

// Other is the entry of those for which a book has no room.
const Other = "other"

// Book has sums by name. The zero value is empty. It is not safe for concurrent use.
type Book map[string]*Sums

// Of returns the sums of a name, or those of Other for a name that is new where there is no room.
func (b *Book) Of(name string, room bool) *Sums {
	a := (*b)[name]
	if a == nil && !room {
		name = Other
		a = (*b)[name]
	}
	if a == nil {
		if *b == nil {
			*b = make(Book)
		}
		a = new(Sums)
		(*b)[strings.Clone(name)] = a
	}
	return a
}
