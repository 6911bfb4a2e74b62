// Which answer moves which of the limits that are found.

package llmhttp_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// bothAdapt is a quota that begins at 12,000 requests a minute and 20 calls in flight. A decrease
// makes that 11,400 and 19.
var bothAdapt = ratelimit.ModelQuota{AdaptiveFloorRPM: 6000, AdaptiveFloorInFlight: 10}

// checkFound compares what was found of bothAdapt with what a decrease leaves.
func checkFound(t *testing.T, rl *ratelimit.RateLimiter, rate, slots bool) {
	t.Helper()
	wantRPM, wantSlots := 12_000, 20
	if rate {
		wantRPM = 11_400
	}
	if slots {
		wantSlots = 19
	}
	if s := rl.Stats("m"); s.AdaptiveRPM != wantRPM || s.AdaptiveInFlight != wantSlots {
		t.Errorf("found %d a minute and %d in flight, want %d and %d", s.AdaptiveRPM, s.AdaptiveInFlight, wantRPM, wantSlots)
	}
}

// A refusal by the caller's own quota of the minute lowers the rate, overload the calls in flight,
// and no other answer either. Only a refusal that says how long pauses the model, and one for the
// day.
func TestAdaptiveAnswers(t *testing.T) {
	const (
		gemini   = `{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"Generate`
		inMinute = gemini + `RequestsPerMinutePerProjectPerModel-FreeTier"}]}`
		inDay    = gemini + `RequestsPerDayPerProjectPerModel-FreeTier"}]}`
		retry    = `,{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"36s"}]}}`
	)
	for _, test := range []struct {
		name        string
		status      int
		body        string
		headers     []string
		rate, slots bool // lowered
		pause       time.Duration
	}{
		{name: "an answer", status: 200, body: someUsage},
		{name: "a redirect", status: 307, headers: []string{"Location: /"}},
		{name: "a bad request", status: 400, body: `{"error":{"type":"invalid_request_error","code":"context_length_exceeded"}}`},
		{name: "a bad key", status: 401, body: `{"error":{"code":"invalid_api_key"}}`},
		{name: "a permission that is missing", status: 403, body: `{"type":"error","error":{"type":"permission_error"}}`},
		{name: "a model that is missing", status: 404, body: `{"error":{"code":"model_not_found"}}`},
		{name: "a request that is too large", status: 413, body: `{"type":"error","error":{"type":"request_too_large"}}`},
		{name: "a failure", status: 500, body: `{"type":"error","error":{"type":"api_error"}}`},
		{name: "a bad gateway", status: 502},
		{name: "a failure with a time", status: 500, headers: []string{"Retry-After: 3"}},

		{name: "a bare 429, as of Vertex", status: 429, rate: true},
		{name: "OpenAI's 429", status: 429, body: `{"error":{"code":"rate_limit_exceeded"}}`, rate: true},
		{name: "OpenAI's ramp", status: 429, body: `{"error":{"code":"slow_down"}}`, rate: true},
		{name: "Anthropic's 429", status: 429, body: `{"type":"error","error":{"type":"rate_limit_error"}}`, headers: []string{"Retry-After: 7"}, rate: true, pause: 7 * time.Second},
		{name: "a 429 that says at once", status: 429, headers: []string{"Retry-After: 0"}, rate: true},
		{name: "a 429 that says nonsense", status: 429, headers: []string{"Retry-After: -5"}, rate: true},
		{name: "a 429 in milliseconds", status: 429, headers: []string{"Retry-After-Ms: 400", "Retry-After: 1"}, rate: true, pause: 400 * time.Millisecond},
		{name: "a 429 with the reset of what is used up", status: 429, headers: []string{"X-Ratelimit-Remaining-Requests: 0", "X-Ratelimit-Reset-Requests: 120ms"}, rate: true, pause: 120 * time.Millisecond},
		{name: "Gemini's minute", status: 429, body: inMinute + `]}}`, rate: true},
		{name: "Gemini's minute, with a delay", status: 429, body: inMinute + retry, rate: true, pause: 36 * time.Second},
		{name: "OpenRouter's 429", status: 429, body: `{"error":{"code":429,"metadata":{"headers":{"X-RateLimit-Remaining":"0","X-RateLimit-Reset":"10"}}}}`, rate: true, pause: 10 * time.Second},

		{name: "Gemini's day", status: 429, body: inDay + retry, pause: 8 * time.Hour},
		{name: "OpenAI's day", status: 429, body: `{"error":{"code":"rate_limit_exceeded","message":"Rate limit reached on requests per day (RPD)"}}`, headers: []string{"Retry-After: 3600"}, pause: time.Hour},
		{name: "OpenAI's money", status: 429, body: `{"error":{"type":"insufficient_quota","code":"insufficient_quota"}}`},
		{name: "Anthropic's money", status: 429, body: `{"type":"error","error":{"type":"rate_limit_error","details":{"error_code":"enforced_spend_limit_reached"}}}`},
		{name: "Anthropic's own limit of money", status: 400, body: `{"type":"error","error":{"type":"invalid_request_error","message":"You have reached your specified API usage limits"}}`},
		{name: "Mistral's plan", status: 429, headers: []string{"X-Ratelimit-Limit-Req-Minute: 0"}},
		{name: "OpenRouter's credits", status: 402},

		{name: "a bare 503", status: 503, slots: true},
		{name: "OpenAI's overload", status: 503, body: `{"error":{"code":"server_is_overloaded"}}`, slots: true},
		{name: "OpenAI's flex", status: 429, body: `{"error":{"code":"resource_unavailable"}}`, slots: true},
		{name: "Anthropic's overload", status: 529, body: `{"type":"error","error":{"type":"overloaded_error"}}`, slots: true},
		{name: "overload with a time", status: 503, headers: []string{"Retry-After: 3"}, slots: true, pause: 3 * time.Second},
	} {
		inBubble(t, test.name, func(t *testing.T) {
			rl := newLimiter(t, bothAdapt)
			exchange(t, &llmhttp.Transport{Limiter: rl, Base: reply(test.status, test.body, test.headers...)}, chatURL, `{"model":"m"}`)
			checkFound(t, rl, test.rate, test.slots)
			pause := max(time.Until(rl.Stats("m").CooldownUntil), 0)
			if pause < test.pause || pause > test.pause+min(test.pause/10, time.Second) {
				t.Errorf("it pauses for %v, want %v", pause, test.pause)
			}
		})
	}
}

