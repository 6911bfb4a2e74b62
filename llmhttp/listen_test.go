package llmhttp_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// How long a model pauses after an answer. Jitter makes it up to a tenth longer, and
// never more than a second.
func TestCooldown(t *testing.T) {
	for _, test := range []struct {
		name    string
		status  int
		headers []string
		body    string
		want    time.Duration
	}{
		{"429 with Retry-After", 429, []string{"Retry-After: 7"}, ``, 7 * time.Second},
		{"429 with retry-after-ms", 429, []string{"Retry-After-Ms: 1500", "Retry-After: 30"}, ``, 1500 * time.Millisecond},
		{"429 with a date", 429, []string{"Retry-After: Sat, 01 Jan 2000 00:00:40 GMT"}, ``, 40 * time.Second},
		{"429 that does not say how long", 429, nil, ``, time.Second},
		{"429 that says nonsense", 429, []string{"Retry-After: 1e21"}, ``, time.Second},
		{"429 that says -5", 429, []string{"Retry-After: -5"}, ``, time.Second},
		{"429 that says an hour: two minutes at most", 429, []string{"Retry-After: 3600"}, ``, 2 * time.Minute},
		{"529", 529, []string{"Retry-After: 3"}, `{"type":"error","error":{"type":"overloaded_error"}}`, 3 * time.Second},
		{"503", 503, nil, `{"error":{"code":"server_is_overloaded"}}`, time.Second},
		{"500", 500, nil, `{}`, 0},
		{"400", 400, nil, `{}`, 0},
		{"200", 200, []string{"Retry-After: 7"}, `{}`, 0},
		{"no money: no use waiting", 429, []string{"X-Should-Retry: false"}, `{"error":{"type":"insufficient_quota","code":"insufficient_quota"}}`, 0},
		{"Gemini says in the body how long", 429, nil, `{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"GenerateRequestsPerMinutePerProjectPerModel-FreeTier","quotaValue":"15"}]},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"36s"}]}}`, 36 * time.Second},
		{"Gemini's day ends at midnight Pacific, whatever the delay", 429, nil, `{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier","quotaValue":"20"}]},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"36s"}]}}`, 8 * time.Hour},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // which begins at midnight UTC, the first of January 2000
				rl := newLimiter(t, ratelimit.ModelQuota{MaxTPM: 1_000_000})
				var problem llmhttp.Event
				tr := &llmhttp.Transport{Limiter: rl, Base: reply(test.status, test.body, test.headers...), OnEvent: func(e llmhttp.Event) {
					if e.Kind == llmhttp.EventProblem {
						problem = e
					}
				}}
				resp, err := post(t, tr, chatURL, `{"model":"m"}`)
				if err != nil {
					t.Fatal(err)
				}
				if got := readAll(t, resp); got != test.body || resp.StatusCode != test.status {
					t.Errorf("the answer came as %d %q", resp.StatusCode, got)
				}
				d := rl.Decide("m", 0)
				if d.RetryAfter < test.want || d.RetryAfter > test.want+min(test.want/10, time.Second) || (test.want > 0) != (d.Code == ratelimit.DecisionCooldown) {
					t.Errorf("it pauses for %v (%s), want %v", d.RetryAfter, d.Code, test.want)
				}
				if problem.Until != rl.Stats("m").CooldownUntil && !problem.Until.Equal(rl.Stats("m").CooldownUntil) {
					t.Errorf("the event says until %v, the limiter %v", problem.Until, rl.Stats("m").CooldownUntil)
				}
				if (test.status >= 400) != (problem.Problem != nil) {
					t.Errorf("problem: %+v", problem)
				}
				s := rl.Stats("m")
				refused := test.status < 500 || test.status == 529 || test.status == 503
				if s.RPM != 1 || (s.TPM == 0) != (refused && test.status >= 400) || s.InFlight != 0 {
					t.Errorf("charged %+v", s)
				}
			})
		})
	}
}

