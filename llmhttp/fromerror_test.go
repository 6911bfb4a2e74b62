package llmhttp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// Errors of the forms that SDKs have; internal/test/sdktest tests the SDKs themselves.
type (
	responseError struct { // openai-go, anthropic-sdk-go
		StatusCode int
		Request    *http.Request
		Response   *http.Response
		raw        string
	}
	valueError struct { // genai
		Code    int
		Message string
		Status  string
		Details []map[string]any
	}
	messageError struct { // sashabaranov/go-openai
		Code           any
		Message        string
		Type           string
		HTTPStatusCode int
	}
	bodyError struct {
		HTTPStatusCode int
		Err            error
		Body           []byte
	}
	rawResponseError struct{ RawResponse *http.Response }
	statusError      struct{ StatusCode int }
)

func (e *responseError) Error() string   { return fmt.Sprintf("POST: %d %s", e.StatusCode, e.raw) }
func (e *responseError) RawJSON() string { return e.raw }
func (e valueError) Error() string       { return fmt.Sprintf("Error %d, Message: %s", e.Code, e.Message) }
func (e *messageError) Error() string    { return "status code: 429, message: " + e.Message }
func (e *bodyError) Error() string       { return fmt.Sprintf("body: %s", e.Body) }
func (e *bodyError) Unwrap() error       { return e.Err }
func (e rawResponseError) Error() string { return "failed" }
func (e *statusError) Error() string     { return "failed" }

func TestFromErrorRefused(t *testing.T) {
	const path = "/v1/chat/completions"
	rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"ft:x (\"é\")": {MaxRPM: 1}}})
	rl.RecordUsage(`ft:x ("é")`, 1, 1)
	refuse := func(asError bool, path string) (*http.Response, string, error) {
		tr := &llmhttp.Transport{Limiter: rl, MaxWait: time.Second, RefuseWithError: asError}
		resp, err := (&http.Client{Transport: tr}).Post("http://llm.test"+path, "application/json", strings.NewReader(`{"model":"ft:x (\"é\")"}`))
		if err != nil {
			return nil, "", err
		}
		return resp, readAll(t, resp), nil
	}
	resp, body, err := refuse(false, path)
	if err != nil {
		t.Fatal(err)
	}
	_, asText, _ := refuse(false, "/api/chat")
	_, _, asError := refuse(true, path)
	var top struct{ Error struct{ Message string } }
	if err := json.Unmarshal([]byte(body), &top); err != nil {
		t.Fatal(err)
	}
	message := top.Error.Message
	inner := strings.TrimSuffix(strings.TrimPrefix(body, `{"error":`), "}")
	for _, test := range []struct {
		name string
		err  error
	}{
		{"Classify", llmhttp.Classify(resp)},
		{"RefuseWithError", asError},
		{"the limiter's", &ratelimit.LimitError{Model: `ft:x ("é")`, Decision: rl.Decide(`ft:x ("é")`, 0), Err: ratelimit.ErrMaxWait}},
		{"openai-go", &responseError{StatusCode: 429, Response: resp, raw: inner}},
		{"anthropic-sdk-go", &responseError{StatusCode: 429, Response: resp, raw: body}},
		{"genai", valueError{Code: 429, Message: message, Status: "RESOURCE_EXHAUSTED"}},
		{"genai, as a pointer", &valueError{Code: 429, Message: message}},
		{"go-openai", &messageError{Code: "rate_limit_exceeded", Message: message, HTTPStatusCode: 429}},
		{"go-openai, of a body in another format", &bodyError{HTTPStatusCode: 429, Err: errors.New("unmarshal"), Body: []byte(asText)}},
		{"azcore", rawResponseError{resp}},
		{"langchaingo", errors.New("API returned unexpected status code: 429: " + message)},
		{"text with the body", errors.New("status 429: " + body)},
		{"in an url.Error", &url.Error{Op: "Post", URL: "http://llm.test", Err: &messageError{Message: message, HTTPStatusCode: 429}}},
		{"joined", errors.Join(errors.New("first"), fmt.Errorf("chat: %w", &responseError{StatusCode: 429, Response: resp, raw: body}))},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, err := range []error{test.err, fmt.Errorf("summarize: %w", test.err)} {
				var wg sync.WaitGroup
				for range 2 {
					wg.Go(func() {
						p, ok := llmhttp.FromError(err)
						if !ok || p == nil {
							t.Errorf("nothing found in %v", err)
							return
						}
						if !errors.Is(p, llmhttp.ErrNotSent) || !errors.Is(p, ratelimit.ErrNotSent) || p.Kind != llmhttp.NotSent || p.Status != 429 || p.Code != "rpm_exceeded" || p.Model != `ft:x ("é")` ||
							!errors.Is(p, ratelimit.ErrMaxWait) || p.RetryAfter < 59*time.Second || p.RetryAfter > time.Minute+time.Millisecond {
							t.Errorf("found %+v", *p)
						}
					})
				}
				wg.Wait()
			}
		})
	}
}

