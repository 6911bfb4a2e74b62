package verdict

import (
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// Deny is Judge for a cost that limits of the table alone deny to an account, in a third of the
// time. It reports false, and leaves v alone, where they do not, or where others have a say. The
// cost must not be negative, and v must be empty.
func (v *Verdict) Deny(a *account.Account, c *state.Cost, span int64, now account.Now) bool {
	if a.Traits&^(account.Rest|account.Zoned) != 0 {
		return false
	}
	q, d := &a.Quota, plainDenial{account: a, span: span, now: now}
	requests, spent, _ := a.DayUsed(now.Wall)
	cut := now.Instant - span
	used := a.Tokens(cut)
	// By their ranks, as rows has them.
	d.check(state.InFlight, a.InFlight, c.Requests, q.MaxInFlight)
	d.check(state.RPD, requests, c.Requests, q.MaxRPD)
	d.check(state.TPD, spent, c.Total(), q.MaxTPD)
	d.check(state.RPM, a.Requests(cut), c.Requests, q.MaxRPM)
	d.check(state.ITPM, used.Input, c.Input, q.MaxITPM)
	d.check(state.OTPM, used.Output, c.Output, q.MaxOTPM)
	d.check(state.TPM, used.Total(), c.Total(), q.MaxTPM)
	if d.first == nil {
		return false
	}
	d.say(v)
	return true
}

// plainDenial collects the limits that deny, as account.Denial does.
type plainDenial struct {
	account *account.Account
	span    int64
	now     account.Now

	first, tooLarge, longest *state.Limit
	wait                     int64
	event                    bool
}

func (d *plainDenial) check(of state.Dimension, used, more, limit int) {
	if !fits(used, more, limit) { // this much is inlined
		d.add(of, more, limit)
	}
}

func (d *plainDenial) add(of state.Dimension, more, limit int) {
	l := &state.Limits[of]
	if d.first == nil {
		d.first = l
	}
	switch {
	case more > limit:
		if d.tooLarge == nil {
			d.tooLarge = l
		}
	case of == state.InFlight:
		d.event = true
	default:
		if wait := ownFitsIn(d.account, of, limit-more, d.span, d.now); wait > d.wait {
			d.wait, d.longest = wait, l
		}
	}
}

func (d *plainDenial) say(v *Verdict) {
	v.Code, v.Reason = d.first.Code, d.first.UsedUp
	if d.tooLarge != nil {
		v.Never, v.Reason = true, d.tooLarge.TooLarge
		return
	}
	v.wait, v.own, v.event = d.wait, d.wait, d.event
	if d.wait > 0 && !d.event {
		if v.Retry = time.Duration(d.wait); d.longest != d.first {
			v.Reason = withLongest(v.Reason, d.longest.UsedUp)
		}
	}
}
