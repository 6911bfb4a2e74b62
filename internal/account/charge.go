package account

import (
	"time"

	"dappco.re/go/core/go-ratelimit/internal/state"
)

// Charge is what one call has charged to one meter. The zero value is no charge.
type Charge struct {
	Meter  *Meter
	At     int64       // the instant as of which it counts
	Tokens state.Count // as they are charged
	Payer  *Account    // to whose spend its money counts; nil where none is counted

	request, token uint32 // its entries in the window: see ring.Queue.Place
	days           int32  // the serial of the day that it counts to
	epoch          uint32 // of the meter
	round          uint16 // of the meter

	prepaid *buckets // they hold the charge at its price under another quota, apart from its place
}

// add charges a meter as of now. The charge has no pointers before.
func (c *Charge) add(m *Meter, now Now, count state.Count) {
	m.InFlight++
	c.Meter, c.At, c.Tokens = m, now.Instant, count
	m.charge(now, count)
	c.days, c.epoch, c.round = m.days, m.epoch, m.round
	c.request, c.token = m.requests.Last(), m.tokens.Last()
}

// release lets go of what the charge points to.
func (c *Charge) release() {
	if c.Meter = nil; c.Payer != nil || c.prepaid != nil {
		c.Payer, c.prepaid = nil, nil
	}
}

// place notes where the charge is: the i-th oldest of the requests, the j-th oldest of the tokens.
func (c *Charge) place(i, j int) {
	m := c.Meter
	c.epoch, c.round = m.epoch, m.round
	c.request, c.token = m.requests.Place(i), m.tokens.Place(j)
}

// isKnown reports whether the meter has not forgotten the charge, which may have left the minute.
func (c *Charge) isKnown() bool { return c.epoch == c.Meter.epoch }

// tokenAt returns the position of the tokens in the window; -1 where they are gone. Entries of the
// same instant and the same tokens are alike, so any will do.
func (c *Charge) tokenAt() int {
	if !c.isKnown() {
		return -1
	}
	w := &c.Meter.Window
	if i := w.tokens.Placed(c.token, c.At); i >= 0 && TokensOf(w.tokens.Value(i)) == c.Tokens {
		return i
	}
	return w.tokens.Find(c.At, func(e *state.Token) bool { return TokensOf(e) == c.Tokens })
}

// requestAt is tokenAt for the request.
func (c *Charge) requestAt() int {
	if !c.isKnown() {
		return -1
	}
	w := &c.Meter.Window
	if i := w.requests.Placed(c.request, c.At); i >= 0 {
		return i
	}
	return w.requests.Find(c.At, func(*time.Time) bool { return true })
}

// isToday reports whether the charge counts to the present day.
func (c *Charge) isToday() bool { return c.isKnown() && c.days == c.Meter.day.serial }

// settle replaces the tokens that were charged by those that were used. Where the charge has left
// the minute, what is above it counts as of now.
func (c *Charge) settle(is *Ending) {
	m, used := c.Meter, is.Used
	excess := used.Over(c.Tokens)
	if i := c.tokenAt(); i >= 0 {
		m.set(i, used.Clamp(), c.isPrepaid())
	} else if left := is.Now.Instant-c.At > is.Span; left && excess != (state.Count{}) {
		m.pushTokens(is.Now.Instant, is.Now.Time(), excess.Clamp())
	} else if !left && !c.isKnown() {
		return
	}
	if !m.tokens.Backs(m.usage.Tokens) { // asking is cheaper than writing while the garbage collector marks
		m.show()
	}
	switch {
	case c.isToday():
		m.setDay(m.usage.DayCount, state.AddSaturated(m.restOfDay(c.Tokens, used), used.Total()))
	case excess != (state.Count{}):
		m.day.begin(is.Now.Wall)
		m.addDay(0, excess.Total())
	}
	c.Tokens = used
}

// cancel takes the charge back. It reports whether it was still known.
func (c *Charge) cancel() bool {
	m := c.Meter
	if !c.isKnown() {
		return false
	}
	m.remove(c.requestAt(), c.tokenAt())
	m.show()
	if c.isToday() {
		m.setDay(max(m.usage.DayCount-1, 0), m.restOfDay(c.Tokens, state.Count{}))
	}
	return true
}

// move has the charge count as of a later instant, when the provider counted the call. It reports
// whether it did.
func (c *Charge) move(now Now, span, to int64) (moved bool) {
	m := c.Meter
	request, token := c.requestAt(), c.tokenAt()
	if request < 0 && token < 0 && now.Instant-c.At <= span {
		return false // forgotten
	}
	today := c.isToday()
	c.prepay(request, token)
	m.remove(request, token)
	if now.Instant-to <= span {
		request, token = m.insert(to, now.TimeAt(to), c.Tokens, c.isPrepaid())
	}
	m.show()
	c.At = to
	c.place(request, token)
	switch wall := now.WallAt(to); {
	case today:
	case m.day.takes(wall):
		m.day.begin(wall)
		m.addDay(1, c.Tokens.Total())
		c.days = m.days
	default:
		c.days = m.day.serial - 1 // a day that is over
	}
	return true
}

// isPrepaid reports whether the buckets hold the charge apart from its place.
func (c *Charge) isPrepaid() bool { return c.prepaid != nil && c.prepaid == c.Meter.pace }

// prepay notes, before a charge moves, whether the buckets keep it at an old price.
func (c *Charge) prepay(request, token int) {
	switch p := c.Meter.pace; {
	case p == nil || request < 0 && token < 0:
		c.prepaid = nil
	case p.Priced(request, token):
		c.prepaid = p
	}
}
