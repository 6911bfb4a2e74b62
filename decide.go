package ratelimit

import (
	"cmp"
	"context"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/clock"
	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/verdict"
)

// DecisionCode says in one word why a request is allowed or denied. Programs may store the values.
type DecisionCode string

const (
	DecisionAllowed DecisionCode = "ok" // the request fits every limit of its model and of the model's pools
	// DecisionUnknownModel: the model has no quota. It is allowed, or denied with UnknownDeny. If a
	// pool denies it, the code is that of the pool.
	DecisionUnknownModel  DecisionCode = "unknown_model"
	DecisionUnlimited     DecisionCode = "unlimited"      // allowed, because the model's quota is all zero
	DecisionInvalidTokens DecisionCode = "invalid_tokens" // denied, because the estimate is negative
	DecisionInvalidQuota  DecisionCode = "invalid_quota"  // denied, because the quota has a field out of range
	// DecisionTooManyModels: denied, because Config.MaxModels models without a quota of their own
	// are in use, so that there is no room for another one under the quota "*". RetryAfter is until
	// the first place may open.
	DecisionTooManyModels DecisionCode = "too_many_models"
	DecisionQueued        DecisionCode = "queued"   // denied, because others wait for the model, or for one of its pools, and come first
	DecisionCooldown      DecisionCode = "cooldown" // denied until the cooldown ends; Decision.Cause says why there is one
	// DecisionInFlightLimit: denied by the calls in flight, so only the end of one helps.
	DecisionInFlightLimit DecisionCode = "in_flight_exceeded"
	DecisionRPDLimit      DecisionCode = "rpd_exceeded"              // denied by the requests per day
	DecisionTPDLimit      DecisionCode = "tpd_exceeded"              // denied by the tokens per day
	DecisionSpendLimit    DecisionCode = "spend_exceeded"            // denied by the spend of ten minutes, the day or the month
	DecisionMonthLimit    DecisionCode = "tokens_per_month_exceeded" // denied by the tokens per month
	// DecisionUnpriced: denied for want of a price where spend is limited (Config.Unpriced). Only
	// SetPrice helps.
	DecisionUnpriced  DecisionCode = "unpriced"
	DecisionRPMLimit  DecisionCode = "rpm_exceeded"  // denied by the requests per minute
	DecisionITPMLimit DecisionCode = "itpm_exceeded" // denied by the input tokens per minute
	DecisionOTPMLimit DecisionCode = "otpm_exceeded" // denied by the output tokens per minute
	DecisionTPMLimit  DecisionCode = "tpm_exceeded"  // denied by the tokens per minute
	// DecisionStoreError: denied, because the shared database or the store cannot be used, with
	// Config.FailClosed, or in a process without a share. RetryAfter is zero. With Never, more
	// requests were made together than a shared quota takes.
	DecisionStoreError DecisionCode = "store_error"
	DecisionClosed     DecisionCode = "closed" // denied, because the limiter shared a database or a store and is closed
)

// Decision answers whether a request may be sent. A denial is no error. Decisions compare with ==.
type Decision struct {
	Allowed bool `json:"allowed"` // whether the request may be sent now
	// Code says why. If several limits deny, it names the first in the order cooldown, calls in
	// flight, requests per day, tokens per day, spend, tokens per month, requests per minute,
	// input, output and all tokens per minute; a model denies before its pools. A request that
	// would jump the queue gets DecisionQueued instead.
	Code DecisionCode `json:"code"`
	// Reason says the same in words. It also names the limit that RetryAfter belongs to, where that
	// is another one ("requests per minute are used up; longest: the spend of the day is used up").
	// With Never it names the limit that the request can never fit.
	Reason string `json:"reason"`
	// RetryAfter is the wait after which the same request passes, and not a nanosecond earlier,
	// if nothing else is charged or given back meanwhile and nobody waits ahead of it. It covers
	// all limits that deny, not only the one that Code names. It is zero when the request is
	// allowed, can never pass, or waits for a call in flight to end.
	RetryAfter time.Duration `json:"retry_after,omitempty"`
	// Stats is the usage and the limits of the model, before the charge of the request itself.
	Stats ModelStats `json:"stats"`
	// Never reports that waiting does not help: the request is larger than a limit, its estimate is
	// negative, the quota is invalid, a price is missing, or the limiter is closed.
	Never bool `json:"never,omitempty"`
	// Model is the requested model; of several the one that denied, "" when all were allowed.
	Model string `json:"model,omitempty"`
	// Cause says why a model is in a cooldown, with DecisionCooldown: one of the constants, or what
	// the program gave to CooldownFor. It is empty with every other code.
	Cause Cause `json:"cause,omitempty"`
	// OverBudget reports that spend is among the limits that deny, whichever Code names. Then the
	// error of a call that waits matches ErrBudget.
	OverBudget bool `json:"over_budget,omitempty"`
	// Pool is the pool that denied, where the model itself did not. Code, Reason, Never and Cause
	// are then those of the pool, and Stats is still the model's: see [RateLimiter.PoolStats].
	Pool string `json:"pool,omitempty"`
}

