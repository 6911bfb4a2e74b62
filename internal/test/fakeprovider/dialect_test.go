package fakeprovider

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
)

// usage is what the calls of these tests use, unless they say otherwise.
var usage = Usage{Prompt: 100, CacheRead: 30, CacheWrite: 20, Output: 50, Thoughts: 10}

// post sends a body to a server of model "m" whose answers are a.
func post(t *testing.T, o Options, a Answer, path, body string) (*http.Response, string, *Server) {
	t.Helper()
	if a.Usage == (Usage{}) {
		a.Usage = usage
	}
	o.Answer = func(*Call) Answer { return a }
	s := New(o, map[string]Config{"m": {Limits: Limits{RPM: 100, TPM: 10_000, ITPM: 20_000, OTPM: 5000, RPD: 1000}}})
	server := httptest.NewServer(s)
	defer server.Close()
	resp, err := server.Client().Post(server.URL+path, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		text = append(text, " error: "+err.Error()...)
	}
	return resp, string(text), s
}

// at returns what is at a path in a JSON text, as "choices.0.message.content".
func at(t *testing.T, text, path string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	for _, key := range strings.Split(path, ".") {
		switch w := v.(type) {
		case map[string]any:
			v = w[key]
		case []any:
			var i int
			if fmt.Sscan(key, &i); i >= len(w) {
				return nil
			}
			v = w[i]
		default:
			return nil
		}
	}
	return v
}

// check compares what is at some paths of a JSON text with what should be there.
func check(t *testing.T, text string, want map[string]any) {
	t.Helper()
	for path, value := range want {
		if n, is := value.(int); is {
			value = float64(n)
		}
		if got := at(t, text, path); !reflect.DeepEqual(got, value) {
			t.Errorf("%s is %v, want %v, in %s", path, got, value, text)
		}
	}
}

var tokens40 = strings.Repeat(" tok", 40) // the text of 50 tokens, 10 of them thoughts

func TestJSON(t *testing.T) {
	for _, test := range []struct {
		path, body string
		want       map[string]any
	}{
		{"/v1/chat/completions", `{"model":"m","messages":[]}`, map[string]any{
			"object": "chat.completion", "model": "m", "choices.0.finish_reason": "stop",
			"usage.prompt_tokens": 100, "usage.completion_tokens": 50, "usage.total_tokens": 150,
			"usage.prompt_tokens_details.cached_tokens": 30, "usage.completion_tokens_details.reasoning_tokens": 10}},
		{"/openai/deployments/m/chat/completions?api-version=2024-10-21", `{"messages":[],"max_tokens":50}`, map[string]any{
			"model": "m", "choices.0.finish_reason": "length", "usage.total_tokens": 150}},
		{"/v1/responses", `{"model":"m","input":"Hi"}`, map[string]any{
			"object": "response", "status": "completed", "output.0.content.0.type": "output_text",
			"usage.input_tokens": 100, "usage.output_tokens": 50, "usage.total_tokens": 150,
			"usage.input_tokens_details.cached_tokens": 30, "usage.output_tokens_details.reasoning_tokens": 10}},
		{"/v1/responses", `{"model":"m","input":"Hi","max_output_tokens":50}`, map[string]any{
			"status": "incomplete", "incomplete_details.reason": "max_output_tokens"}},
		{"/v1/completions", `{"model":"m","prompt":"Hi"}`, map[string]any{
			"object": "text_completion", "choices.0.text": tokens40, "usage.completion_tokens": 50}},
		{"/v1/embeddings", `{"model":"m","input":["a","b"]}`, map[string]any{
			"object": "list", "data.1.index": 1, "data.1.object": "embedding", "usage.prompt_tokens": 100, "usage.total_tokens": 100}},
		{"/v1/messages", `{"model":"m","max_tokens":50,"messages":[]}`, map[string]any{
			"type": "message", "content.0.text": tokens40, "stop_reason": "max_tokens",
			"usage.input_tokens": 50, "usage.cache_read_input_tokens": 30, "usage.cache_creation_input_tokens": 20, "usage.output_tokens": 50}},
		{"/v1/messages/count_tokens", `{"model":"m","messages":[{"role":"user","content":"12345"}]}`, map[string]any{"input_tokens": 2}},
		{"/v1beta/models/m:generateContent", `{"contents":[]}`, map[string]any{
			"candidates.0.content.parts.0.text": tokens40, "candidates.0.finishReason": "STOP", "modelVersion": "m",
			"usageMetadata.promptTokenCount": 100, "usageMetadata.cachedContentTokenCount": 30,
			"usageMetadata.candidatesTokenCount": 40, "usageMetadata.thoughtsTokenCount": 10, "usageMetadata.totalTokenCount": 150}},
		{"/v1beta1/projects/p/locations/l/publishers/google/models/m:generateContent", `{"contents":[]}`, map[string]any{
			"usageMetadata.totalTokenCount": 150}},
		{"/v1beta/models/m:embedContent", `{"content":{}}`, map[string]any{"embedding.values.2": 0.5}},
		{"/v1beta/models/m:countTokens", `{"contents":[{"parts":[{"text":"123456789"}]}]}`, map[string]any{"totalTokens": 3}},
		{"/api/chat", `{"model":"m","messages":[],"stream":false}`, map[string]any{
			"done": true, "message.content": tokens40, "prompt_eval_count": 100, "eval_count": 50}},
		{"/api/generate", `{"model":"m","prompt":"Hi","stream":false}`, map[string]any{"done": true, "response": tokens40, "eval_count": 50}},
	} {
		t.Run(test.path, func(t *testing.T) {
			resp, text, s := post(t, Options{Gzip: true}, Answer{}, test.path, test.body)
			if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "application/json" || !resp.Uncompressed {
				t.Fatalf("%s, %v: %s", resp.Status, resp.Header, text)
			}
			check(t, text, test.want)
			want := usage
			reports := 1
			if strings.Contains(test.path, "mbed") {
				want.Output, want.Thoughts = 0, 0
			}
			if strings.Contains(test.path, "ount") {
				want, reports = Usage{}, 0
			}
			if got := s.Stats("m"); got.Reported != want || got.Used != want || got.Reports != reports || s.Free() != 1-reports || got.InFlight != 0 {
				t.Errorf("%+v, %d free", got, s.Free())
			}
		})
	}
}

