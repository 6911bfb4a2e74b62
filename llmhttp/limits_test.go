package llmhttp_test

import (
	"io"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// The limits that a provider reports reach the limiter.
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

// A remaining count below our own counts as external usage of the same account.
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

// Anthropic rounds remaining counts to thousands.
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

// Absurd reports of a provider deny no call for longer than a day.
func TestObserveExtremes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.yaml") // never written
	odd := []int{math.MinInt, -1, 0, 1, 1 << 30, 1<<30 + 1, math.MaxInt}
	quota := ratelimit.ModelQuota{MaxRPM: 10, MaxTPM: 100, MaxITPM: 100, MaxOTPM: 100, MaxRPD: 1000, MaxTPD: 1000}
	times := []time.Duration{math.MinInt64, -1, 0, 1, time.Hour, math.MaxInt64}
	for _, learns := range []bool{false, true} {
		for _, limit := range odd {
			for _, left := range odd {
				for _, reset := range times {
					rl, err := ratelimit.NewWithConfig(ratelimit.Config{FilePath: path, LearnQuotas: learns, Quotas: map[string]ratelimit.ModelQuota{"m": quota}})
					if err != nil {
						t.Fatal(err)
					}
					rl.RecordUsage("m", 3, 4)
					one := ratelimit.ProviderLimit{Limit: limit, Remaining: left, HasRemaining: true, Reset: reset, Rounding: limit}
					for _, sent := range []time.Time{{}, time.Unix(0, 0), time.Now(), time.Now().Add(1e6 * time.Hour), time.Unix(1<<30, 0)} {
						rl.Observe("m", ratelimit.ProviderLimits{
							RPM: one, TPM: one, ITPM: one, OTPM: one, RPD: one, TPD: one, SentAt: sent,
							Counted: ratelimit.ModelStats{RPM: left, TPM: left, ITPM: limit}, UncountedRequests: limit, Uncounted: ratelimit.Usage{PromptTokens: limit, OutputTokens: left},
						})
					}
					d := rl.Decide("m", 1)
					_, q, _ := rl.QuotaFor("m")
					if d.RetryAfter < 0 || d.RetryAfter > 24*time.Hour || q.MaxRPM > 10 || q.MaxTPM > 100 || q.MaxRPM < 1 || q.MaxTPD < 1 || q.MaxTPD > 1000 {
						t.Fatalf("limit %d, left %d, reset %v: %+v, %+v", limit, left, reset, d, q)
					}
				}
			}
		}
	}
}

// No answer, however strange, takes much memory or time, or is changed on its way.
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
