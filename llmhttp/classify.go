package llmhttp

import (
	"net/http"
	"sync"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp/internal/headers"
)

// statusOverloaded is the status with which Anthropic reports overload.
const statusOverloaded = 529

// defaultDay is the time until the end of a quota's day if the provider does not state it.
const defaultDay = 24 * time.Hour

// Classify returns the reason why a provider did not answer a call, by the status, the headers and
// the body of its answer; nil for a status below 400. It knows OpenAI, Anthropic, Gemini, Vertex,
// Azure, Groq, Mistral, OpenRouter, Ollama and Amazon Bedrock, and classifies others by their
// status. A refusal of a Transport of this program is NotSent; one that a gateway passes on is a
// problem like any other.
//
// It reads at most 64 KiB of the body, blocks until they arrive, and puts them back: resp.Body
// reads and closes as before. It must not be called while the body is being read. Return the
// result as an error only if it is not nil.
func Classify(resp *http.Response) *Problem {
	if resp == nil || resp.StatusCode < 400 {
		return nil
	}
	if p := refusalIn(resp); p != nil {
		return p
	}
	var body []byte
	if resp.Body != nil && resp.Body != http.NoBody {
		body, resp.Body = reread(resp.Body)
	}
	host := ""
	if resp.Request != nil && resp.Request.URL != nil {
		host = resp.Request.URL.Host
	}
	return classify(resp.StatusCode, resp.Header, body, host, time.Now())
}

// classify is Classify for the answer of a host at a time, with the part of its body that was read.
// What a host answers is never a refusal of this program, also if a Transport of a gateway made it.
func classify(status int, h http.Header, body []byte, host string, now time.Time) *Problem {
	if status < 400 {
		return nil
	}
	b := readErrorBody(unzipped(h, body), status)
	b.addAWS(h, b.awsType)
	p := &Problem{Status: status, Code: b.code, Quota: b.quota, Limit: b.limit, learned: b.limits}
	p.Kind = kindOf(status, h, &b)

	delay, found := headers.RetryAfter(h, now)
	if !found && b.retryDelay > 0 {
		delay, found = b.retryDelay, true
	}
	if !found {
		delay, _ = headers.RetryAfter(b.headers, now)
	}
	switch p.Kind {
	case Exhausted:
		return p
	case RateLimited, DailyQuota:
		if delay == 0 {
			delay = resetOfUsedUp(headers.Limits(b.headers, host, now))
		}
		if delay == 0 {
			delay = resetOfUsedUp(headers.Limits(h, host, now))
		}
	}
	if p.Kind == DailyQuota {
		switch {
		case b.perDay:
			// The delay in such a body belongs to another quota, or to none.
			p.Until = nextMidnight(now, pacific())
			return p
		case delay > 0:
			p.Until = now.Add(delay).Round(0).UTC()
		default:
			p.Until = now.Add(defaultDay).Round(0).UTC()
		}
	}
	p.RetryAfter = delay
	return p
}

// kindOf returns the kind of the problem that an answer reports.
func kindOf(status int, h http.Header, b *errorBody) ProblemKind {
	switch {
	case status == http.StatusPaymentRequired, status < 500 && b.exhausted():
		return Exhausted
	case b.failed:
		return Failed
	case status == http.StatusTooManyRequests, status < 500 && b.hasCode(awsThrottled):
		if n, ok := headers.LeastCount(h["X-Ratelimit-Limit-Req-Minute"]); ok && n == 0 {
			return Exhausted // Mistral, for a plan without the model
		}
		switch {
		case b.overloaded():
			return Overloaded
		case b.perDay || b.namesDay():
			return DailyQuota
		}
		return RateLimited
	case status == http.StatusServiceUnavailable, status == statusOverloaded,
		status >= 500 && b.overloaded():
		return Overloaded
	case status >= 500:
		return Failed
	}
	return Rejected
}

// resetOfUsedUp returns the shortest reset of the limits that are used up; zero if there is none.
func resetOfUsedUp(l ratelimit.ProviderLimits) (reset time.Duration) {
	all := [...]*ratelimit.ProviderLimit{&l.RPM, &l.TPM, &l.ITPM, &l.OTPM, &l.RPD, &l.TPD}
	for _, one := range all {
		usedUp := one.HasRemaining && one.Remaining == 0
		if usedUp && one.Reset > 0 && (reset == 0 || one.Reset < reset) {
			reset = one.Reset
		}
	}
	return reset
}

// pacific returns the zone at whose midnight Gemini's days end. On a machine without a time zone
// database it is the zone's winter time, in which midnight is never too early.
var pacific = sync.OnceValue(func() *time.Location {
	return zoneOr("America/Los_Angeles", -8*time.Hour)
})

// zoneOr returns the zone of a name, or a zone with a fixed offset from UTC if it is unknown.
func zoneOr(name string, offset time.Duration) *time.Location {
	if zone, err := time.LoadLocation(name); err == nil {
		return zone
	}
	return time.FixedZone(name, int(offset/time.Second))
}

// nextMidnight returns the end of now's day in a zone whose clocks do not change at midnight.
func nextMidnight(now time.Time, zone *time.Location) time.Time {
	year, month, day := now.In(zone).Date()
	return time.Date(year, month, day+1, 0, 0, 0, 0, zone).UTC()
}