// A shorter pause does not shorten a longer one; the pauses of a provider that does not
// say how long grow, once for each burst, and begin anew after an answer.
func TestPausesGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{})
		status := 429
		tr := &llmhttp.Transport{Limiter: rl, Base: base(func(req *http.Request) (*http.Response, error) {
			return response(req, status, ``), nil
		})}
		call := func() time.Duration {
			t.Helper()
			resp, err := post(t, tr, chatURL, `{"model":"m"}`)
			if err != nil {
				t.Fatal(err)
			}
			readAll(t, resp)
			return rl.Decide("m", 0).RetryAfter
		}
		for _, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
			want *= time.Second
			if got := call(); got < want || got > want+min(want/10, time.Second) {
				t.Errorf("it pauses for %v, want %v", got, want)
			}
		}
		status = 200
		call()
		status = 429
		if got := call(); got > 2*time.Second {
			t.Errorf("after an answer it pauses for %v", got)
		}
		rl.Cooldown("m", time.Now().Add(time.Hour))
		// A call that was in flight when that began.
		held := rl.Decide("m", 0).RetryAfter
		if held < 59*time.Minute {
			t.Fatal(held)
		}
	})
}

// What a provider says of its limits reaches the limiter.
func TestLimitsAreLearned(t *testing.T) {
	for _, test := range []struct {
		name    string
		headers []string
		body    string
		status  int
		want    ratelimit.ModelQuota
	}{
		{"OpenAI", []string{"x-ratelimit-limit-requests: 60", "x-ratelimit-limit-tokens: 150000", "x-ratelimit-reset-requests: 1s", "x-ratelimit-remaining-requests: 59"}, `{}`, 200, ratelimit.ModelQuota{MaxRPM: 60, MaxTPM: 150_000}},
		{"Groq", []string{"x-ratelimit-limit-requests: 14400", "x-ratelimit-remaining-requests: 14370", "x-ratelimit-reset-requests: 2m59.56s", "x-ratelimit-limit-tokens: 18000"}, `{}`, 200, ratelimit.ModelQuota{MaxRPD: 14400, MaxTPM: 18000}},
		{"Anthropic", []string{"anthropic-ratelimit-requests-limit: 50", "anthropic-ratelimit-input-tokens-limit: 40000", "anthropic-ratelimit-output-tokens-limit: 8000"}, `{}`, 200, ratelimit.ModelQuota{MaxRPM: 50, MaxITPM: 40_000, MaxOTPM: 8000}},
		{"Mistral", []string{"x-ratelimit-limit-req-minute: 120", "x-ratelimit-limit-tokens-minute: 500000"}, `{}`, 200, ratelimit.ModelQuota{MaxRPM: 120, MaxTPM: 500_000}},
		{"Gemini, in a refusal", nil, `{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaMetric":"generativelanguage.googleapis.com/generate_content_free_tier_requests","quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier","quotaValue":"20"}]}]}}`, 429, ratelimit.ModelQuota{MaxRPD: 20}},
		{"nonsense", []string{"x-ratelimit-limit-requests: -1", "x-ratelimit-limit-tokens: 1e300"}, `{}`, 200, ratelimit.ModelQuota{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, learns := range []bool{true, false} {
				rl := newLimiterWith(t, ratelimit.Config{
					LearnQuotas: learns, Quotas: map[string]ratelimit.ModelQuota{"other": {MaxRPM: 1}},
				})
				tr := &llmhttp.Transport{Limiter: rl, Base: reply(test.status, test.body, test.headers...)}
				resp, err := post(t, tr, chatURL, `{"model":"m"}`)
				if err != nil {
					t.Fatal(err)
				}
				readAll(t, resp)
				want := test.want
				if !learns {
					want = ratelimit.ModelQuota{}
				}
				if _, q, _ := rl.QuotaFor("m"); q != want {
					t.Errorf("LearnQuotas %t: the quota is %+v, want %+v", learns, q, want)
				}
			}
		})
	}
}

