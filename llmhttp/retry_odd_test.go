package llmhttp_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// What a try that is repeated must not do to the next one.
func TestRetryOfOddAnswers(t *testing.T) {
	const ok = `{"usage":{"prompt_tokens":1,"completion_tokens":1}}`
	for _, test := range []struct {
		name  string
		quota ratelimit.ModelQuota
		first func(*http.Request) *http.Response
		calls int
	}{
		{"a long answer does not keep the only slot", ratelimit.ModelQuota{MaxInFlight: 1}, func(req *http.Request) *http.Response {
			return response(req, 500, strings.Repeat("x", 100<<10))
		}, 2},
		{"an answer without a body", ratelimit.ModelQuota{MaxInFlight: 1}, func(req *http.Request) *http.Response {
			resp := response(req, 500, "")
			resp.Body = nil
			return resp
		}, 2},
		{"a minute is not more than a minute", ratelimit.ModelQuota{}, func(req *http.Request) *http.Response {
			return response(req, 429, "{}", "Retry-After: 60")
		}, 2},
		{"the provider says not to try again", ratelimit.ModelQuota{}, func(req *http.Request) *http.Response {
			return response(req, 500, "{}", "X-Should-Retry: false")
		}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rl := newLimiter(t, test.quota)
				calls := 0
				tr := &llmhttp.Transport{Limiter: rl, Retry: llmhttp.Retry{Max: 1}, Base: base(func(req *http.Request) (*http.Response, error) {
					io.Copy(io.Discard, req.Body)
					if calls++; calls == 1 {
						return test.first(req), nil
					}
					return response(req, 200, ok), nil
				})}
				defer func() {
					if r := recover(); r != nil {
						t.Errorf("panic: %v", r)
					}
				}()
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
				defer cancel()
				req, _ := http.NewRequestWithContext(ctx, "POST", chatURL, strings.NewReader(`{"model":"m"}`))
				resp, err := tr.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				readAll(t, resp)
				if calls != test.calls {
					t.Errorf("%d calls, want %d; the last was answered %d", calls, test.calls, resp.StatusCode)
				}
			})
		})
	}
}