func TestErrors(t *testing.T) {
	const chat, azure, messages = "/v1/chat/completions", "/openai/deployments/m/chat/completions", "/v1/messages"
	const gemini, ollama = "/v1beta/models/m:generateContent", "/api/chat"
	for _, test := range []struct {
		path, body string
		answer     Answer
		status     int
		want       map[string]any
	}{
		{chat, `{"model":"m"}`, Answer{Status: 429}, 429, map[string]any{"error.code": "rate_limit_exceeded"}},
		{chat, `{"model":"m"}`, Answer{Status: 429, Code: "insufficient_quota"}, 429, map[string]any{"error.type": "insufficient_quota"}},
		{chat, `{"model":"m"}`, Answer{Status: 500}, 500, map[string]any{"error.type": "server_error", "error.code": nil}},
		{chat, `{"model":"m"}`, Answer{Status: 503}, 503, map[string]any{"error.code": "server_is_overloaded"}},
		{chat, `{"model":"other"}`, Answer{}, 404, map[string]any{"error.code": "model_not_found"}},
		{chat, `{"model":`, Answer{}, 400, map[string]any{"error.type": "invalid_request_error"}},
		{azure, `{}`, Answer{Status: 429, Code: "429"}, 429, map[string]any{"error.code": "429"}},
		{messages, `{"model":"m"}`, Answer{Status: 529}, 529, map[string]any{"type": "error", "error.type": "overloaded_error", "error.details": nil}},
		{messages, `{"model":"m"}`, Answer{Status: 429, Code: "enforced_spend_limit_reached"}, 429, map[string]any{
			"error.type": "rate_limit_error", "error.details.error_code": "enforced_spend_limit_reached"}},
		{messages, `{"model":"other"}`, Answer{}, 404, map[string]any{"error.type": "not_found_error"}},
		{gemini, `{}`, Answer{Status: 503}, 503, map[string]any{"error.status": "UNAVAILABLE", "error.code": 503}},
		{gemini, `{}`, Answer{Status: 500}, 500, map[string]any{"error.status": "INTERNAL"}},
		{"/v1beta/models/m:streamGenerateContent", `{}`, Answer{Status: 500}, 500, map[string]any{"0.error.status": "INTERNAL"}},
		{ollama, `{"model":"m"}`, Answer{Status: 503, Code: "busy"}, 503, map[string]any{"error": "busy"}},
	} {
		test.answer.Header = map[string]string{"Retry-After": "7"}
		resp, text, s := post(t, Options{}, test.answer, test.path, test.body)
		if resp.StatusCode != test.status || test.answer.Status != 0 && resp.Header.Get("Retry-After") != "7" {
			t.Errorf("%s: %s, %v", test.path, resp.Status, resp.Header)
		}
		check(t, text, test.want)
		got := s.Stats("m")
		if test.answer.Status != 0 && (got.Failed != 1 || got.Counted[RPM] != 1) || got.Counted[TPM] != 0 || got.Reported != (Usage{}) {
			t.Errorf("%s: %+v", test.path, got)
		}
	}
	resp, _, _ := post(t, Options{}, Answer{}, "/v1/files", `{}`)
	if resp.StatusCode != 404 {
		t.Error(resp.Status)
	}
}