// A model that adapts one of its limits keeps the pause for what the other would answer, and so
// does one whose limit is in the headers.
func TestAdaptivePausesForTheOther(t *testing.T) {
	for _, test := range []struct {
		name   string
		quota  ratelimit.ModelQuota
		status int
		header string
		pauses bool
	}{
		{"429, the rate adapts", ratelimit.ModelQuota{AdaptiveFloorRPM: 60}, 429, "", false},
		{"429, only the calls in flight adapt", ratelimit.ModelQuota{AdaptiveFloorInFlight: 5}, 429, "", true},
		{"429, the header says the limit", ratelimit.ModelQuota{AdaptiveFloorRPM: 60}, 429, "X-Ratelimit-Limit-Requests: 60", true},
		{"503, the calls in flight adapt", ratelimit.ModelQuota{AdaptiveFloorInFlight: 5}, 503, "", false},
		{"503, only the rate adapts", ratelimit.ModelQuota{AdaptiveFloorRPM: 60}, 503, "", true},
	} {
		inBubble(t, test.name, func(t *testing.T) {
			rl := adaptiveLimiter(t, test.quota)
			for _, status := range []int{200, test.status} {
				exchange(t, &llmhttp.Transport{Limiter: rl, Base: reply(status, ``, test.header)}, chatURL, `{"model":"m"}`)
			}
			if until := rl.Stats("m").CooldownUntil; test.pauses == until.IsZero() {
				t.Errorf("it pauses until %v, want a pause: %v", until, test.pauses)
			}
		})
	}
}

