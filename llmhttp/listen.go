package llmhttp

import (
	"math/rand/v2"
	"net/http"
	"time"

	"dappco.re/go/core/go-ratelimit"
)

const (
	// mostCooldown is how long a provider can make a model pause that is over its quota of
	// the minute, or overloaded.
	mostCooldown = 2 * time.Minute
	// mostDay is how long one can that is over its quota of the day.
	mostDay = 25 * time.Hour
	// mostJitter spreads the calls of many programs that were told to wait equally long.
	mostJitter = time.Second
)

func (f *flight) host() string { return f.call.Request.URL.Hostname() }

// listen passes on what the headers of an answer say of limits, and pauses the model
// where they say that, unless the body is looked at next.
func (f *flight) listen(h http.Header, bodyNext bool) {
	t, now := f.transport, time.Now()
	f.observe(limitsOf(h, f.host(), now), now)
	switch {
	case f.status >= 400:
		f.header = h.Clone()
		f.problem = classify(f.status, f.header, nil, f.host(), now)
		if !bodyNext && f.problem.RetryAfter > 0 && h.Get("X-Should-Retry") != "false" {
			// Otherwise the body may still tell how long, or that waiting is no use.
			f.until = f.cool(f.problem, now)
		}
	case f.status >= 200:
		t.models.well(f.model)
	}
}

// conclude looks at a problem again when its body is there.
func (f *flight) conclude() {
	if f.problem == nil {
		return
	}
	t, now, before := f.transport, time.Now(), f.problem
	if len(f.head) > 0 {
		f.problem = classify(f.status, f.header, f.head, f.host(), now)
		f.observe(f.problem.limits(), now)
		f.head = nil
	}
	if f.until.IsZero() || f.problem.Kind != before.Kind || f.problem.RetryAfter != before.RetryAfter {
		if until := f.cool(f.problem, now); until.After(f.until) {
			f.until = until
		}
	}
	t.report(f, Event{Kind: EventProblem, Status: f.status, Problem: f.problem, Until: f.until})
}

func (f *flight) observe(l ratelimit.ProviderLimits, now time.Time) {
	if l == (ratelimit.ProviderLimits{}) {
		return
	}
	models := &f.transport.models
	l.SentAt, l.Counted = f.sent, f.counted
	l.UncountedRequests, l.Uncounted = models.uncounted(f.model, now.Add(-f.transport.margin()))
	f.transport.Limiter.Observe(f.name, l)
}

// cool pauses the model when it has a problem which time mends, and returns until when; the
// zero time when it does not.
func (f *flight) cool(p *Problem, now time.Time) time.Time {
	t := f.transport
	var d time.Duration
	switch p.Kind {
	case RateLimited, Overloaded:
		if d = p.RetryAfter; d <= 0 {
			d = t.models.pause(f.model, now)
		}
		d = min(d, mostCooldown)
	case DailyQuota:
		d = min(max(p.Until.Sub(now), 0), mostDay)
	default:
		return time.Time{}
	}
	if most := min(d/10, mostJitter); most > 0 {
		d += rand.N(most)
	}
	until := now.Add(d)
	t.Limiter.Cooldown(f.name, until)
	return until
}
