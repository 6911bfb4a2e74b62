package ratelimit

import (
	"time"

	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/tokens"
)

// DecisionCode says in one word why a request is allowed or denied. The values are stable:
// programs may store and compare them.
type DecisionCode string

const (
	// DecisionAllowed: the request fits every limit of its model and of the model's pools.
	DecisionAllowed DecisionCode = "ok"
	// DecisionUnknownModel: the model has no quota. It is allowed, or denied with UnknownDeny. If a
	// pool denies it, the code is that of the pool.
	DecisionUnknownModel DecisionCode = "unknown_model"
	// DecisionUnlimited: allowed, because the model's quota is all zero.
	DecisionUnlimited DecisionCode = "unlimited"
	// DecisionInvalidTokens: denied, because the estimate is negative.
	DecisionInvalidTokens DecisionCode = "invalid_tokens"
	// DecisionInvalidQuota: denied, because the quota has a field out of range.
	DecisionInvalidQuota DecisionCode = "invalid_quota"
	// DecisionTooManyModels: denied, because Config.MaxModels models without a quota of their own
	// are in use, so that there is no room for another one under the quota "*".
	DecisionTooManyModels DecisionCode = "too_many_models"
	// DecisionQueued: denied, because others wait for the model, or for one of its pools, and come
	// first.
	DecisionQueued DecisionCode = "queued"
	// DecisionCooldown: denied until the cooldown ends. Decision.Cause says why there is one.
	DecisionCooldown DecisionCode = "cooldown"
	// DecisionInFlightLimit: denied, because calls in flight are at the limit. Only the end of
	// one of them helps, so RetryAfter is zero.
	DecisionInFlightLimit DecisionCode = "in_flight_exceeded"
	// DecisionRPDLimit: denied by the requests per day.
	DecisionRPDLimit DecisionCode = "rpd_exceeded"
	// DecisionTPDLimit: denied by the tokens per day.
	DecisionTPDLimit DecisionCode = "tpd_exceeded"
	// DecisionSpendLimit: denied by the spend of the day or of the month.
	DecisionSpendLimit DecisionCode = "spend_exceeded"
	// DecisionUnpriced: denied, because spend is limited and the model has no price: see
	// Config.Unpriced. Only SetPrice helps.
	DecisionUnpriced DecisionCode = "unpriced"
	// DecisionRPMLimit: denied by the requests per minute.
	DecisionRPMLimit DecisionCode = "rpm_exceeded"
	// DecisionITPMLimit: denied by the input tokens per minute.
	DecisionITPMLimit DecisionCode = "itpm_exceeded"
	// DecisionOTPMLimit: denied by the output tokens per minute.
	DecisionOTPMLimit DecisionCode = "otpm_exceeded"
	// DecisionTPMLimit: denied by the tokens per minute.
	DecisionTPMLimit DecisionCode = "tpm_exceeded"
	// DecisionStoreError: denied with Config.FailClosed, because the shared database cannot be
	// used. Only its recovery helps, so RetryAfter is zero.
	DecisionStoreError DecisionCode = "store_error"
	// DecisionClosed: denied, because the limiter shared a database and is closed.
	DecisionClosed DecisionCode = "closed"
)

// Decision answers whether a request may be sent. A denial is a value, not an error. Decisions
// can be compared with ==.
type Decision struct {
	// Allowed reports whether the request may be sent now.
	Allowed bool `json:"allowed"`
	// Code says why. If several limits deny, it names the first in the order cooldown, calls in
	// flight, requests per day, tokens per day, spend per day and month, requests per minute,
	// input, output and all tokens per minute; a model denies before its pools. A request that
	// would jump the queue gets DecisionQueued instead.
	Code DecisionCode `json:"code"`
	// Reason says the same in words. It also names the limit that RetryAfter belongs to, where that
	// is another one ("requests per minute are used up; longest: the spend of the day is used up").
	// With Never it names the limit that the request can never fit, which may be another than the
	// first that denies.
	Reason string `json:"reason"`
	// RetryAfter is the wait after which the same request passes, and not a nanosecond earlier,
	// if nothing else is charged or given back meanwhile and nobody waits ahead of it. It covers
	// all limits that deny, not only the one that Code names. It is zero when the request is
	// allowed, can never pass, or waits for a call in flight to end.
	RetryAfter time.Duration `json:"retry_after,omitempty"`
	// Stats is the usage and the limits of the model at that moment, before the charge of the
	// request itself.
	Stats ModelStats `json:"stats"`
	// Never reports that waiting does not help: the request is larger than a limit, its estimate
	// is negative, the quota is invalid, a price is missing (DecisionUnpriced), or the limiter is
	// closed.
	Never bool `json:"never,omitempty"`
	// Model is the requested model. Of several it is the one that denied; it is empty
	// when all were allowed.
	Model string `json:"model,omitempty"`
	// Cause says why a model is in a cooldown that denies with DecisionCooldown: CauseDailyQuota,
	// CauseRateLimited, CauseOverloaded, CauseCaller, or another that the program gave to
	// CooldownFor. It is empty with every other code.
	Cause Cause `json:"cause,omitempty"`
	// OverBudget reports that spend is among the limits that deny, whichever Code names. Then the
	// error of a call that waits matches ErrBudget.
	OverBudget bool `json:"over_budget,omitempty"`
	// Pool is the pool that denied, where the model itself did not. Code, Reason, Never and Cause
	// are then those of the pool, and Stats is still the model's: see [RateLimiter.PoolStats].
	Pool string `json:"pool,omitempty"`
}