// Twenty refusals of one event are one decrease, however long they take to come back.
func TestAdaptiveOneEvent(t *testing.T) {
	for _, test := range []struct {
		name   string
		status int
		spread time.Duration
	}{
		{"429 at once", 429, 0}, {"429 in ten seconds", 429, 500 * time.Millisecond},
		{"529 at once", 529, 0}, {"529 in ten seconds", 529, 500 * time.Millisecond},
	} {
		inBubble(t, test.name, func(t *testing.T) {
			rl := newLimiter(t, bothAdapt)
			var mu sync.Mutex
			sent := 0
			tr := &llmhttp.Transport{Limiter: rl, Base: base(func(req *http.Request) (*http.Response, error) {
				mu.Lock()
				sent++
				takes := time.Second + time.Duration(sent)*test.spread
				mu.Unlock()
				time.Sleep(takes)
				return response(req, test.status, ``), nil
			})}
			var all sync.WaitGroup
			for range 20 {
				all.Go(func() { exchange(t, tr, chatURL, `{"model":"m"}`) })
			}
			all.Wait()
			checkFound(t, rl, test.status == 429, test.status == 529)
		})
	}
}

// timeoutError is an error of a Base whose time is over.
type timeoutError struct{ error }

func (timeoutError) Timeout() bool   { return true }
func (timeoutError) Temporary() bool { return false }

// A call without an answer in time lowers the calls in flight, and so do failures in a row. What
// the caller does, and a failure that may be chance, lowers nothing. Config.Events is told of none.
func TestAdaptiveTimeouts(t *testing.T) {
	const slow, refused, unknown, broken, dial = "slow", "refused", "unknown", "broken", "dial"
	for _, test := range []struct {
		name     string
		calls    []string // what becomes of them
		deadline time.Duration
		client   time.Duration // http.Client.Timeout
		cancel   time.Duration // when the caller gives up
		lowered  bool
	}{
		{name: "the headers' time is over", calls: []string{"headers"}, lowered: true},
		{name: "the connection's time is over", calls: []string{dial}, lowered: true},
		{name: "the context's deadline", calls: []string{slow}, deadline: 30 * time.Second, lowered: true},
		{name: "the client's time", calls: []string{slow}, client: 30 * time.Second, lowered: true},
		{name: "the caller gives up", calls: []string{slow}, cancel: 30 * time.Second},
		{name: "the caller gives up, three times", calls: []string{slow, slow, slow}, cancel: 30 * time.Second},
		{name: "the caller gives up before the deadline", calls: []string{slow}, deadline: time.Minute, cancel: 30 * time.Second},
		{name: "no name server", calls: []string{unknown}},
		{name: "nobody listens", calls: []string{refused}},
		{name: "the connection breaks", calls: []string{broken}},
		{name: "nobody listens, three times", calls: []string{refused, refused, refused}, lowered: true},
		{name: "failures of all kinds, three times", calls: []string{broken, "500", unknown}, lowered: true},
		{name: "a failure, three times", calls: []string{"500", "500", "502"}, lowered: true},
		{name: "a failure twice, an answer, and twice again", calls: []string{"500", "500", "200", broken, "502"}},
	} {
		inBubble(t, test.name, func(t *testing.T) {
			var l listener
			rl := newLimiterWith(t, ratelimit.Config{Events: &l, Quotas: map[string]ratelimit.ModelQuota{"m": bothAdapt}})
			becomes := ""
			tr := &llmhttp.Transport{Limiter: rl, Base: base(func(req *http.Request) (*http.Response, error) { return become(req, becomes) })}
			for _, becomes = range test.calls {
				ctx := t.Context()
				if test.deadline > 0 {
					bounded, cancel := context.WithTimeout(ctx, test.deadline)
					defer cancel()
					ctx = bounded
				}
				if test.cancel > 0 {
					cancelled, cancel := context.WithCancel(ctx)
					time.AfterFunc(test.cancel, cancel)
					ctx = cancelled
				}
				client := &http.Client{Timeout: test.client, Transport: tr}
				req, _ := http.NewRequestWithContext(ctx, http.MethodPost, chatURL, strings.NewReader(`{"model":"m"}`))
				if resp, err := client.Do(req); err == nil {
					readAll(t, resp)
				}
			}
			checkFound(t, rl, false, test.lowered)
			for _, e := range l.take() {
				if e.Kind == ratelimit.EventProviderRefused {
					t.Errorf("told %+v", e.Event)
				}
			}
		})
	}
}

