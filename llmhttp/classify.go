package llmhttp

import (
	"net/http"
	"sync"
	"time"

	"dappco.re/go/core/go-ratelimit"
)

// statusOverloaded is what Anthropic answers when it has too much to do.
const statusOverloaded = 529

// mostWithoutWord is how long a quota of the day is taken to be gone when the provider
// does not say.
const mostWithoutWord = 24 * time.Hour

// Classify tells why a provider did not answer a call, by the status, the headers and the
// body of its answer; nil for a status below 400. It knows OpenAI, Anthropic, Gemini,
// Vertex, Azure, Groq, Mistral, OpenRouter and Ollama, and goes by the status with others; a
// refusal of a Transport is NotSent.
// It reads at most 64 KiB of the body, waits for them as any reader would, and puts them
// back: resp.Body reads and closes as it did before. It must not be called while the body
// is read. Return the result as an error only if it is not nil.
func Classify(resp *http.Response) *Problem {
	if resp == nil || resp.StatusCode < 400 {
		return nil
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

// classify is Classify for what was read of the body, by the host that was asked.
func classify(status int, h http.Header, body []byte, host string, now time.Time) *Problem {
	if status < 400 {
		return nil
	}
	if code := h.Get(refusedHeader); isName(code, mostCode) {
		p := &Problem{Kind: NotSent, Status: status, Code: code}
		p.RetryAfter, _ = retryAfter(h, now)
		return p
	}
	b := readErrorBody(body, status)
	p := &Problem{Status: status, Code: b.code, Quota: b.quota, Limit: b.limit, told: b.limits}
	p.Kind = kindOf(status, h, &b)

	delay, said := retryAfter(h, now)
	if !said && b.retryDelay > 0 {
		delay, said = b.retryDelay, true
	}
	if !said {
		delay, _ = retryAfter(b.headers, now)
	}
	switch p.Kind {
	case Exhausted:
		return p
	case RateLimited, DailyQuota:
		if delay == 0 {
			delay = resetOfSpent(limitsOf(b.headers, host, now))
		}
		if delay == 0 {
			delay = resetOfSpent(limitsOf(h, host, now))
		}
	}
	if p.Kind == DailyQuota {
		switch {
		case b.perDay:
			// What such a body says of a delay is that of another quota, or of none.
			p.Until = nextMidnight(now, pacific())
			return p
		case delay > 0:
			p.Until = now.Add(delay).Round(0).UTC()
		default:
			p.Until = now.Add(mostWithoutWord).Round(0).UTC()
		}
	}
	p.RetryAfter = delay
	return p
}

// kindOf returns what kind of problem an answer tells of.
func kindOf(status int, h http.Header, b *errorBody) ProblemKind {
	switch {
	case status == http.StatusPaymentRequired, status < 500 && b.exhausted():
		return Exhausted
	case status == http.StatusTooManyRequests:
		if n, ok := leastCount(readable(h["X-Ratelimit-Limit-Req-Minute"])); ok && n == 0 {
			return Exhausted // Mistral's, for a plan without the model
		}
		switch {
		case b.overloaded():
			return Overloaded
		case b.perDay || b.saysPerDay():
			return DailyQuota
		}
		return RateLimited
	case status == http.StatusServiceUnavailable, status == statusOverloaded, status >= 500 && b.overloaded():
		return Overloaded
	case status >= 500:
		return Failed
	}
	return Rejected
}

// resetOfSpent returns the shortest time until a limit is there again of which nothing is
// left; zero when there is none.
func resetOfSpent(l ratelimit.ProviderLimits) (reset time.Duration) {
	for _, one := range [...]*ratelimit.ProviderLimit{&l.RPM, &l.TPM, &l.ITPM, &l.OTPM, &l.RPD, &l.TPD} {
		if one.HasRemaining && one.Remaining == 0 && one.Reset > 0 && (reset == 0 || one.Reset < reset) {
			reset = one.Reset
		}
	}
	return reset
}

// pacific returns the zone by whose midnight Gemini's days end. On a machine without a
// time zone database it is the zone's winter time, in which that is never too early.
var pacific = sync.OnceValue(func() *time.Location { return zoneOr("America/Los_Angeles", -8*time.Hour) })

// zoneOr returns the zone of a name, or one that is so far from UTC.
func zoneOr(name string, offset time.Duration) *time.Location {
	if zone, err := time.LoadLocation(name); err == nil {
		return zone
	}
	return time.FixedZone(name, int(offset/time.Second))
}

// nextMidnight returns the end of the day of now in a zone whose clocks do not change at
// midnight.
func nextMidnight(now time.Time, zone *time.Location) time.Time {
	year, month, day := now.In(zone).Date()
	return time.Date(year, month, day+1, 0, 0, 0, 0, zone).UTC()
}
