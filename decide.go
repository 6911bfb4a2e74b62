package ratelimit

import (
	"time"

	"dappco.re/go/core/go-ratelimit/internal/external"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/tokens"
)

// DecisionCode says in one word why a request is allowed or denied. The values
// are stable: programs may store and compare them.
type DecisionCode string

const (
	// DecisionAllowed: the request fits every limit of its model.
	DecisionAllowed DecisionCode = "ok"
	// DecisionUnknownModel: allowed, because the model has no quota.
	DecisionUnknownModel DecisionCode = "unknown_model"
	// DecisionUnlimited: allowed, because the model's quota is all zero.
	DecisionUnlimited DecisionCode = "unlimited"
	// DecisionInvalidTokens: denied, because the estimate is negative.
	DecisionInvalidTokens DecisionCode = "invalid_tokens"
	// DecisionInvalidQuota: denied, because the quota has a negative limit or a
	// zone that is not known.
	DecisionInvalidQuota DecisionCode = "invalid_quota"
	// DecisionTooManyModels: denied, because so many models that only the quota
	// "*" covers are in use that there is no place for another one
	// (Config.MaxModels).
	DecisionTooManyModels DecisionCode = "too_many_models"
	// DecisionQueued: denied, because others wait for the model and come first.
	DecisionQueued DecisionCode = "queued"
	// DecisionCooldown: denied until the time that Cooldown said.
	DecisionCooldown DecisionCode = "cooldown"
	// DecisionInFlightLimit: denied by the calls at once. That ends when one of
	// them is settled, so RetryAfter is zero.
	DecisionInFlightLimit DecisionCode = "in_flight_exceeded"
	// DecisionRPDLimit: denied by the requests per day.
	DecisionRPDLimit DecisionCode = "rpd_exceeded"
	// DecisionTPDLimit: denied by the tokens per day.
	DecisionTPDLimit DecisionCode = "tpd_exceeded"
	// DecisionRPMLimit: denied by the requests per minute.
	DecisionRPMLimit DecisionCode = "rpm_exceeded"
	// DecisionITPMLimit: denied by the input tokens per minute.
	DecisionITPMLimit DecisionCode = "itpm_exceeded"
	// DecisionOTPMLimit: denied by the output tokens per minute.
	DecisionOTPMLimit DecisionCode = "otpm_exceeded"
	// DecisionTPMLimit: denied by the tokens per minute.
	DecisionTPMLimit DecisionCode = "tpm_exceeded"
	// DecisionStoreError: denied with Config.FailClosed, because the shared database
	// cannot be used at present. It ends when that can be used again, so RetryAfter is
	// zero.
	DecisionStoreError DecisionCode = "store_error"
	// DecisionClosed: denied, because a limiter of a shared database was closed.
	DecisionClosed DecisionCode = "closed"
)

// Decision answers whether a request may be sent. A denial is a value, not an
// error. Decisions can be compared with ==.
type Decision struct {
	// Allowed reports whether the request may be sent now.
	Allowed bool
	// Code says why. Where several limits deny, it names the first in the order
	// cooldown, calls in flight, requests per day, tokens per day, requests per
	// minute, input, output and all tokens per minute. Whoever would come before
	// others that wait is told so in place of that.
	Code DecisionCode
	// Reason says the same for people. With Never it says what can never fit, which
	// may be another limit than the first that denies.
	Reason string
	// RetryAfter is how long to wait before the same request passes, if nothing
	// else is charged or given back meanwhile and nobody waits before it: it does
	// after exactly this long, and not a nanosecond earlier. It looks at all
	// limits that deny, not just at the one that Code names. Zero when the request
	// is allowed, can never pass, or waits for a call in flight to end.
	RetryAfter time.Duration
	// Stats is what the model had used, and may use, at that moment, before what
	// the request itself charges.
	Stats ModelStats
	// Never reports that waiting does not help: the request is larger than a
	// limit, its estimate is negative, the quota is invalid, or the limiter is closed.
	Never bool
	// Model is the model that was asked for. Of several it is the one that
	// denied, and empty when all were allowed.
	Model string
}

