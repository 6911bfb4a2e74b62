// Package external keeps what a provider says that is used of a model beyond what was charged
// here: others use the same limit. The limiter's Observe fills it in, and its decisions count
// it beside the charges.
package external

import (
	"time"

	"dappco.re/go/core/go-ratelimit/internal/state"
)

// Usage is the external usage of one model, by dimension; calls in flight have none. The zero
// value is none. It is not safe for concurrent use.
type Usage [state.InFlight]Part

// Part is the external usage of one dimension. The zero value is none.
type Part struct {
	Amount int
	Until  int64 // the end, excluded: an instant for the minute, in UnixNano for the day
	SentAt int64 // the instant at which the call was sent whose answer said so
}

// sentSlack is how much earlier than another a call may have been sent whose answer still
// counts as the later word: two calls that were sent at about the same time may have arrived
// in either order.
const sentSlack = int64(250 * time.Millisecond)

// Take puts an observation in the place of the one in force, or has it raise that if its call
// was sent earlier. It reports whether a request may pass sooner now.
func (p *Part) Take(is Part) (eased bool) {
	was := *p
	if was.Amount > 0 && is.SentAt+sentSlack < was.SentAt {
		if is.Amount <= was.Amount {
			return false
		}
		is.Until, is.SentAt = max(is.Until, was.Until), was.SentAt
	}
	if *p = is; is.Amount == 0 {
		*p = Part{}
	}
	return is.Amount < was.Amount || is.Until < was.Until
}

// Expire drops what is over at an instant, which is wall in UnixNano, and reports whether
// anything is left.
func (u *Usage) Expire(instant, wall int64) (left bool) {
	for of := range state.InFlight {
		now := instant
		if state.Limits[of].Window == state.Day {
			now = wall
		}
		p := &u[of]
		if p.Amount > 0 && p.Until <= now {
			*p = Part{}
		}
		left = left || p.Amount > 0
	}
	return left
}

// Join adds the usage of a model that turned out to be the same: of each dimension the more.
func (u *Usage) Join(other *Usage) {
	for of := range state.InFlight {
		if other[of].Amount > u[of].Amount {
			u[of] = other[of]
		}
	}
}

// Usages are the external usage of models, by the names under which they are counted. They
// lie beside the state of the models: they must outlast windows, which are made anew and
// pruned, and a model need not have state for them. Nil is none.
type Usages map[string]*Usage

// Of returns the usage of a model at an instant, which is wall in UnixNano; nil for none.
func (us Usages) Of(name string, instant, wall int64) *Usage {
	u := us[name]
	if u != nil && !u.Expire(instant, wall) {
		delete(us, name)
		return nil
	}
	return u
}

// DropOver drops the usage that is over, of all models.
func (us Usages) DropOver(instant, wall int64) {
	for name := range us {
		us.Of(name, instant, wall)
	}
}
