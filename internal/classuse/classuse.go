// Package classuse counts what the calls of one class use of the limits of one model, so that the
// limiter knows how much of the class's reserve is left.
package classuse

import (
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/tokens"
)

// Use is the use of a model by a class. The zero value is none. A Use is not safe for concurrent
// use.
type Use struct {
	seenAt  int64 // the instant at which a call of the class last asked; 0 for never
	charges []*Charge
	unused  []Charge   // were allocated together
	minute  state.Cost // of the charges
	open    int
	day     state.Cost // since dayBegan
	began   int64
}

// Charge is the charge of one call, with those beside it. A nil Charge is of a class that is not
// counted.
type Charge struct {
	use    *Use
	at     int64
	count  tokens.Count
	began  int64
	left   bool // the minute
	closed bool
	beside *Charge
}

// Join has the charge of the same call to another Use end with this one, where both are counted.
func (c *Charge) Join(other *Charge) {
	if c != nil && other != nil {
		other.beside, c.beside = c.beside, other
	}
}

// See notes that a call of the class asks at an instant.
func (u *Use) See(instant int64) { u.seenAt = max(u.seenAt, instant, 1) }

// SeenAt returns when a call of the class last asked; 0 for never.
func (u *Use) SeenAt() int64 { return u.seenAt }

// Charge counts a call that was admitted at an instant of a day. The instants of calls rise. A nil
// Use, which is of a class that is not counted, counts nothing.
func (u *Use) Charge(instant, dayBegan int64, c tokens.Count) *Charge {
	if u == nil {
		return nil
	}
	u.See(instant)
	u.turnDay(dayBegan)
	if len(u.unused) == 0 {
		u.unused = make([]Charge, 16)
	}
	one := &u.unused[0]
	u.unused = u.unused[1:]
	*one = Charge{use: u, at: instant, count: c, began: dayBegan}
	u.charges = append(u.charges, one)
	add(&u.minute, 1, c)
	add(&u.day, 1, c)
	u.open++
	return one
}

func add(to *state.Cost, requests int, c tokens.Count) {
	to.Requests += requests
	to.Count = to.Plus(c)
}

func less(of *state.Cost, requests int, c tokens.Count) {
	of.Requests = max(of.Requests-requests, 0)
	of.Input, of.Output = max(of.Input-c.Input, 0), max(of.Output-c.Output, 0)
}

// Settle makes the tokens of the call what it used.
func (c *Charge) Settle(used tokens.Count) {
	for ; c != nil; c = c.beside {
		c.settle(used)
	}
}

func (c *Charge) settle(used tokens.Count) {
	if !c.left {
		less(&c.use.minute, 0, c.count)
		add(&c.use.minute, 0, used)
	}
	if c.began == c.use.began {
		less(&c.use.day, 0, c.count)
		add(&c.use.day, 0, used)
	}
	c.count = used
}

// Refund takes back the charge of a call that was not sent.
func (c *Charge) Refund() {
	for ; c != nil; c = c.beside {
		c.refund()
	}
}

func (c *Charge) refund() {
	c.settle(tokens.Count{})
	if !c.left {
		less(&c.use.minute, 1, tokens.Count{})
		c.left = true
	}
	if c.began == c.use.began {
		less(&c.use.day, 1, tokens.Count{})
	}
}

// Close notes that the call is in flight no more.
func (c *Charge) Close() {
	for ; c != nil; c = c.beside {
		if !c.closed {
			c.closed = true
			c.use.open--
		}
	}
}

func (u *Use) turnDay(began int64) {
	if u.began != began {
		u.began, u.day = began, state.Cost{}
	}
}

// Of returns what the class uses of a dimension at an instant, when charges of the minute count
// from cut on, and the day began at dayBegan.
func (u *Use) Of(of state.Dimension, cut, dayBegan int64) int {
	switch state.Limits[of].Window {
	case state.Settled:
		return u.open
	case state.Day:
		u.turnDay(dayBegan)
		return u.day.Of(of)
	}
	n := 0
	for n < len(u.charges) && u.charges[n].at < cut {
		if c := u.charges[n]; !c.left {
			less(&u.minute, 1, c.count)
			c.left = true
		}
		u.charges[n] = nil
		n++
	}
	if u.charges = u.charges[n:]; len(u.charges) == 0 {
		u.charges, u.minute = nil, state.Cost{}
	}
	return u.minute.Of(of)
}

// Uses is what classes use of a model. They are too few for a map.
type Uses []useOf

type useOf struct {
	class string
	use   *Use
}

// Of returns what a class uses; nil for nothing.
func (all Uses) Of(class string) *Use {
	for i := range all {
		if all[i].class == class {
			return all[i].use
		}
	}
	return nil
}

// Need returns what a class uses, to be added to.
func (all *Uses) Need(class string) *Use {
	u := all.Of(class)
	if u == nil {
		u = new(Use)
		*all = append(*all, useOf{class, u})
	}
	return u
}
