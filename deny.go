package ratelimit

import (
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

// deny fills in why and for how long.
func deny(d *Decision, q *ModelQuota, r *reading, c *cost) (wait time.Duration) {
	if field, _, _, bad := q.invalid(); bad || r.badZone {
		d.Never = true
		d.Code, d.Reason = DecisionInvalidQuota, invalidQuotaReasons[field]
		return 0
	}
	tooLarge := ""
	by := func(n *denial, used, more, limit int) bool {
		d.Code, d.Reason = n.code, n.usedUp
		if more > limit {
			tooLarge = n.tooMuch
		} else if used <= limit-more {
			d.Reason = n.others
		}
		return more <= limit
	}
	until := func(leaves time.Duration) { wait = max(wait, leaves) }
	// Where these are set, what is used alone does not say that a request fits.
	held, pace := r.held != nil, r.paceOf(q)
	looks := held || pace != nil
	over := func(of dimension, used, more, limit int) {
		var opens time.Duration
		if pace != nil && of < paced {
			opens = pace.opens(of, more, r.instant)
		}
		if !r.fits(of, used, more, limit) {
			if by(&denials[of], used, more, limit) {
				until(r.fitsIn(of, limit-more))
			}
		} else if opens > 0 {
			d.Code, d.Reason = denials[of].code, denials[of].pace
		}
		until(opens)
	}
	tokens := c.Total()

	// In the reverse of the order of checks, so that the first one names it.
	if used := r.sums.Total().Total(); looks || !fits(used, tokens, q.MaxTPM) {
		over(ofTPM, used, tokens, q.MaxTPM)
	}
	if used := r.sums.Total().Output; looks || !fits(used, c.Output, q.MaxOTPM) {
		over(ofOTPM, used, c.Output, q.MaxOTPM)
	}
	if used := r.sums.Total().Input; looks || !fits(used, c.Input, q.MaxITPM) {
		over(ofITPM, used, c.Input, q.MaxITPM)
	}
	if used := r.requests.Len(); looks || !fits(used, c.requests, q.MaxRPM) {
		over(ofRPM, used, c.requests, q.MaxRPM)
	}
	if r.used != 0 && q.limitsMinute() {
		d.Code, d.Reason = q.minuteCode(), "the database was lost, so the minute counts as used"
		until(time.Duration(r.used - r.instant))
	}
	if used := r.dayTokens(); held || !fits(used, tokens, q.MaxTPD) {
		over(ofTPD, used, tokens, q.MaxTPD)
	}
	if used := r.dayCount(); held || !fits(used, c.requests, q.MaxRPD) {
		over(ofRPD, used, c.requests, q.MaxRPD)
	}
	slots := true
	if used := r.gate.calls(); !fits(used, c.requests, q.MaxInFlight) {
		by(&slotsDenial, used, c.requests, q.MaxInFlight)
		slots = false
	}
	if r.full {
		d.Code, d.Reason = DecisionTooManyModels, tooManyModels
		if r.freeAt == never {
			slots = false
		} else {
			until(max(time.Duration(r.freeAt-r.instant), 0))
		}
	}
	if r.cool > r.wall {
		d.Code, d.Reason = DecisionCooldown, "the model is in a cooldown"
		until(time.Duration(r.cool - r.wall))
		slots = true
	}
	switch {
	case tooLarge != "":
		d.Never, d.Reason = true, tooLarge
		return 0
	case slots:
		d.RetryAfter = wait
	}
	return wait
}

const tooManyModels = "too many models without a quota of their own are in use"

var invalidQuotaReasons = map[string]string{
	"MaxRPM":      "invalid quota: MaxRPM (max_rpm) is negative",
	"MaxTPM":      "invalid quota: MaxTPM (max_tpm) is negative",
	"MaxRPD":      "invalid quota: MaxRPD (max_rpd) is negative",
	"MaxITPM":     "invalid quota: MaxITPM (max_itpm) is negative",
	"MaxOTPM":     "invalid quota: MaxOTPM (max_otpm) is negative",
	"MaxTPD":      "invalid quota: MaxTPD (max_tpd) is negative",
	"MaxInFlight": "invalid quota: MaxInFlight (max_in_flight) is negative",
	"Burst":       "invalid quota: Burst (burst) is negative",
	"":            `invalid quota: DayZone (day_zone) is not a known time zone; without a time zone database on the machine, import _ "time/tzdata"`,
}

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