// What remains tightens, and what others use of the same account is held back.
func TestRemainingTightens(t *testing.T) {
	for _, test := range []struct {
		name    string
		headers []string
		room    int // requests after the first
	}{
		{"nothing said", nil, 9},
		{"as we count", []string{"x-ratelimit-limit-requests: 10", "x-ratelimit-remaining-requests: 9", "x-ratelimit-reset-requests: 6s"}, 9},
		{"others have used some", []string{"x-ratelimit-limit-requests: 10", "x-ratelimit-remaining-requests: 3", "x-ratelimit-reset-requests: 42s"}, 3},
		{"more than we think: no", []string{"x-ratelimit-limit-requests: 10", "x-ratelimit-remaining-requests: 50"}, 9},
		{"-1", []string{"x-ratelimit-limit-requests: -1", "x-ratelimit-remaining-requests: -1"}, 9},
		{"nothing is left", []string{"anthropic-ratelimit-requests-remaining: 0", "anthropic-ratelimit-requests-reset: 2000-01-01T00:00:30Z"}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 10})
				tr := &llmhttp.Transport{Limiter: rl, Base: reply(200, `{}`, test.headers...)}
				resp, err := post(t, tr, chatURL, `{"model":"m"}`)
				if err != nil {
					t.Fatal(err)
				}
				readAll(t, resp)
				room := 0
				for range 20 {
					if r, _ := rl.Reserve("m", 0, 0); r != nil {
						room++
						defer r.Cancel()
					}
				}
				if room != test.room {
					t.Errorf("room for %d, want %d", room, test.room)
				}
				time.Sleep(61 * time.Second)
				if !rl.CanSend("m", 0) {
					t.Error("no room after a minute")
				}
			})
		})
	}
}

// Anthropic rounds what remains to thousands.
func TestRoundedRemaining(t *testing.T) {
	rl := newLimiter(t, ratelimit.ModelQuota{MaxITPM: 40_000})
	tr := &llmhttp.Transport{Limiter: rl, Base: reply(200, `{"usage":{"input_tokens":400,"output_tokens":1}}`,
		"anthropic-ratelimit-input-tokens-limit: 40000", "anthropic-ratelimit-input-tokens-remaining: 39000")}
	resp, err := post(t, tr, "http://llm.test/v1/messages", `{"model":"m","max_tokens":1,"messages":["`+strings.Repeat("x", 1600)+`"]}`)
	if err != nil {
		t.Fatal(err)
	}
	readAll(t, resp)
	if !rl.CanSend("m", 39_500) {
		t.Error("rounding was taken for tokens of others")
	}
}

// No answer, however strange, takes much memory or time, or is changed.
func TestStrangeAnswers(t *testing.T) {
	long := strings.Repeat("x", 3<<20)
	for _, test := range []struct {
		name, body string
		status     int
		headers    []string
	}{
		{"an endless line", "data: {\"choices\":[{\"delta\":{\"content\":\"" + long, 200, nil},
		{"an endless error", long, 429, nil},
		{"an endless header", `{}`, 200, []string{"x-ratelimit-remaining-requests: " + long[:100_000], "Retry-After: " + long[:100_000]}},
		{"deep JSON", strings.Repeat(`[`, 1<<20), 200, nil},
		{"a usage of usages", strings.Repeat(`{"usage":`, 1000) + `1` + strings.Repeat(`}`, 1000), 200, nil},
		{"bytes", "\x00\xff\xfe" + long[:1000], 200, nil},
		{"wrong names", `{"usage":{"prompt_tokens":{"prompt_tokens":5}}}`, 200, []string{"Content-Encoding: identity"}},
		{"compressed, as the caller asked", "\x1f\x8b\x08", 200, []string{"Content-Encoding: gzip"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			rl := newLimiter(t, ratelimit.ModelQuota{MaxTPM: 1_000_000, MaxRPM: 100})
			tr := &llmhttp.Transport{Limiter: rl, Base: reply(test.status, test.body, test.headers...)}
			resp, err := post(t, tr, chatURL, `{"model":"m","stream":true}`)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(resp.Body)
			if err != nil || string(got) != test.body {
				t.Errorf("%d bytes came, of %d; %v", len(got), len(test.body), err)
			}
			if s := rl.Stats("m"); s.RPM != 1 || s.InFlight != 0 || s.TPM == 0 && test.status < 400 {
				t.Errorf("charged %+v", s)
			}
		})
	}
}
