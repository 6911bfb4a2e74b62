package llmhttp_test

import (
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// The answer determines the pause of a model. Jitter adds up to a tenth, at most a second.
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
				var cause ratelimit.Cause
				if problem.Problem != nil {
					cause = map[llmhttp.ProblemKind]ratelimit.Cause{
						llmhttp.RateLimited: "rate_limited", llmhttp.DailyQuota: "daily_quota", llmhttp.Overloaded: "overloaded",
					}[problem.Problem.Kind]
				}
				if d.Cause != cause {
					t.Errorf("the cause is %q, want %q", d.Cause, cause)
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

// Pauses of unknown length grow, once for each burst, and begin anew after an answer. A shorter
// pause does not shorten a longer one.
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

// Used-up money does not make the next call wait, whatever Retry-After says.
func TestExhaustedDoesNotPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{})
		tr := &llmhttp.Transport{Limiter: rl, Base: reply(429, `{"error":{"type":"insufficient_quota","code":"insufficient_quota"}}`, "Retry-After: 60", "X-Should-Retry: false")}
		resp, err := post(t, tr, chatURL, `{"model":"m"}`)
		if err != nil {
			t.Fatal(err)
		}
		readAll(t, resp)
		if d := rl.Decide("m", 0); !d.Allowed {
			t.Errorf("the next one waits %v: %s", d.RetryAfter, d.Code)
		}
	})
}

// The answers to calls in flight do not shorten a longer pause.
func TestPauseIsNotShortened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{})
		var n int
		tr := &llmhttp.Transport{Limiter: rl, Base: base(func(req *http.Request) (*http.Response, error) {
			n++
			after := []string{"90", "1", "30", "0", "-5", "1e21", "Thu, 01 Jan 1970 00:00:00 GMT"}[n-1]
			time.Sleep(time.Duration(n) * time.Second)
			return response(req, 429, "{}", "Retry-After: "+after), nil
		})}
		var wg sync.WaitGroup
		for range 7 {
			wg.Go(func() {
				exchange(t, tr, chatURL, `{"model":"m"}`)
			})
			synctest.Wait()
		}
		began := time.Now()
		wg.Wait()
		until := rl.Decide("m", 0).RetryAfter + time.Since(began)
		if until < 91*time.Second || until > 92*time.Second {
			t.Errorf("it pauses until %v after the start", until)
		}
	})
}