// cost is what a request charges: requests and the tokens of all of them.
type cost struct {
	requests int
	tokens.Count
}

// of returns the cost in a dimension.
func (c *cost) of(d state.Dimension) int {
	if d == state.RPM || d == state.RPD {
		return c.requests
	}
	return c.Count.Of(state.Limits[d].Tokens)
}

// reading is what a model has used at one instant. Its window is in order:
// nothing in it is due to leave.
type reading struct {
	*window
	gate     *gate           // nil when nothing is in flight and nobody waits
	instant  int64           // now, on the limiter's time line
	wall     int64           // now, in UnixNano
	span     int64           // how long a charge of the minute counts
	cool     int64           // in UnixNano: nothing is admitted before
	full     bool            // there is no place for the state of another model
	freeAt   int64           // with full: when there will be, as far as is known
	used     int64           // until this instant all minutes count as used
	badZone  bool            // the quota's zone is not known
	external *external.Usage // nil for none
}

// unused is the window of a model that was never used. It is never changed.
var unused = &window{stats: &UsageStats{}, leaveAt: never}

// modelStats fills in s, which is large enough for copies of it to show.
func (r *reading) modelStats(s *ModelStats, q *ModelQuota) {
	s.limits(q)
	s.RPM, s.RPD, s.TPD = r.requests.Len(), r.dayCount(), r.dayTokens()
	s.TPM, s.ITPM, s.OTPM = r.sums.Total().Total(), r.sums.Total().Input, r.sums.Total().Output
	if s.RPD|s.TPD != 0 {
		s.DayStart = r.dayShown
	}
	if r.gate != nil || r.cool > r.wall {
		r.present(s)
	}
}

// present fills in what is not of the window.
func (r *reading) present(s *ModelStats) {
	s.InFlight, s.Waiting = r.gate.calls(), r.gate.waiting()
	if r.cool > r.wall {
		s.CooldownUntil = time.Unix(0, r.cool)
	}
}

// fits reports whether more fits a limit of which some is used. A negative limit
// fits nothing. more is not negative, and the difference is taken only where it
// does not overflow.
func fits(used, more, limit int) bool {
	return limit == 0 || more <= limit && used <= limit-more
}

// fits reports whether more fits a limit of which some is used here and some by others.
func (r *reading) fits(of state.Dimension, used, more, limit int) bool {
	return fits(used, more, limit) && (r.external == nil || limit == 0 || r.external[of].Amount <= limit-more-used)
}

// leaves reports whether a request that fits what is used fits also beside the
// external usage.
func (r *reading) leaves(q *ModelQuota, c *cost) bool {
	for of := range state.InFlight {
		if !r.fits(of, r.usedOf(of), c.of(of), *q.limit(of)) {
			return false
		}
	}
	return true
}

// admits is the decision of a quota without its explanation.
func (w *window) admits(q *ModelQuota, g *gate, c *cost) bool {
	return fits(w.dayCount(), c.requests, q.MaxRPD) &&
		fits(w.requests.Len(), c.requests, q.MaxRPM) &&
		(q.MaxTPM == 0 || fits(w.sums.Total().Total(), c.Total(), q.MaxTPM)) &&
		(q.MaxITPM|q.MaxOTPM|q.MaxTPD|q.MaxInFlight == 0 || w.admitsRest(q, g, c))
}

// admitsRest looks at the limits that few models have.
func (w *window) admitsRest(q *ModelQuota, g *gate, c *cost) bool {
	return fits(w.sums.Total().Input, c.Input, q.MaxITPM) &&
		fits(w.sums.Total().Output, c.Output, q.MaxOTPM) &&
		fits(w.dayTokens(), c.Total(), q.MaxTPD) &&
		fits(g.calls(), c.requests, q.MaxInFlight)
}

