package account

import (
	"time"

	"dappco.re/go/core/go-ratelimit/internal/state"
)

// External is the usage of a model by others, by dimension: a provider reports more usage than this
// limiter has charged, because other programs use the same limit. The limiter's Observe fills it
// in, and its decisions count it beside the charges. Calls in flight have none. The zero value is
// none. It is not safe for concurrent use.
type External [state.InFlight]ExternalPart

// ExternalPart is the external usage of one dimension. The zero value is none.
type ExternalPart struct {
	Amount int
	Until  int64 // the end, excluded: an instant for the minute, in UnixNano for the day
	SentAt int64 // the instant at which the call whose answer said so was sent
}

// sentSlack is how much earlier than another a call may have been sent whose answer still counts
// as the later one: two calls sent at about the same time may arrive in either order.
const sentSlack = int64(250 * time.Millisecond)

// Take replaces the observation in force, or raises it if the new one is of a call that was sent
// earlier. It reports whether a request may now pass sooner, and whether one may pass later.
func (p *ExternalPart) Take(is ExternalPart) (eased, tightened bool) {
	was := *p
	if was.Amount > 0 && is.SentAt+sentSlack < was.SentAt {
		if is.Amount <= was.Amount {
			return false, false
		}
		is.Until, is.SentAt = max(is.Until, was.Until), was.SentAt
	}
	if *p = is; is.Amount == 0 {
		*p = ExternalPart{}
	}
	eased = is.Amount < was.Amount || is.Until < was.Until
	tightened = is.Amount > was.Amount || is.Amount > 0 && is.Until > was.Until
	return eased, tightened
}

// External returns what others use of the account at a moment; nil for nothing.
func (a *Account) External(now Now) *External {
	if a.Reports == nil {
		return nil
	}
	u := *a.Reports
	if !u.Expire(now.Instant, now.Wall) {
		return nil
	}
	return &u
}

// Expire drops the parts that have ended at an instant, which is wall in UnixNano, and reports
// whether any is left.
func (u *External) Expire(instant, wall int64) (left bool) {
	for of := range state.InFlight {
		now := instant
		if state.Limits[of].Window == state.Day {
			now = wall
		}
		p := &u[of]
		if p.Amount > 0 && p.Until <= now {
			*p = ExternalPart{}
		}
		left = left || p.Amount > 0
	}
	return left
}
