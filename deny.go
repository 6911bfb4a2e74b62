package ratelimit

import (
	"cmp"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/tokens"
)

// denial is how a limit denies. The texts are constants because a denial must not
// allocate: a busy agent asks often.
type denial struct {
	code    DecisionCode
	usedUp  string
	others  string // why, where what the provider says of others is what denies
	tooMuch string
	pace    string // why, where the minute has room and the burst does not
}

var denials = [dimensions]denial{
	ofRPM: {DecisionRPMLimit, "requests per minute are used up",
		"the provider says that fewer requests per minute are left",
		"more requests at once than there are in a minute",
		"pace: the requests of a minute are spread, and the burst is used up"},
	ofTPM: {DecisionTPMLimit, "tokens per minute are used up",
		"the provider says that fewer tokens per minute are left",
		"the request alone is larger than the tokens per minute",
		"pace: the tokens of a minute are spread, and the burst is used up"},
	ofITPM: {DecisionITPMLimit, "input tokens per minute are used up",
		"the provider says that fewer input tokens per minute are left",
		"the request alone is larger than the input tokens per minute",
		"pace: the input tokens of a minute are spread, and the burst is used up"},
	ofOTPM: {DecisionOTPMLimit, "output tokens per minute are used up",
		"the provider says that fewer output tokens per minute are left",
		"the request alone is larger than the output tokens per minute",
		"pace: the output tokens of a minute are spread, and the burst is used up"},
	ofRPD: {DecisionRPDLimit, "requests per day are used up",
		"the provider says that fewer requests per day are left",
		"more requests at once than there are in a day", ""},
	ofTPD: {DecisionTPDLimit, "tokens per day are used up",
		"the provider says that fewer tokens per day are left",
		"the request alone is larger than the tokens per day", ""},
}

var slotsDenial = denial{code: DecisionInFlightLimit, usedUp: "as many calls are in flight as may be",
	tooMuch: "more requests at once than may be in flight"}

// deny fills in why and for how long, by the limits in the order in which they deny: the first
// names it, the longest wait counts, and the first that the request alone exceeds says that it
// can never pass. It returns how long the limits deny that end with time.
func deny(d *Decision, q *ModelQuota, r *reading, c *cost) (wait time.Duration) {
	if reason, bad := q.invalid(); bad || r.badZone {
		d.Never = true
		d.Code, d.Reason = DecisionInvalidQuota, cmp.Or(reason, unknownZone)
		return 0
	}
	var f refusal
	cools := r.cool > r.wall
	if cools {
		f.refuse(DecisionCooldown, "the model is in a cooldown")
		f.until(time.Duration(r.cool - r.wall))
	}
	f.checkPlace(r)
	f.checkSlots(r, q, c)
	p := r.paceOf(q)
	f.check(ofRPD, r, q, c, nil)
	f.check(ofTPD, r, q, c, nil)
	if r.used != 0 && q.limitsMinute() {
		f.refuse(q.minuteCode(), "the database was lost, so the minute counts as used")
		f.until(time.Duration(r.used - r.instant))
	}
	f.check(ofRPM, r, q, c, p)
	f.check(ofITPM, r, q, c, p)
	f.check(ofOTPM, r, q, c, p)
	f.check(ofTPM, r, q, c, p)
	d.Code, d.Reason = f.code, f.reason
	switch {
	case f.tooMuch != "":
		d.Never, d.Reason = true, f.tooMuch
		return 0
	case !f.event || cools: // the cooldown is there to be waited for, whatever comes then
		d.RetryAfter = f.wait
	}
	return f.wait
}

// refusal puts together what the limits deny.
type refusal struct {
	code    DecisionCode // of the first; empty for none
	reason  string
	wait    time.Duration // the longest
	event   bool          // no time says when one of them ends
	tooMuch string        // the first of them that the request alone exceeds; empty for none
}

// refuse names the refusal, unless a limit before has named it.
func (f *refusal) refuse(code DecisionCode, reason string) {
	if f.code == "" {
		f.code, f.reason = code, reason
	}
}

func (f *refusal) until(leaves time.Duration) { f.wait = max(f.wait, leaves) }

// never says that the request alone exceeds a limit.
func (f *refusal) never(tooMuch string) { f.tooMuch = cmp.Or(f.tooMuch, tooMuch) }

// checkPlace denies a model for whose state there is no place.
func (f *refusal) checkPlace(r *reading) {
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

// checkSlots looks at the calls in flight.
func (f *refusal) checkSlots(r *reading, q *ModelQuota, c *cost) {
	if fits(r.gate.calls(), c.requests, q.MaxInFlight) {
		return
	}
	f.refuse(slotsDenial.code, slotsDenial.usedUp)
	f.event = true
	if c.requests > q.MaxInFlight {
		f.never(slotsDenial.tooMuch)
	}
}

// check looks at the limit of one dimension, and at its bucket where p has one.
func (f *refusal) check(of dimension, r *reading, q *ModelQuota, c *cost, p *pace) {
	used, more, limit := r.usedOf(of), c.of(of), *q.limitOf(of)
	n := &denials[of]
	switch {
	case r.fits(of, used, more, limit):
	case more > limit:
		f.refuse(n.code, n.usedUp)
		f.never(n.tooMuch)
	default:
		reason := n.usedUp
		if used <= limit-more {
			reason = n.others
		}
		f.refuse(n.code, reason)
		f.until(r.fitsIn(of, limit-more))
	}
	if p == nil {
		return
	}
	if opens := p.opens(of, more, r.instant); opens > 0 {
		f.refuse(n.code, n.pace)
		f.until(opens)
	}
}

const tooManyModels = "too many models without a quota of their own are in use"

const unknownZone = `invalid quota: DayZone (day_zone) is not a known time zone; without a time zone database on the machine, import _ "time/tzdata"`

// fitsIn is how long it takes until at most budget of a dimension is used, beside what
// is held back of it as long as it is.
func (r *reading) fitsIn(of dimension, budget int) time.Duration {
	if r.held == nil || r.held[of].amount == 0 {
		return r.usedFitsIn(of, budget)
	}
	h := &r.held[of]
	left := time.Duration(h.until - r.instant)
	if of.daily() {
		left = time.Duration(h.until - r.wall)
	}
	if h.amount <= budget {
		if wait := r.usedFitsIn(of, budget-h.amount); wait < left {
			return wait
		}
	}
	return max(left, r.usedFitsIn(of, budget))
}

// usedFitsIn is how long it takes until at most budget of a dimension is used.
func (r *reading) usedFitsIn(of dimension, budget int) time.Duration {
	switch of {
	case ofRPM:
		if i := r.requests.Len() - 1 - budget; i >= 0 {
			return r.leavesIn(r.requests.When(i))
		}
	case ofRPD, ofTPD:
		if r.usedOf(of) > budget {
			return time.Duration(r.dayEnd - r.wall)
		}
	default:
		return r.tokensFitIn(of.kind(), budget)
	}
	return 0
}

// leavesIn is how long it takes until a charge of the given instant is no
// longer counted. A charge is counted up to and including the age of span.
func (r *reading) leavesIn(charged int64) time.Duration {
	return time.Duration(charged + r.span + 1 - r.instant)
}

// tokensFitIn is how long it takes until at most budget tokens are counted.
func (r *reading) tokensFitIn(of tokens.Kind, budget int) time.Duration {
	if i := r.sums.LastOver(of, budget); i >= 0 {
		return r.leavesIn(r.tokens.When(i))
	}
	return 0
}
