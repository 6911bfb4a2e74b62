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

// refusalTable has the refusals of each model.
type refusalTable struct{ tally.Table[refusals] }

// use returns the refusals of a model, which gets no entry in State by it; nil where there is no
// place for them. Models with a quota have one.
func (t *refusalTable) use(counted string, quotas map[string]ModelQuota) *refusals {
	return t.Use(counted, len(quotas), func(name string) bool { _, own := quotas[name]; return own })
}

// refused notes that a call was refused.
func (r *refusals) refused(now account.Now, d *Decision) {
	if r != nil {
		r.At(now.Instant).Refused++
		r.at = now.Instant
		r.last.Code, r.last.Reason, r.last.Pool, r.last.RetryAfter = d.Code, d.Reason, d.Pool, d.RetryAfter
	}
}

// admitted notes that a call was admitted, where others admit such calls, too.
func (r *refusals) admitted(now account.Now) {
	if r != nil {
		r.At(now.Instant).Admitted++
	}
}

// told returns the last refusal; nil for none.
func (r *refusals) told(now account.Now) *Refused {
	if r == nil || r.last.Code == "" {
		return nil
	}
	last := r.last
	last.At = now.TimeAt(r.at)
	return &last
}