// The reasons that are also given without a decision.
const (
	invalidTokens = "invalid tokens: the estimate is negative"
	limiterClosed = "the limiter is closed"
)

// cost is the charge of a request, or of several.
type cost = state.Cost

// fits reports whether more fits a limit of which some is used. A negative limit
// fits nothing. more is not negative, and the difference is taken only where it
// does not overflow.
func fits(used, more, limit int) bool {
	return limit == 0 || more <= limit && used <= limit-more
}

// fits reports whether more fits a limit of which some is used here and some by others.
func (r *view) fits(of state.Dimension, used, more, limit int) bool {
	return fits(used, more, limit) && (r.external == nil || limit == 0 || r.external[of].Amount <= limit-more-used)
}

// leaves reports whether a request that fits the own usage also fits beside the external usage.
func (r *view) leaves(q *ModelQuota, c *cost) bool {
	for of := range state.InFlight {
		if !r.fits(of, r.usedOf(of), c.Of(of), *q.limit(of)) {
			return false
		}
	}
	return true
}

// admits is the decision of a quota without its explanation.
func (w *window) admits(q *ModelQuota, g *slots, c *cost) bool {
	return fits(w.dayCount(), c.Requests, q.MaxRPD) &&
		fits(w.requests.Len(), c.Requests, q.MaxRPM) &&
		(q.MaxTPM == 0 || fits(w.sums.Total().Total(), c.Total(), q.MaxTPM)) &&
		(q.MaxITPM|q.MaxOTPM|q.MaxTPD|q.MaxInFlight == 0 || w.admitsRest(q, g, c))
}

// admitsRest checks the limits that few models have.
func (w *window) admitsRest(q *ModelQuota, g *slots, c *cost) bool {
	return fits(w.sums.Total().Input, c.Input, q.MaxITPM) &&
		fits(w.sums.Total().Output, c.Output, q.MaxOTPM) &&
		fits(w.dayTokens(), c.Total(), q.MaxTPD) &&
		fits(g.calls(), c.Requests, q.MaxInFlight)
}

// decide makes the whole decision, from a quota, its usage and a request. It changes nothing and
// reads no clock. It fills in d, because a Decision is large enough for copies of it to show, and
// returns how long the limits that end with time deny the request.
func decide(d *Decision, q *ModelQuota, known bool, r *view, c *cost) (wait time.Duration) {
	switch {
	case c.Input < 0 || c.Output < 0:
		d.Never = true
		d.Code, d.Reason = DecisionInvalidTokens, invalidTokens
	case r.cool > r.wall:
		wait = deny(d, q, r, c)
	case !known:
		d.Allowed = true
		d.Code, d.Reason = DecisionUnknownModel, "no quota for this model"
	case q.unlimited() && !r.badZone:
		d.Allowed = true
		d.Code, d.Reason = DecisionUnlimited, "the model is unlimited"
	case r.admits(q, r.slots, c) && !r.badZone && !r.full && !r.shareless && (r.used == 0 || !q.limitsMinute()) &&
		(r.external == nil || r.leaves(q, c)) && (q.Burst == 0 || r.admitsNow(q, c, r.instant)) &&
		(!r.adapts || r.found != nil && r.found.Opens() <= r.instant) && r.slotsKept == 0 && (!q.limitsSpend() || r.affords(q, c)):
		d.Allowed = true
		d.Code, d.Reason = DecisionAllowed, "within the quota"
	default:
		wait = deny(d, q, r, c)
	}
	return wait
}