// MarshalJSON shows RetryAfter as a text, such as "1.5s", and leaves it out where it is zero.
func (d Decision) MarshalJSON() ([]byte, error) { return clock.EncodeStruct(d) }

// UnmarshalJSON reads what MarshalJSON writes, as that of ModelQuota does.
func (d *Decision) UnmarshalJSON(data []byte) (err error) {
	return clock.DecodeStruct(data, "decision", d)
}

// The reasons that are also given without a decision.
const (
	invalidTokens = verdict.NegativeTokens
	limiterClosed = "the limiter is closed"
)

// Decide answers like CanSend, with the reason, the exact wait and the present usage. It records
// nothing. A negative estimate is denied; an unknown model is allowed.
func (rl *RateLimiter) Decide(model string, estimatedTokens int) (d Decision) {
	rl.decide(background, &d, &Request{Model: model, PromptTokens: estimatedTokens})
	return d
}

// Request is a planned call and its estimate. Negative tokens are refused.
type Request struct {
	Model        string // as in Reserve
	PromptTokens int    // input tokens
	OutputTokens int    // the maximum or the expected size of the answer
	// BilledOutput is the most output tokens that the provider may bill, where that is more than
	// OutputTokens. It counts to limits of spend alone. It is for a cap far above the expected
	// size, and for providers that do not limit output. Zero means OutputTokens.
	BilledOutput int

	// Class is the name of the call's class in Config.Classes. Empty takes that of [WithClass];
	// another name is the class "". The first one named holds for all requests in one call.
	Class string
	// Flow names the tenant, user or session of the call: the flows of a class take turns while
	// they wait. Empty takes the flow of [WithFlow]; calls without either are of one flow.
	Flow string
}

// DecideRequest is Decide with separate prompt and output tokens, for models that limit them so.
func (rl *RateLimiter) DecideRequest(req Request) (d Decision) {
	rl.decide(background, &d, &req)
	return d
}

func (rl *RateLimiter) decide(ctx context.Context, d *Decision, req *Request) {
	rl.shared.freshen(ctx)
	if rl.shared != nil && rl.shared.replica.IsAlone() {
		rl.shared.decideAlone(d, req)
		return
	}
	var t engine.Target
	rl.mu.RLock()
	if now, ok := rl.lookRLocked(req.Model, &t); ok && !(rl.isStaleRLocked(t.Account, now) && req.depends(&t)) {
		rl.decideRLocked(d, req, &t, now)
		rl.mu.RUnlock()
		return
	}
	rl.mu.RUnlock()
	rl.decideLocked(d, req)
}

// decideLocked is decide where something has to be brought in order first.
func (rl *RateLimiter) decideLocked(d *Decision, req *Request) {
	rl.mu.Lock()
	defer rl.mu.Unlock()
	now := rl.nowLocked()
	t := rl.engine.Resolve(rl.adoptQuotaLocked(req.Model, now), req.Model)
	if rl.checkAgeRLocked(t.Counted); req.depends(&t) {
		now, t = rl.enterTidyLocked(req.Model)
		rl.decideRLocked(d, req, &t, now)
	} else {
		rl.decideRLocked(d, req, &t, now)
		d.Stats.countAside(t.Account, rl.State[t.Counted], rl.span(), now)
	}
	rl.leaveLocked(now)
}

// decideRLocked decides on a request, and charges nothing. It asks the judge where that is needed.
func (rl *RateLimiter) decideRLocked(d *Decision, req *Request, t *engine.Target, now account.Now) {
	a, cost := t.Account, state.Cost{Requests: 1, Count: state.Count{Input: req.PromptTokens, Output: req.OutputTokens}}
	switch shut := rl.shared.shutRLocked(); {
	case shut != nil:
		*d = undecided(shut, ModelStats{})
	case !a.IsShown() && !a.Listed:
		rl.judgeRLocked(d, req, t, now)
	case rl.engine.Passes(t, &cost, rl.span(), now):
		d.pass(a)
	case !d.deny(rl.engine, t, cost.Count, rl.span(), now):
		rl.judgeRLocked(d, req, t, now)
	}
	if !a.IsShown() && a.Listed {
		rl.checkAgeRLocked(t.Counted)
	}
	d.Model = req.Model
	d.Stats.count(a, rl.span(), now)
}

