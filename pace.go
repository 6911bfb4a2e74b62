package ratelimit

import (
	"dappco.re/go/core/go-ratelimit/internal/pace"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/tokens"
)

// paces reports whether the quota spreads anything. A burst of a minute is the minute
// itself.
func (q *ModelQuota) paces() bool {
	return q.Burst > 0 && int64(q.Burst) < minute && q.limitsMinute()
}

// pacing returns the part of a quota that spreads the calls of a window.
func (w *window) pacing(q *ModelQuota) pace.Quota {
	p := pace.Quota{Burst: q.Burst}
	p.PerMinute[pace.Requests], p.PerMinute[pace.AllTokens] = q.MaxRPM, q.MaxTPM
	p.PerMinute[pace.InputTokens], p.PerMinute[pace.OutputTokens] = q.MaxITPM, q.MaxOTPM
	if w.home != nil {
		p.Sharers = w.home.ledger.sharersLocked()
	}
	return p
}

// unitOf returns the unit of the bucket of a limit of the minute.
func unitOf(of state.Dimension) pace.Unit {
	limit := &state.Limits[of]
	if limit.Counts {
		return pace.Requests
	}
	return pace.AllTokens + pace.Unit(limit.Tokens)
}

// paceOf returns the buckets of a window for a quota; nil where it has none, or those of
// another quota.
func (w *window) paceOf(q *ModelQuota) *pace.Buckets {
	if w.pace.Of(w.pacing(q)) {
		return w.pace
	}
	return nil
}

// admitsNow reports whether the buckets of a window in order let a request start. A window
// without buckets has charged nothing since its quota spreads the calls.
func (w *window) admitsNow(q *ModelQuota, c *cost, instant int64) bool {
	if !q.paces() || w.pace == nil {
		return q.Burst >= 0
	}
	return w.pace.Admit(c.Requests, c.Count, instant)
}

// followPacing makes the buckets those of a quota. Buckets of another quota keep their content,
// at its price.
func (w *window) followPacing(q *ModelQuota, instant int64) {
	switch {
	case !q.paces():
		w.pace = nil
	case w.paceOf(q) == nil:
		was, now := w.pace, charges{w}
		w.pace = pace.New(w.pacing(q), instant, w.home.span(), now)
		if was != nil {
			w.pace.Take(was, instant, now)
		}
	}
}

// charges shows the charges of a window to its buckets.
type charges struct{ *window }

func (c charges) Requests() int         { return c.requests.Len() }
func (c charges) RequestAt(i int) int64 { return c.requests.When(i) }
func (c charges) Tokens() int           { return c.tokens.Len() }
func (c charges) TokensAt(i int) (instant int64, count tokens.Count) {
	return c.tokens.When(i), c.sums.Values()[i]
}
