package ratelimit

import "time"

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
	// DecisionInvalidQuota: denied, because the quota has a negative limit.
	DecisionInvalidQuota DecisionCode = "invalid_quota"
	// DecisionRPDLimit: denied by the requests per day.
	DecisionRPDLimit DecisionCode = "rpd_exceeded"
	// DecisionRPMLimit: denied by the requests per minute.
	DecisionRPMLimit DecisionCode = "rpm_exceeded"
	// DecisionTPMLimit: denied by the tokens per minute.
	DecisionTPMLimit DecisionCode = "tpm_exceeded"
)

// Decision answers whether a request may be sent. A denial is a value, not an
// error. Decisions can be compared with ==.
type Decision struct {
	// Allowed reports whether the request may be sent now.
	Allowed bool
	// Code says why. Where several limits deny, it names the first in the order
	// requests per day, requests per minute, tokens per minute.
	Code DecisionCode
	// Reason says the same for people.
	Reason string
	// RetryAfter is how long to wait before the same request passes, if nothing
	// else is charged meanwhile: it does after exactly this long, and not a
	// nanosecond earlier. It looks at all limits that deny, not just at the one
	// that Code names. Zero when the request is allowed or can never pass.
	RetryAfter time.Duration
	// Stats is what the model had used, and may use, at that moment.
	Stats ModelStats
	// Never reports that waiting does not help: the request is larger than a
	// limit, its estimate is negative, or the quota is invalid.
	Never bool
}

// usage is what a model has used at one instant.
type usage struct {
	requests, tokens, day int

	window   *window // to ask when charges leave; nil when nothing is counted
	instant  int64   // now, on the limiter's time line
	span     int64   // how long a charge of the minute counts
	dayStart time.Time
	dayLeft  time.Duration // until the day ends
}

func (u *usage) stats(q ModelQuota) ModelStats {
	return ModelStats{
		RPM: u.requests, MaxRPM: q.MaxRPM,
		TPM: u.tokens, MaxTPM: q.MaxTPM,
		RPD: u.day, MaxRPD: q.MaxRPD,
		DayStart: u.dayStart,
	}
}

// admits is the decision without its explanation. A negative limit admits
// nothing. No difference overflows, because tokens is not negative.
func admits(q ModelQuota, u *usage, tokens int) bool {
	return (q.MaxRPD == 0 || u.day < q.MaxRPD) &&
		(q.MaxRPM == 0 || u.requests < q.MaxRPM) &&
		(q.MaxTPM == 0 || u.tokens <= q.MaxTPM-tokens)
}

// decide is the whole decision: from a quota, what is used of it and an
// estimate, to the answer. It changes nothing and reads no clock.
func decide(q ModelQuota, known bool, u *usage, tokens int) Decision {
	d := Decision{Stats: u.stats(q)}
	switch {
	case tokens < 0:
		d.Never = true
		d.Code, d.Reason = DecisionInvalidTokens, "invalid tokens: the estimate is negative"
	case !known:
		d.Allowed = true
		d.Code, d.Reason = DecisionUnknownModel, "no quota for this model"
	case q.unlimited():
		d.Allowed = true
		d.Code, d.Reason = DecisionUnlimited, "the model is unlimited"
	case admits(q, u, tokens):
		d.Allowed = true
		d.Code, d.Reason = DecisionAllowed, "within the quota"
	default:
		deny(&d, q, u, tokens)
	}
	return d
}

// deny fills in why and for how long. The reasons are constants because a
// denial must not allocate: a busy agent asks often.
func deny(d *Decision, q ModelQuota, u *usage, tokens int) {
	if field, _, _, bad := q.invalid(); bad {
		d.Never = true
		d.Code, d.Reason = DecisionInvalidQuota, invalidQuotaReasons[field]
		return
	}
	// In the reverse of the order of checks, so that the first one names it.
	if q.MaxTPM > 0 && u.tokens > q.MaxTPM-tokens {
		d.Code, d.Reason = DecisionTPMLimit, "tokens per minute are used up"
		if tokens > q.MaxTPM {
			d.Never = true
			d.Reason = "the request alone is larger than the tokens per minute"
		} else {
			d.RetryAfter = u.tokensFitIn(q.MaxTPM - tokens)
		}
	}
	if q.MaxRPM > 0 && u.requests >= q.MaxRPM {
		d.Code, d.Reason = DecisionRPMLimit, "requests per minute are used up"
		d.RetryAfter = max(d.RetryAfter, u.leavesIn(u.window.requests.when(u.requests-q.MaxRPM)))
	}
	if q.MaxRPD > 0 && u.day >= q.MaxRPD {
		d.Code, d.Reason = DecisionRPDLimit, "requests per day are used up"
		d.RetryAfter = max(d.RetryAfter, u.dayLeft)
	}
	if d.Never {
		d.RetryAfter = 0
	}
}

var invalidQuotaReasons = map[string]string{
	"MaxRPM": "invalid quota: MaxRPM (max_rpm) is negative",
	"MaxTPM": "invalid quota: MaxTPM (max_tpm) is negative",
	"MaxRPD": "invalid quota: MaxRPD (max_rpd) is negative",
}

// leavesIn is how long it takes until a charge of the given instant is no
// longer counted. A charge is counted up to and including the age of span.
func (u *usage) leavesIn(charged int64) time.Duration {
	return time.Duration(charged + u.span + 1 - u.instant)
}

// tokensFitIn is how long it takes until at most budget tokens are counted.
func (u *usage) tokensFitIn(budget int) time.Duration {
	w := u.window
	return u.leavesIn(w.tokens.when(w.counts.lastOver(budget)))
}

// Decide answers like CanSend, with the reason, the exact time to wait and what
// is used at present. It records nothing. A negative estimate is denied; an
// unknown model is allowed. Decide is safe for concurrent use.
func (rl *RateLimiter) Decide(model string, estimatedTokens int) Decision {
	rl.mu.RLock()
	quota, known := rl.Quotas[model]
	untouched := !known || quota.unlimited() || estimatedTokens < 0
	u, ok := rl.readRLocked(model)
	if !ok && untouched {
		u, ok = rl.countRLocked(model), true
	}
	if ok {
		d := decide(quota, known, &u, estimatedTokens)
		rl.mu.RUnlock()
		return d
	}
	rl.mu.RUnlock()

	rl.mu.Lock()
	defer rl.mu.Unlock()
	u = rl.usageLocked(model)
	quota, known = rl.Quotas[model]
	return decide(quota, known, &u, estimatedTokens)
}
