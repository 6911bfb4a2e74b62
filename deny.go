package ratelimit

import (
	"cmp"
	"math"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/cooldown"
	"dappco.re/go/core/go-ratelimit/internal/errtext"
	"dappco.re/go/core/go-ratelimit/internal/pace"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/tokens"
)

// deny fills in the reason and the wait, by the limits in the order in which they deny: the first
// names the denial, the longest wait counts, and the first that the request alone exceeds makes
// it Never. It returns how long the limits that end with time deny.
func deny(d *Decision, q *ModelQuota, r *view, c *cost) (wait time.Duration) {
	if reason, bad := q.invalid(); bad || r.badZone {
		d.Never = true
		d.Code, d.Reason = DecisionInvalidQuota, cmp.Or(reason, unknownZone)
		return 0
	}
	var f refusal
	cools := r.cool > r.wall
	if cools {
		f.refuse(DecisionCooldown, cooldown.Reason(r.cause))
		d.Cause = Cause(r.cause)
		f.until(time.Duration(r.cool - r.wall))
	}
	f.checkPlace(r)
	f.checkSlots(r, q, c)
	// Without these, what is used alone says whether a request fits.
	p := r.paceOf(q)
	looks := r.external != nil || p != nil
	total := c.Total()
	if used := r.dayCount(); looks || !fits(used, c.Requests, q.MaxRPD) {
		f.check(state.RPD, used, c.Requests, q.MaxRPD, r, nil)
	}
	if used := r.dayTokens(); looks || !fits(used, total, q.MaxTPD) {
		f.check(state.TPD, used, total, q.MaxTPD, r, nil)
	}
	f.checkSpend(r, q, c)
	if r.used != 0 && q.limitsMinute() {
		f.refuse(q.minuteCode(), "the database was lost, so the minute counts as used")
		f.until(time.Duration(r.used - r.instant))
	}
	if used := r.requests.Len(); looks || !fits(used, c.Requests, q.MaxRPM) {
		f.check(state.RPM, used, c.Requests, q.MaxRPM, r, p)
	}
	if opens := r.found.Opens(); r.adapts && opens > r.instant {
		f.refuse(DecisionRPMLimit, "requests are spaced by the rate that was found")
		f.until(time.Duration(opens - r.instant))
	}
	if used := r.sums.Total().Input; looks || !fits(used, c.Input, q.MaxITPM) {
		f.check(state.ITPM, used, c.Input, q.MaxITPM, r, p)
	}
	if used := r.sums.Total().Output; looks || !fits(used, c.Output, q.MaxOTPM) {
		f.check(state.OTPM, used, c.Output, q.MaxOTPM, r, p)
	}
	if used := r.sums.Total().Total(); looks || !fits(used, total, q.MaxTPM) {
		f.check(state.TPM, used, total, q.MaxTPM, r, p)
	}
	d.Code, d.Reason, d.OverBudget = f.code, f.reason, f.budget != ""
	switch {
	case f.code == "": // slots are kept for others, and there are enough
		return d.allow()
	case f.tooMuch != "":
		d.Never, d.Reason = true, f.tooMuch
		return 0
	case !f.event || cools: // the cooldown is there to be waited for, whatever comes then
		d.RetryAfter = f.wait
	}
	f.tellLongest(d)
	return f.wait
}

// tellLongest adds the limit to the reason that RetryAfter belongs to, or else a used-up budget.
func (f *refusal) tellLongest(d *Decision) {
	last := f.longest
	if d.RetryAfter == 0 {
		last = f.budget
	}
	if last != "" && last != f.reason {
		d.Reason = errtext.Longest(f.reason, "", last)
	}
}

// allow lets a request pass, which deny has not found to be denied.
func (d *Decision) allow() (wait time.Duration) {
	d.Allowed, d.Code, d.Reason = true, DecisionAllowed, "within the quota"
	return 0
}

// refusal collects the denials of the limits.
type refusal struct {
	code    DecisionCode // of the first; empty for none
	reason  string
	wait    time.Duration // the longest
	longest string        // the reason of that
	last    string        // the reason of the last limit that denies
	budget  string        // the reason of the last limit of spend that denies; empty for none
	event   bool          // no time says when one of them ends
	tooMuch string        // the first of them that the request alone exceeds; empty for none
}

// refuse names the refusal, unless an earlier limit has named it.
func (f *refusal) refuse(code DecisionCode, reason string) {
	if f.last = reason; f.code == "" {
		f.code, f.reason = code, reason
	}
}

// until says how long the last limit denies.
func (f *refusal) until(leaves time.Duration) {
	if leaves > f.wait {
		f.wait, f.longest = leaves, f.last
	}
}

// never says that the request alone exceeds a limit.
func (f *refusal) never(tooMuch string) { f.tooMuch = cmp.Or(f.tooMuch, tooMuch) }

