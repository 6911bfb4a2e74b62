package engine_test

import (
	"slices"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/money"
)

// charge counts one admitted call.
func (b *book) charge(used state.Count, class string, most money.Amount, now account.Now) *bookCharge {
	b.turn(now.Wall)
	b.shown = true
	e := bookEntry{at: now.Instant, requests: 1, tokens: used, class: class}
	b.minute = append(b.minute, &e)
	c := &bookCharge{book: b, at: now.Instant, minute: &e, class: class, most: most, paidAt: now.Wall}
	c.inDay = b.intoDay(now.Wall, e)
	b.open = append(b.open, c)
	b.pay(most, now.Wall)
	return c
}

// record counts a call that was not reserved.
func (b *book) record(used state.Count, cost money.Amount, now account.Now) {
	b.charge(used, "", cost, now)
	b.open = b.open[:len(b.open)-1]
}

func (c *bookCharge) close() {
	c.book.open = slices.DeleteFunc(c.book.open, func(o *bookCharge) bool { return o == c })
}

// isToday reports whether the charge counts to the present day.
func (c *bookCharge) isToday() bool {
	return !c.forgotten && c.book.day != nil && c.inDay.day == c.book.day
}

// commit replaces the estimate by what was used, at the time of admission. If the charge has left
// the window, the usage above the estimate is charged as of now.
func (c *bookCharge) commit(used state.Count, cost money.Amount, now account.Now) {
	b := c.book
	b.turn(now.Wall)
	c.close()
	estimate := c.minute.tokens
	more := state.Count{Input: max(used.Input-estimate.Input, 0), Output: max(used.Output-estimate.Output, 0)}
	left := now.Instant-c.at > b.span
	b.repay(c.most, c.paidAt, cost, now.Wall)
	switch {
	case used == estimate, c.forgotten && !left:
		return
	case !left:
		c.minute.tokens = used
	case more != state.Count{}:
		b.minute = append(b.minute, &bookEntry{at: now.Instant, tokens: more, class: c.class})
	}
	switch {
	case c.isToday():
		c.inDay.tokens = used
	case more != state.Count{}:
		b.intoDay(now.Wall, bookEntry{tokens: more, class: c.class})
	}
	if more != (state.Count{}) && left {
		b.shown = true
	}
}

// cancel gives everything back.
func (c *bookCharge) cancel(now account.Now) {
	c.book.turn(now.Wall)
	c.close()
	c.minute.gone = true
	c.inDay.gone = true
	c.book.repay(c.most, c.paidAt, 0, now.Wall)
}

// expire leaves the estimate charged.
func (c *bookCharge) expire(now account.Now) {
	c.book.turn(now.Wall)
	c.close()
}

// arrive moves the charge to a later instant.
func (c *bookCharge) arrive(at int64, now account.Now) {
	b := c.book
	b.turn(now.Wall)
	if at <= c.at || c.forgotten && now.Instant-c.at <= b.span {
		return
	}
	today, used := c.isToday(), c.minute.tokens
	c.minute.gone = true
	c.minute = &bookEntry{at: at, requests: 1, tokens: used, class: c.class}
	b.minute = append(b.minute, c.minute)
	c.at = at
	wall := now.Wall - now.Instant + at
	switch {
	case today:
	case wall >= b.ended && (b.quota.DayZone == "" || wall >= b.dayAt(now.Wall).begin):
		c.inDay = b.intoDay(wall, bookEntry{requests: 1, tokens: used, class: c.class})
		b.turn(now.Wall)
	default:
		c.inDay = &bookEntry{}
	}
	if c.forgotten = false; b.usedOf(state.RPM, "", now)+b.usedOf(state.RPD, "", now) > 0 {
		b.shown = true
	}
}

// reset forgets the usage. Calls in flight stay in flight.
func (b *book) reset(wall int64) {
	b.turn(wall)
	for _, c := range b.open {
		c.forgotten = true
	}
	b.minute, b.days, b.day, b.shown = nil, nil, nil, false
}

// isIdle reports whether a model without a quota of its own may lose its place.
func (b *book) isIdle(now account.Now, waiting bool) bool {
	q := b.quota
	if waiting || len(b.open) > 0 && q.MaxInFlight != 0 {
		return false
	}
	for _, e := range b.minute {
		if !e.gone && now.Instant-e.at <= b.span {
			return false
		}
	}
	if b.day == nil || now.Wall >= b.day.end {
		return true
	}
	sum := b.ofDay(b.day, "")
	return (q.MaxRPD == 0 || sum.requests == 0) && (q.MaxTPD == 0 || sum.tokens == state.Count{})
}