func TestFromErrorOfProviders(t *testing.T) {
	header := http.Header{"Retry-After": {"7"}}
	answer := func(status int) *http.Response {
		return &http.Response{StatusCode: status, Header: header}
	}
	const quota = "GenerateRequestsPerDayPerProjectPerModel-FreeTier"
	for _, test := range []struct {
		name string
		err  error
		is   error // nil: matches none
		kind llmhttp.ProblemKind
		code string
		wait time.Duration
	}{
		{"openai-go, rate limited", &responseError{StatusCode: 429, Response: answer(429), raw: `{"code":"rate_limit_exceeded","type":"tokens","message":"x"}`}, llmhttp.ErrRateLimited, llmhttp.RateLimited, "rate_limit_exceeded", 7 * time.Second},
		{"openai-go, exhausted", &responseError{StatusCode: 429, Response: answer(429), raw: `{"code":"insufficient_quota","type":"insufficient_quota"}`}, llmhttp.ErrExhausted, llmhttp.Exhausted, "insufficient_quota", 0},
		{"openai-go, usage of the organization", &responseError{StatusCode: 429, Response: answer(429), raw: `{"code":"organization_usage_limit_exceeded","type":"tokens"}`}, llmhttp.ErrExhausted, llmhttp.Exhausted, "organization_usage_limit_exceeded", 0},
		{"openai-go, quoting a prompt", &responseError{StatusCode: 400, Response: answer(400), raw: `{"code":"bad","message":"not go-ratelimit: the call was not sent (rpm_exceeded): model \"m\""}`}, nil, llmhttp.Rejected, "bad", 7 * time.Second},
		{"anthropic-sdk-go, overloaded", &responseError{StatusCode: 529, Response: answer(529), raw: `{"type":"error","error":{"type":"overloaded_error","message":"x"}}`}, llmhttp.ErrOverloaded, llmhttp.Overloaded, "overloaded_error", 7 * time.Second},
		{"genai, of the day", valueError{Code: 429, Status: "RESOURCE_EXHAUSTED", Message: "x", Details: []map[string]any{
			{"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": []any{map[string]any{"quotaId": quota, "quotaValue": "50"}}},
		}}, llmhttp.ErrDailyQuota, llmhttp.DailyQuota, "RESOURCE_EXHAUSTED", 0},
		{"genai, with a delay", valueError{Code: 429, Status: "RESOURCE_EXHAUSTED", Message: "x", Details: []map[string]any{
			{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "21.5s"},
		}}, llmhttp.ErrRateLimited, llmhttp.RateLimited, "RESOURCE_EXHAUSTED", 21500 * time.Millisecond},
		{"genai, no text at all", valueError{Code: 503}, llmhttp.ErrOverloaded, llmhttp.Overloaded, "", 0},
		{"go-openai", &messageError{Code: "insufficient_quota", Message: "x", Type: "insufficient_quota", HTTPStatusCode: 429}, llmhttp.ErrExhausted, llmhttp.Exhausted, "insufficient_quota", 0},
		{"go-openai, a number for a code", &messageError{Code: 500, Message: "x", HTTPStatusCode: 500}, nil, llmhttp.Failed, "", 0},
		{"go-openai, a body", &bodyError{HTTPStatusCode: 502, Body: []byte("<html>")}, nil, llmhttp.Failed, "", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, ok := llmhttp.FromError(fmt.Errorf("call: %w", test.err))
			if !ok || p.Kind != test.kind || p.Code != test.code || p.RetryAfter != test.wait || test.is != nil && !errors.Is(p, test.is) || errors.Is(p, llmhttp.ErrNotSent) {
				t.Errorf("found %+v, %v", p, ok)
			}
		})
	}
}

// Errors that tell nothing of an answer are no problems.
func TestFromErrorOfOthers(t *testing.T) {
	var none *responseError
	deep := errors.New("end")
	for range 1000 {
		deep = fmt.Errorf("%w", deep)
	}
	for _, err := range []error{
		nil, errors.New("status code: 429"), context.Canceled, context.DeadlineExceeded, ratelimit.ErrClosed,
		&statusError{429}, none, (*llmhttp.Problem)(nil), deep,
		&responseError{StatusCode: 200, Response: &http.Response{StatusCode: 200}},
		valueError{Code: 7, Message: "not HTTP"}, valueError{}, bodyErrorOf(nil),
		&llmhttp.RedirectError{From: "a", To: "b"}, errors.Join(nil, errors.New("x")),
	} {
		if p, ok := llmhttp.FromError(err); ok || p != nil {
			t.Errorf("found %v in %v", p, err)
		}
	}
}

func bodyErrorOf(body []byte) error { return &bodyError{HTTPStatusCode: 500, Body: body} }

// Whatever text comes after the mark, it is a refusal, and nothing in it is believed too far.
func FuzzFromErrorText(f *testing.F) {
	const mark = "go-ratelimit: the call was not sent"
	for _, text := range []string{
		"", mark, mark + ` (rpm_exceeded, max_wait): model "m": x, free in 59.9s: maximum wait exceeded`, mark + ` (`,
		mark + ` (spend_exceeded, never_fits): model "m", pool "p": x: request never fits its quota`,
		mark + ` (x, max_wait): model \"m\": x` + "\n" + `: maximum wait exceeded`, mark + ` (, ): model `,
		mark + ` (rpm_exceeded): model \"m\": x`, mark + `: model "m`, mark + ` (x): model "m": x, free in 1h1h1h`, mark + ` (x): model "m", free in -5s`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, ok := llmhttp.FromError(errors.New(text))
		if ok != strings.Contains(text, mark) {
			t.Fatalf("found %v", p)
		}
		if !ok {
			return
		}
		if p.Kind != llmhttp.NotSent || p.RetryAfter < 0 || p.RetryAfter > 32*24*time.Hour || len(p.Reason) > 512 ||
			strings.ContainsAny(p.Reason, "\n\r\x00") || len(p.Code) > 64 || len(p.Model) > 1024 || strings.ContainsAny(p.Model, "\n\r\x00") {
			t.Errorf("found %+v", *p)
		}
	})
}