// checkPlace denies a model without room for its state.
func (f *refusal) checkPlace(r *view) {
	if !r.full {
		return
	}
	f.refuse(DecisionTooManyModels, tooManyModels)
	if r.freeAt == never {
		f.event = true
	} else {
		f.until(time.Duration(r.freeAt - r.instant))
	}
}

// checkSlots checks the calls in flight.
func (f *refusal) checkSlots(r *view, q *ModelQuota, c *cost) {
	if fits(tokens.AddSaturated(r.slots.calls(), r.slotsKept), c.Requests, q.MaxInFlight) && !r.shareless {
		return
	}
	slots := &state.Limits[state.InFlight]
	if fits(r.slots.calls(), c.Requests, q.MaxInFlight) && !r.shareless {
		f.refuse(DecisionCode(slots.Code), slots.Kept)
		f.until(r.keptFor)
		return
	}
	f.refuse(DecisionCode(slots.Code), slots.UsedUp)
	f.event = true
	if c.Requests > r.mostSlots(q) && !r.shareless {
		f.never(slots.TooLarge)
	}
}

// mostSlots returns how many calls may ever be in flight.
func (r *view) mostSlots(q *ModelQuota) int {
	if r.found != nil && r.found.Bounds().CeilingSlots > 0 {
		return min(cmp.Or(r.slotLimit, math.MaxInt), r.found.Bounds().CeilingSlots)
	}
	return q.MaxInFlight
}

// check looks at the limit of one dimension, of which some is used and more is asked for, and at
// its bucket, if it has one.
func (f *refusal) check(of state.Dimension, used, more, limit int, r *view, p *pace.Buckets) {
	n := &state.Limits[of]
	switch {
	case r.fits(of, used, more, limit):
	case more > limit:
		f.refuse(DecisionCode(n.Code), n.UsedUp)
		f.never(n.TooLarge)
	default:
		reason := n.UsedUp
		if used <= limit-more {
			reason = r.othersOf(of, limit-more-used)
		}
		f.refuse(DecisionCode(n.Code), reason)
		f.until(r.fitsIn(of, limit-more))
	}
	if p == nil {
		return
	}
	if opens := p.Opens(unitOf(of), more, r.instant); opens > 0 {
		f.refuse(DecisionCode(n.Code), n.Pace)
		f.until(opens)
	}
}

// othersOf says why the room that this limiter has left of a limit is not there: others of the
// account use it, or a reserve keeps it for other classes.
func (r *view) othersOf(of state.Dimension, left int) string {
	if r.keeps && (r.reported == nil || r.reported[of].Amount <= left) {
		return state.Limits[of].Kept
	}
	return state.Limits[of].External
}

const (
	tooManyModels    = "too many models without a quota of their own are in use"
	tooManyNewModels = "more models without a quota of their own than MaxModels allows"
)

const unknownZone = `invalid quota: DayZone (day_zone) is not a known time zone; without a time zone database on the machine, import _ "time/tzdata"`

// fitsIn is how long it takes until at most budget of a dimension is used, by this limiter and by
// others.
func (r *view) fitsIn(of state.Dimension, budget int) time.Duration {
	if r.external == nil || r.external[of].Amount == 0 {
		return r.usedFitsIn(of, budget)
	}
	u := &r.external[of]
	left := time.Duration(u.Until - r.instant)
	if state.Limits[of].Window == state.Day {
		left = time.Duration(u.Until - r.wall)
	}
	if u.Amount <= budget {
		if wait := r.usedFitsIn(of, budget-u.Amount); wait < left {
			return wait
		}
	}
	return max(left, r.usedFitsIn(of, budget))
}

// usedFitsIn is how long it takes until at most budget of a dimension is used by this limiter.
func (r *view) usedFitsIn(of state.Dimension, budget int) time.Duration {
	switch of {
	case state.RPM:
		if i := r.requests.Len() - 1 - budget; i >= 0 {
			return r.leavesIn(r.requests.When(i))
		}
	case state.RPD, state.TPD:
		if r.usedOf(of) > budget {
			return time.Duration(r.period.End - r.wall)
		}
	default:
		return r.tokensFitIn(state.Limits[of].Tokens, budget)
	}
	return 0
}

// leavesIn is how long a charge of the given instant still counts. A charge counts up to and
// including the age of span.
func (r *view) leavesIn(charged int64) time.Duration {
	return time.Duration(charged + r.span + 1 - r.instant)
}

// tokensFitIn is how long it takes until at most budget tokens count.
func (r *view) tokensFitIn(of tokens.Kind, budget int) time.Duration {
	if i := r.sums.LastOver(of, budget); i >= 0 {
		return r.leavesIn(r.tokens.When(i))
	}
	return 0
}