// pass has the decision be that requests of an account pass.
func (d *Decision) pass(a *account.Account) {
	code, reason := verdict.PassedBy(a)
	d.Allowed, d.Code, d.Reason = true, DecisionCode(code), reason
}

// deny has the decision be that a request does not pass, where the engine is certain of that.
func (d *Decision) deny(e *engine.Engine, t *engine.Target, c state.Count, span int64, now account.Now) bool {
	var v verdict.Verdict
	if !e.Denies(&v, t, &state.Cost{Requests: 1, Count: c}, span, now) {
		return false
	}
	d.explain(&v, nil)
	return true
}

// depends reports whether the decision on a request depends on what its model has used.
func (req *Request) depends(t *engine.Target) bool {
	return !t.Account.Has(account.Unknown|account.Unlimited) && min(req.PromptTokens, req.OutputTokens) >= 0
}

// judgeRLocked is decideRLocked by a look at each limit.
func (rl *RateLimiter) judgeRLocked(d *Decision, req *Request, t *engine.Target, now account.Now) {
	var items [1]verdict.Item
	var asked [1]engine.Request
	var by engine.By
	asked[0].Target = *t
	rl.askForRLocked(&asked[0], req, now)
	rl.fillBy(&by, &asking{class: req.Class})
	var v verdict.Verdict
	all := rl.engine.Explain(&v, items[:0], &by, asked[:], now)
	d.explain(&v, all)
}

// terms are the settings of a process by which it asks. All but the last travel with each call.
type terms struct {
	margin    time.Duration // Config.Margin
	holdTTL   time.Duration // Config.HoldTTL; 0 for never
	maxQueue  int           // Config.MaxQueue; 0 for no bound
	maxModels int           // Config.MaxModels; 0 stands for the default
}

// span is how long a charge counts to the minute, in nanoseconds.
func (t *terms) span() int64 { return account.Minute + int64(t.margin) }

// mostModels is the bound on models without a quota of their own that hold state.
func (t *terms) mostModels() int { return cmp.Or(t.maxModels, engine.DefaultMaxModels) }

// by returns who asks.
func (t *terms) by(a asking) (by engine.By) {
	t.fillBy(&by, &a)
	return by
}

// fillBy is by in place: copying so much takes longer than filling it in.
func (t *terms) fillBy(by *engine.By, a *asking) {
	by.Class, by.Flow = a.class, a.flow
	by.Span, by.HoldTTL, by.MaxQueue = t.span(), int64(t.holdTTL), t.maxQueue
}

// askForRLocked fills in what a request asks of its target at a moment; the zero one is not known.
func (rl *RateLimiter) askForRLocked(r *engine.Request, req *Request, now account.Now) {
	r.Tokens = state.Count{Input: req.PromptTokens, Output: req.OutputTokens}
	if rl.pricing != nil {
		r.Most, r.Priced = rl.pricing.Most(&rl.naming, r.Counted, r.Asked, r.Tokens, req.BilledOutput, now.Wall)
	}
	r.Deny = rl.unknown == UnknownDeny
	if r.Account.Has(account.Unknown) || !r.Account.IsShown() {
		if nearest, unknown := rl.meetRLocked(&r.Target); unknown && r.Deny {
			r.Nearest = nearestHint(nearest)
		}
	}
}

// admit admits one request by a look at each limit; nil for a denial. room is for the call.
func (d *Decision) admit(e *engine.Engine, room []*account.Call, of *engine.By, asked []engine.Request, now account.Now) *account.Call {
	calls, v := e.Admit(room, of, asked, now)
	if d.explain(&v, e.Items()); !v.Allowed {
		return nil
	}
	return calls[0]
}

// follow makes a verdict the Decision, with the usage of the model that it is on.
func (d *Decision) follow(v *verdict.Verdict, items []verdict.Item, span int64, now account.Now) {
	if of := d.explain(v, items); of != nil {
		d.Stats.count(of.Account, span, now)
	}
}

// explain makes a verdict the Decision, without the usage, and returns the model that it is on.
func (d *Decision) explain(v *verdict.Verdict, items []verdict.Item) (of *verdict.Item) {
	d.Allowed, d.Never, d.OverBudget = v.Allowed, v.Never, v.OverBudget
	d.Code, d.Reason, d.Cause, d.RetryAfter = DecisionCode(v.Code), v.Reason, Cause(v.Cause), v.Retry
	if len(items) == 0 {
		return nil
	}
	of = &items[v.Item]
	if pool, is := state.PoolOf(of.Account.Name); is {
		d.Pool = pool
		of = &items[of.Member]
	}
	d.Model = of.Asked
	return of
}
