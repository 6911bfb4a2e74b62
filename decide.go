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

// reading is a model's window at one instant, in order: nothing in it is due to
// leave.
type reading struct {
	*window
	instant int64 // now, on the limiter's time line
	wall    int64 // now, in UnixNano
	span    int64 // how long a charge of the minute counts
}

// unused is the window of a model that was never used. It is never changed.
var unused = &window{stats: &UsageStats{}, leaveAt: never}

func (r reading) modelStats(q ModelQuota) ModelStats {
	return ModelStats{
		RPM: r.requests.len(), MaxRPM: q.MaxRPM,
		TPM: r.counts.total, MaxTPM: q.MaxTPM,
		RPD: r.dayCount(), MaxRPD: q.MaxRPD,
		DayStart: r.stats.DayStart,
	}
}

// admits is the decision without its explanation. A negative limit admits
// nothing. tokens is not negative, and the difference is taken only where it
// does not overflow.
func admits(q ModelQuota, w *window, tokens int) bool {
	return (q.MaxRPD == 0 || w.dayCount() < q.MaxRPD) &&
		(q.MaxRPM == 0 || w.requests.len() < q.MaxRPM) &&
		(q.MaxTPM == 0 || tokens <= q.MaxTPM && w.counts.total <= q.MaxTPM-tokens)
}

// decide is the whole decision: from a quota, what is used of it and an
// estimate, to the answer. It changes nothing and reads no clock. It fills in d,
// because a Decision is large enough for copies of it to show.
func decide(d *Decision, q ModelQuota, known bool, r reading, tokens int) {
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
	case admits(q, r.window, tokens):
		d.Allowed = true
		d.Code, d.Reason = DecisionAllowed, "within the quota"
	default:
		deny(d, q, r, tokens)
	}
}

// deny fills in why and for how long. The reasons are constants because a
// denial must not allocate: a busy agent asks often.
func deny(d *Decision, q ModelQuota, r reading, tokens int) {
	if field, _, _, bad := q.invalid(); bad {
		d.Never = true
		d.Code, d.Reason = DecisionInvalidQuota, invalidQuotaReasons[field]
		return
	}
	// In the reverse of the order of checks, so that the first one names it.
	if q.MaxTPM > 0 && r.counts.total > q.MaxTPM-tokens {
		d.Code, d.Reason = DecisionTPMLimit, "tokens per minute are used up"
		if d.Never = tokens > q.MaxTPM; !d.Never {
			d.RetryAfter = r.tokensFitIn(q.MaxTPM - tokens)
		}
	}
	if requests := r.requests.len(); q.MaxRPM > 0 && requests >= q.MaxRPM {
		d.Code, d.Reason = DecisionRPMLimit, "requests per minute are used up"
		d.RetryAfter = max(d.RetryAfter, r.leavesIn(r.requests.when(requests-q.MaxRPM)))
	}
	if q.MaxRPD > 0 && r.dayCount() >= q.MaxRPD {
		d.Code, d.Reason = DecisionRPDLimit, "requests per day are used up"
		d.RetryAfter = max(d.RetryAfter, time.Duration(r.dayEnd-r.wall))
	}
	if d.Never {
		d.RetryAfter, d.Reason = 0, "the request alone is larger than the tokens per minute"
	}
}

var invalidQuotaReasons = map[string]string{
	"MaxRPM": "invalid quota: MaxRPM (max_rpm) is negative",
	"MaxTPM": "invalid quota: MaxTPM (max_tpm) is negative",
	"MaxRPD": "invalid quota: MaxRPD (max_rpd) is negative",
}

// leavesIn is how long it takes until a charge of the given instant is no
// longer counted. A charge is counted up to and including the age of span.
func (r reading) leavesIn(charged int64) time.Duration {
	return time.Duration(charged + r.span + 1 - r.instant)
}

// tokensFitIn is how long it takes until at most budget tokens are counted.
func (r reading) tokensFitIn(budget int) time.Duration {
	return r.leavesIn(r.tokens.when(r.counts.lastOver(budget)))
}

// Decide answers like CanSend, with the reason, the exact time to wait and what
// is used at present. It records nothing. A negative estimate is denied; an
// unknown model is allowed. Decide is safe for concurrent use.
func (rl *RateLimiter) Decide(model string, estimatedTokens int) (d Decision) {
	rl.mu.RLock()
	quota, known := rl.Quotas[model]
	r, ok := rl.readRLocked(model)
	if ok {
		d.Stats = r.modelStats(quota)
		decide(&d, quota, known, r, estimatedTokens)
	}
	rl.mu.RUnlock()
	if !ok {
		rl.decideSlowly(&d, model, estimatedTokens)
	}
	return d
}

// decideSlowly decides where a window may have to be brought in order first. It
// leaves the window alone where the answer does not depend on it.
func (rl *RateLimiter) decideSlowly(d *Decision, model string, tokens int) {
	rl.mu.Lock()
	defer rl.mu.Unlock()
	quota, known := rl.Quotas[model]
	if !known || quota.unlimited() || tokens < 0 {
		d.Stats = rl.countLocked(model, quota)
		decide(d, quota, known, reading{window: unused}, tokens)
		return
	}
	r := rl.readLocked(model)
	d.Stats = r.modelStats(quota)
	decide(d, quota, known, r, tokens)
}
