package llmhttp

import (
	"math/rand/v2"
	"net/http"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp/internal/headers"
)

const (
	// maxCooldown bounds the pause for a provider that is overloaded or whose quota of the minute
	// is used up.
	maxCooldown = 2 * time.Minute
	// maxDay bounds the pause for a quota of the day.
	maxDay = 25 * time.Hour
	// maxJitter bounds the time that is added to pauses, so that many programs that wait equally
	// long do not return together.
	maxJitter = time.Second
)

// host returns the host that answers the call.
func (f *flight) host() string {
	if b := f.backend(); b != nil && b.url != nil && !f.routed.way.addressed {
		return b.url.Hostname()
	}
	return f.call.Request.URL.Hostname()
}

// readHeaders passes the limits in the headers of an answer to the limiter, and pauses the model if
// they ask for it. With bodyNext, the body decides on the pause instead.
func (f *flight) readHeaders(h http.Header, bodyNext bool) {
	now := time.Now()
	f.observe(headers.Limits(h, f.host(), now), now)
	switch {
	case f.status >= 400:
		f.header = h.Clone()
		f.problem = classify(f.status, f.header, nil, f.host(), now)
		if !bodyNext && f.problem.RetryAfter > 0 && h.Get("X-Should-Retry") != "false" {
			// Otherwise the body may still state the time to wait, or that waiting is useless.
			f.pausedUntil = f.pause(f.problem, now)
		}
	case f.status >= 200 && !isEventStream(h): // in which the first frame may be a refusal
		f.succeeded(now)
	}
}

// resolveProblem classifies a problem again when its body has been read, and reports it.
func (f *flight) resolveProblem() {
	if f.problem == nil {
		return
	}
	t, now, before := f.transport, time.Now(), f.problem
	if len(f.errorBody) > 0 {
		f.problem = classify(f.status, f.header, f.errorBody, f.host(), now)
		f.observe(f.problem.limits(), now)
		f.errorBody = nil
	}
	if f.pausedUntil.IsZero() || f.problem.Kind != before.Kind || f.problem.RetryAfter != before.RetryAfter {
		if until := f.pause(f.problem, now); until.After(f.pausedUntil) {
			f.pausedUntil = until
		}
	}
	if f.routed != nil && (f.problem.Kind == Exhausted || f.problem.Kind == Failed) {
		t.models.setAside(f.routed.standing, now)
	}
	if name := f.problem.Kind.refusal(); name != "" {
		f.observeRefusal(name, f.problem.RetryAfter)
	} else if f.problem.Kind == Failed && f.adapts() && t.models.failed(f.model) {
		f.observeRefusal(problemTimeout, 0)
	}
	t.report(f, Event{Kind: EventProblem, Status: f.status, Problem: f.problem, Until: f.pausedUntil})
}

// observe passes reported limits to the limiter.
func (f *flight) observe(l ratelimit.ProviderLimits, now time.Time) {
	if l == (ratelimit.ProviderLimits{}) {
		return
	}
	models := &f.transport.models
	l.SentAt, l.Counted, l.Refused = f.sent, f.counted, f.status >= 400
	l.UncountedRequests, l.Uncounted = models.uncounted(f.model, now.Add(-f.transport.margin()))
	f.transport.Limiter.Observe(f.name, l)
}

// pause pauses the model for a problem that passes with time, and returns the end of the pause. For
// other problems, and where a lowered limit is the answer, it returns the zero time.
func (f *flight) pause(p *Problem, now time.Time) time.Time {
	t := f.transport
	var d time.Duration
	cause := ratelimit.CauseRateLimited
	switch p.Kind {
	case RateLimited, Overloaded:
		if p.Kind == Overloaded {
			cause = ratelimit.CauseOverloaded
		}
		if d = p.RetryAfter; d <= 0 {
			d = f.fallbackPause(p.Kind, now)
		}
		if d = min(d, maxCooldown); d <= 0 {
			return time.Time{}
		}
	case DailyQuota:
		cause = ratelimit.CauseDailyQuota
		d = min(max(p.Until.Sub(now), 0), maxDay)
	default:
		return time.Time{}
	}
	if jitter := min(d/10, maxJitter); jitter > 0 {
		d += rand.N(jitter)
	}
	t.Limiter.CooldownFor(f.name, d, cause)
	return now.Add(d)
}