// decide is the whole decision: from a quota, what is used of it and a request,
// to the answer. It changes nothing and reads no clock. It fills in d, because a
// Decision is large enough for copies of it to show, and returns how long the
// limits alone that end with time deny the request.
func decide(d *Decision, q *ModelQuota, known bool, r *reading, c *cost) (wait time.Duration) {
	switch {
	case c.Input < 0 || c.Output < 0:
		d.Never = true
		d.Code, d.Reason = DecisionInvalidTokens, "invalid tokens: the estimate is negative"
	case r.cool > r.wall:
		wait = deny(d, q, r, c)
	case !known:
		d.Allowed = true
		d.Code, d.Reason = DecisionUnknownModel, "no quota for this model"
	case q.unlimited() && !r.badZone:
		d.Allowed = true
		d.Code, d.Reason = DecisionUnlimited, "the model is unlimited"
	case r.admits(q, r.gate, c) && !r.badZone && !r.full && (r.used == 0 || !q.limitsMinute()) &&
		(r.external == nil || r.leaves(q, c)) && (q.Burst == 0 || r.admitsNow(q, c, r.instant)):
		d.Allowed = true
		d.Code, d.Reason = DecisionAllowed, "within the quota"
	default:
		wait = deny(d, q, r, c)
	}
	return wait
}

// queue denies a request that would come before those who wait.
func (d *Decision) queue() {
	if !d.Never {
		d.Allowed, d.Code, d.Reason = false, DecisionQueued, "others wait for the model and come first"
	}
}

// Decide answers like CanSend, with the reason, the exact time to wait and what
// is used at present. It records nothing. A negative estimate is denied; an
// unknown model is allowed. Decide is safe for concurrent use.
func (rl *RateLimiter) Decide(model string, estimatedTokens int) (d Decision) {
	rl.decide(&d, model, &cost{1, tokens.Count{Input: estimatedTokens}})
	return d
}

// Request is a call that is to be made, by its estimate. Zero tokens are none;
// negative ones are refused.
type Request struct {
	Model        string // as in Reserve
	PromptTokens int    // input tokens
	OutputTokens int    // the most that the answer may take, or what is expected
}

func (req *Request) cost() cost {
	return cost{1, tokens.Count{Input: req.PromptTokens, Output: req.OutputTokens}}
}

// DecideRequest is Decide with prompt and output tokens apart, for models that
// limit them apart. It is safe for concurrent use.
func (rl *RateLimiter) DecideRequest(req Request) (d Decision) {
	a := req.cost()
	rl.decide(&d, req.Model, &a)
	return d
}

func (rl *RateLimiter) decide(d *Decision, model string, c *cost) {
	var q ModelQuota
	var r reading
	rl.ledger.fresh()
	rl.mu.RLock()
	name, known := rl.findRLocked(model, &q)
	ok := rl.readRLocked(name, &q, &r)
	if ok {
		r.modelStats(&d.Stats, &q)
		decide(d, &q, known, &r, c)
		if r.gate.waiting() > 0 {
			d.queue()
		}
	}
	rl.mu.RUnlock()
	if !ok {
		rl.decideSlowly(d, model, c)
	}
	rl.ledger.overrule(d)
	d.Model = model
}

// decideSlowly decides where a window may have to be brought in order first. It
// leaves the window alone where the answer does not depend on it.
func (rl *RateLimiter) decideSlowly(d *Decision, model string, c *cost) {
	var q ModelQuota
	var r reading
	rl.mu.Lock()
	defer rl.mu.Unlock()
	name, known := rl.findRLocked(model, &q)
	r.instant = rl.clock.Sync()
	if !known || q.unlimited() || c.Input < 0 || c.Output < 0 {
		rl.countLocked(name, &q, &r, &d.Stats)
	} else {
		rl.readLocked(name, &q, known, &r)
		r.modelStats(&d.Stats, &q)
	}
	decide(d, &q, known, &r, c)
	if r.gate.waiting() > 0 {
		d.queue()
	}
}