// Each dialect's refusal, and what it says of the limits then.
func TestRefusals(t *testing.T) {
	for _, test := range []struct {
		path, body string
		headers    Headers
		want       map[string]any
		fields     map[string]string
	}{
		{"/v1/chat/completions", `{"model":"m"}`, OpenAIHeaders,
			map[string]any{"error.code": "rate_limit_exceeded", "error.type": "requests"},
			map[string]string{"retry-after": "60", "retry-after-ms": "60000", "x-ratelimit-limit-requests": "1", "x-ratelimit-remaining-requests": "0",
				"x-ratelimit-reset-requests": "1m0s", "x-ratelimit-limit-tokens": "10000", "x-ratelimit-remaining-tokens": "9850", "x-ratelimit-reset-tokens": "1m0s"}},
		{"/openai/deployments/m/chat/completions", `{}`, OpenAIHeaders, map[string]any{"error.code": "429"},
			map[string]string{"retry-after": "60", "x-ratelimit-reset-tokens": "60"}},
		{"/v1/chat/completions", `{"model":"m"}`, GroqHeaders, map[string]any{"error.code": "rate_limit_exceeded"},
			map[string]string{"retry-after": "60", "retry-after-ms": "", "x-ratelimit-limit-requests": "1000", "x-ratelimit-remaining-requests": "999",
				"x-ratelimit-remaining-tokens": "9880", "x-ratelimit-reset-requests": "24h0m0s"}},
		{"/v1/chat/completions", `{"model":"m"}`, MistralHeaders, nil,
			map[string]string{"x-ratelimit-limit-req-minute": "1", "x-ratelimit-remaining-tokens-minute": "9850", "x-ratelimit-tokens-query-cost": "150"}},
		{"/v1/chat/completions", `{"model":"m"}`, NoHeaders, nil, map[string]string{"x-ratelimit-limit-requests": ""}},
		{"/v1/messages", `{"model":"m"}`, OpenAIHeaders, map[string]any{"type": "error", "error.type": "rate_limit_error"},
			map[string]string{"retry-after": "60", "anthropic-ratelimit-requests-remaining": "0", "anthropic-ratelimit-requests-reset": "2000-01-01T00:01:00Z",
				"anthropic-ratelimit-input-tokens-limit": "20000", "anthropic-ratelimit-input-tokens-remaining": "20000",
				"anthropic-ratelimit-output-tokens-remaining": "5000", "anthropic-ratelimit-tokens-limit": "10000"}},
		{"/v1beta/models/m:generateContent", `{}`, OpenAIHeaders, map[string]any{"error.status": "RESOURCE_EXHAUSTED",
			"error.details.0.violations.0.quotaId":    "GenerateRequestsPerMinutePerProjectPerModel-FreeTier",
			"error.details.0.violations.0.quotaValue": "1", "error.details.2.retryDelay": "60s"},
			map[string]string{"retry-after": "", "x-ratelimit-limit-requests": ""}},
		{"/v1beta1/projects/p/locations/l/publishers/google/models/m:generateContent", `{}`, OpenAIHeaders,
			map[string]any{"error.status": "RESOURCE_EXHAUSTED", "error.details": nil}, nil},
		{"/api/chat", `{"model":"m"}`, OpenAIHeaders, map[string]any{"error": "server busy, please try again.  maximum pending requests exceeded"}, nil},
	} {
		inBubble(t, fmt.Sprint(test.path, test.headers), func(t *testing.T) {
			s := New(Options{Headers: test.headers, Answer: func(*Call) Answer { return Answer{Usage: usage} }},
				map[string]Config{"m": {Limits: Limits{RPM: 1, TPM: 10_000, ITPM: 20_000, OTPM: 5000, RPD: 1000}}})
			var w *httptest.ResponseRecorder
			for range 2 {
				w = httptest.NewRecorder()
				s.ServeHTTP(w, httptest.NewRequest("POST", test.path, strings.NewReader(test.body)))
			}
			if w.Code != 429 && w.Code != 503 {
				t.Error(w.Code)
			}
			check(t, w.Body.String(), test.want)
			for key, value := range test.fields {
				if got := w.Header().Get(key); got != value {
					t.Errorf("%s: %q, want %q", key, got, value)
				}
			}
			if got := s.Stats("m"); got.Over[RPM] != 1 || got.Refused != 1 || got.Counted[RPM] != 1 {
				t.Errorf("%+v", got)
			}
		})
	}
}