// queue denies a request that would jump the queue.
func (d *Decision) queue() {
	if !d.Never {
		d.Allowed, d.Cause, d.Pool = false, "", ""
		d.Code, d.Reason = DecisionQueued, "others wait for the model and come first"
	}
}

// Decide answers like CanSend, with the reason, the exact wait and the present usage. It records
// nothing. A negative estimate is denied; an unknown model is allowed. Decide is safe for
// concurrent use.
func (rl *RateLimiter) Decide(model string, estimatedTokens int) (d Decision) {
	rl.decide(&d, model, &cost{Requests: 1, Count: tokens.Count{Input: estimatedTokens}}, "")
	return d
}

// Request is a planned call and its estimate. Negative tokens are refused.
type Request struct {
	Model        string // as in Reserve
	PromptTokens int    // input tokens
	OutputTokens int    // the maximum or the expected size of the answer
	// BilledOutput is the most output tokens that the provider may bill, where that is more than
	// OutputTokens. It counts to limits of spend alone. It is for a cap that is far above the
	// expected size, and for providers that bill output and do not limit it. Zero, the default,
	// means OutputTokens.
	BilledOutput int

	// Class is the name of the call's class in Config.Classes. Empty takes the class of
	// [WithClass]; a name that is not in Config.Classes is the class "". Of several requests in one
	// call, the first class named is that of all of them.
	Class string
	// Flow names the tenant, user or session of the call: the flows of a class take turns while
	// they wait. Empty takes the flow of [WithFlow]; calls without either are of one flow.
	Flow string
}

func (req *Request) cost() cost {
	return cost{Requests: 1, Count: tokens.Count{Input: req.PromptTokens, Output: req.OutputTokens}, Billed: req.BilledOutput}
}

// DecideRequest is Decide with separate prompt and output tokens, for models that limit them
// separately. It is safe for concurrent use.
func (rl *RateLimiter) DecideRequest(req Request) (d Decision) {
	c := req.cost()
	rl.decide(&d, req.Model, &c, req.Class)
	return d
}

func (rl *RateLimiter) decide(d *Decision, model string, c *cost, class string) {
	var r view
	rl.ledger.fresh()
	rl.mu.RLock()
	name := model
	q, known := rl.Quotas[name] // findRLocked in line, as in CanSend
	if !known || rl.naming.Aliases != nil {
		name, known = rl.resolveRLocked(model, &q)
	}
	ok := rl.reserves == nil && rl.readRLocked(name, &q, &r)
	if ok {
		if r.window == unused {
			rl.checkAgeRLocked(name)
		}
		r.modelStats(&d.Stats, &q)
		r.class = class
		if rl.pricing != nil {
			rl.mostRLocked(c, name, model)
		}
		wait := decide(d, &q, known, &r, c)
		if !known {
			rl.judgeUnknownRLocked(d, model)
		}
		if rl.pools.count > 0 {
			ok = rl.decidePoolsRLocked(d, name, model, &r, c, wait)
		}
		if r.slots.hasLine() && r.slots.queuesClass(class) {
			d.queue()
		}
	}
	rl.mu.RUnlock()
	if !ok {
		*d = Decision{}
		rl.decideSlowly(d, model, c, class)
	}
	rl.ledger.overrule(d)
	d.Model = model
}

// decideSlowly decides where a window may have to be brought in order first. It
// leaves the window alone where the answer does not depend on it.
func (rl *RateLimiter) decideSlowly(d *Decision, model string, c *cost, class string) {
	var q ModelQuota
	var r view
	rl.mu.Lock()
	defer rl.mu.Unlock()
	name, known := rl.findRLocked(model, &q)
	r.instant, r.class = rl.clock.Sync(), class
	rl.checkAgeRLocked(name)
	if !known || q.unlimited() || c.Input < 0 || c.Output < 0 {
		rl.countLocked(name, &q, &r, &d.Stats)
	} else {
		rl.readLocked(name, &q, known, &r)
		r.modelStats(&d.Stats, &q)
		if rl.reserves != nil {
			r.keepLocked(rl, &q, c, class, false)
		}
	}
	if rl.pricing != nil {
		rl.mostRLocked(c, name, model)
	}
	wait := decide(d, &q, known, &r, c)
	if !known {
		rl.judgeUnknownRLocked(d, model)
	}
	if rl.pools.count > 0 {
		rl.decidePoolsLocked(d, name, model, &r, c, wait, false)
	}
	if r.slots.queues(class) {
		d.queue()
	}
}
