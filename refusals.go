package ratelimit

import (
	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/tally"
)

// refusals is the calls of a model that this limiter refused.
type refusals struct {
	tally.Minute
	last Refused // without At
	at   int64   // the instant of the last
}

// refusedLocked notes that a call of a model was refused, which gets no entry in State by it.
func (rl *RateLimiter) refusedLocked(counted string, now account.Now, d *Decision) {
	r := rl.useRefusals(counted)
	if r == nil {
		return
	}
	r.At(now.Instant).Refused++
	r.at = now.Instant
	r.last.Code, r.last.Reason, r.last.Pool, r.last.RetryAfter = d.Code, d.Reason, d.Pool, d.RetryAfter
}

// admittedLocked notes that a call of a model was admitted, where others admit such calls, too.
func (rl *RateLimiter) admittedLocked(counted string, now account.Now) {
	if r := rl.useRefusals(counted); r != nil {
		r.At(now.Instant).Admitted++
	}
}

func (rl *RateLimiter) useRefusals(counted string) *refusals {
	return rl.refusals.Use(counted, len(rl.Quotas), func(name string) bool { _, own := rl.Quotas[name]; return own })
}

// told returns the last refusal; nil for none.
func (r *refusals) told(rl *RateLimiter) *Refused {
	if r == nil || r.last.Code == "" {
		return nil
	}
	last := r.last
	last.At = rl.timeRLocked(r.at).Round(0)
	return &last
}