// become makes of a call what the word says.
func become(req *http.Request, what string) (*http.Response, error) {
	dialed := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	switch what {
	case "refused":
		return nil, dialed(syscall.ECONNREFUSED)
	case "dial":
		return nil, dialed(timeoutError{errors.New("i/o timeout")})
	case "unknown":
		return nil, dialed(&net.DNSError{Err: "i/o timeout", IsTimeout: true})
	}
	io.Copy(io.Discard, req.Body)
	req.Body.Close()
	switch what {
	case "headers":
		return nil, timeoutError{errors.New("timeout awaiting response headers")}
	case "broken":
		return nil, syscall.ECONNRESET
	case "own deadline":
		time.Sleep(5 * time.Second)
		return nil, context.DeadlineExceeded
	case "slow":
		return nil, sleep(req.Context(), time.Hour)
	case "500":
		return response(req, 500, ``), nil
	case "502":
		return response(req, 502, ``), nil
	}
	return response(req, 200, someUsage), nil
}

// A deadline that passed because the call waited for its place says nothing of the provider.
func TestAdaptiveDeadlineInLine(t *testing.T) {
	for _, test := range []struct {
		name    string
		held    time.Duration // by other calls
		answer  time.Duration // that another call took
		becomes string
		lowered bool
	}{
		{"the provider had 20 s of 30", 10 * time.Second, 0, "slow", true},
		{"the provider had 20 s of 30, and needs 15", 10 * time.Second, 15 * time.Second, "slow", true},
		{"the provider had 20 s of 30, and needs 25", 10 * time.Second, 25 * time.Second, "slow", false},
		{"the provider had 10 s of 30", 20 * time.Second, 0, "slow", false},
		{"the provider had all of Base's own 5 s", 20 * time.Second, 0, "own deadline", true},
	} {
		inBubble(t, test.name, func(t *testing.T) {
			rl := newLimiter(t, bothAdapt)
			before := 0
			becomes := "answered after a while"
			tr := &llmhttp.Transport{Limiter: rl, Base: base(func(req *http.Request) (*http.Response, error) {
				if before = rl.Stats("m").AdaptiveInFlight; becomes != test.becomes {
					time.Sleep(test.answer)
				}
				return become(req, becomes)
			})}
			post := func(ctx context.Context) (*http.Response, error) {
				req, _ := http.NewRequestWithContext(ctx, http.MethodPost, chatURL, strings.NewReader(`{"model":"m"}`))
				return tr.RoundTrip(req)
			}
			if resp, err := post(t.Context()); err != nil {
				t.Fatal(err)
			} else {
				resp.Body.Close()
			}
			becomes = test.becomes
			time.Sleep(time.Second) // the next may start
			for range 20 {
				held, d := rl.Reserve("m", 0, 0)
				if !d.Allowed {
					time.Sleep(d.RetryAfter)
					held, d = rl.Reserve("m", 0, 0)
				}
				if !d.Allowed {
					t.Fatal(d.Reason)
				}
				time.AfterFunc(test.held, held.Cancel)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			if _, err := post(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			if after := rl.Stats("m").AdaptiveInFlight; (after < before) != test.lowered || before == 0 {
				t.Errorf("%d in flight became %d, lowered: want %v", before, after, test.lowered)
			}
		})
	}
}
