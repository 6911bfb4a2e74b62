package llmhttp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// newLimiter returns a limiter with a quota for the model "m".
func newLimiter(t testing.TB, q ratelimit.ModelQuota) *ratelimit.RateLimiter {
	t.Helper()
	return newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": q}})
}

func newLimiterWith(t testing.TB, cfg ratelimit.Config) *ratelimit.RateLimiter {
	t.Helper()
	cfg.FilePath = filepath.Join(t.TempDir(), "state.yaml")
	rl, err := ratelimit.NewWithConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return rl
}

// base is a provider without a network.
type base func(*http.Request) (*http.Response, error)

func (b base) RoundTrip(req *http.Request) (*http.Response, error) { return b(req) }

// reply is a base that answers everything with a status, headers ("Name: value") and a body.
func reply(status int, body string, headers ...string) base {
	return func(req *http.Request) (*http.Response, error) {
		if req.Body != nil {
			io.Copy(io.Discard, req.Body)
			req.Body.Close()
		}
		return response(req, status, body, headers...), nil
	}
}

func response(req *http.Request, status int, body string, headers ...string) *http.Response {
	h := http.Header{}
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		h.Add(name, value)
	}
	return &http.Response{
		StatusCode: status, Status: fmt.Sprint(status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: h, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)), Request: req,
	}
}

const chatURL = "http://llm.test/v1/chat/completions"

func post(t testing.TB, rt http.RoundTripper, url, body string) (*http.Response, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return rt.RoundTrip(req)
}

func readAll(t testing.TB, resp *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// exchange makes a call and reads its answer, in any goroutine.
func exchange(t testing.TB, rt http.RoundTripper, url, body string) {
	t.Helper()
	resp, err := post(t, rt, url, body)
	if err == nil {
		_, err = io.ReadAll(resp.Body)
		err = errors.Join(err, resp.Body.Close())
	}
	if err != nil {
		t.Error(err)
	}
}

func sse(events ...string) string { return "data: " + strings.Join(events, "\n\ndata: ") + "\n\n" }

func TestUsage(t *testing.T) {
	const q = 1_000_000
	quota := ratelimit.ModelQuota{MaxRPM: 100, MaxTPM: q}
	for _, test := range []struct {
		name, path, request, response string
		headers                       []string
		in, out                       int // as the provider counts
	}{
		{
			"OpenAI chat", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":500}`,
			`{"choices":[{"message":{"content":"Hello"}}],"usage":{"prompt_tokens":11,"completion_tokens":7,"total_tokens":18,"prompt_tokens_details":{"cached_tokens":4}}}`, nil, 11, 7,
		},
		{
			"OpenAI chat, streamed", "/v1/chat/completions", `{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[]}`,
			sse(`{"choices":[{"delta":{"content":"Hel"}}],"usage":null}`, `{"choices":[{"delta":{"content":"lo"}}],"usage":null}`,
				`{"choices":[],"usage":{"prompt_tokens":11,"completion_tokens":7}}`, `[DONE]`), nil, 11, 7,
		},
		{
			"OpenAI responses", "/v1/responses", `{"model":"m","input":"hi"}`,
			`{"id":"r","usage":{"input_tokens":21,"input_tokens_details":{"cached_tokens":0},"output_tokens":9,"output_tokens_details":{"reasoning_tokens":3}}}`, nil, 21, 9,
		},
		{
			"OpenAI responses, streamed", "/v1/responses", `{"model":"m","input":"hi","stream":true}`,
			"event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"usage\":null}}\n\n" +
				"event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"usage\":{\"input_tokens\":21,\"output_tokens\":9}}}\n\n", nil, 21, 9,
		},
		{"OpenAI completions", "/v1/completions", `{"model":"m","prompt":"hi"}`, `{"choices":[{"text":"x"}],"usage":{"prompt_tokens":2,"completion_tokens":5}}`, nil, 2, 5},
		{"OpenAI embeddings", "/v1/embeddings", `{"model":"m","input":["a","b"]}`, `{"data":[{"embedding":[0.1,0.2]}],"usage":{"prompt_tokens":8,"total_tokens":8}}`, nil, 8, 0},
		{"a compatible server below another path", "/api/openai/v1/chat/completions", `{"model":"m"}`, `{"usage":{"prompt_tokens":1,"completion_tokens":2}}`, nil, 1, 2},
		{"Azure, by deployment", "/openai/deployments/m/chat/completions", `{"model":"other","messages":[]}`, `{"usage":{"prompt_tokens":1,"completion_tokens":2}}`, nil, 1, 2},
		{
			"Groq, streamed, without being asked", "/openai/v1/chat/completions", `{"model":"m","stream":true}`,
			sse(`{"choices":[{"delta":{"content":"x"}}]}`, `{"choices":[],"x_groq":{"usage":{"prompt_tokens":3,"completion_tokens":4}}}`, "[DONE]"), nil, 3, 4,
		},
		{
			"Anthropic", "/v1/messages", `{"model":"m","max_tokens":1024,"messages":[]}`,
			`{"content":[{"text":"Hi"}],"usage":{"input_tokens":10,"cache_creation_input_tokens":5,"cache_read_input_tokens":1000,"output_tokens":3}}`, nil, 15, 3,
		},
		{
			"Anthropic, streamed: counts are cumulative", "/v1/messages", `{"model":"m","max_tokens":1024,"stream":true}`,
			"event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":25,\"cache_creation_input_tokens\":2,\"output_tokens\":1}}}\n\n" +
				"event: content_block_delta\ndata: {\"delta\":{\"text\":\"Hello\"}}\n\n" +
				"event: message_delta\ndata: {\"delta\":{},\"usage\":{\"output_tokens\":8}}\n\n" +
				"event: message_delta\ndata: {\"delta\":{},\"usage\":{\"output_tokens\":15}}\n\n" +
				"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n", nil, 27, 15,
		},
		{
			"Gemini: input only", "/v1beta/models/m:generateContent", `{"contents":[],"generationConfig":{"maxOutputTokens":100}}`,
			`{"candidates":[],"usageMetadata":{"promptTokenCount":30,"cachedContentTokenCount":10,"candidatesTokenCount":12,"thoughtsTokenCount":4,"toolUsePromptTokenCount":2,"totalTokenCount":48}}`, nil, 32, 0,
		},
		{
			"Gemini, streamed: the last one counts", "/v1beta/models/m:streamGenerateContent?alt=sse", `{"contents":[]}`,
			sse(`{"usageMetadata":{"promptTokenCount":30,"candidatesTokenCount":1}}`, `{"usageMetadata":{"promptTokenCount":31,"candidatesTokenCount":12}}`), nil, 31, 0,
		},
		{
			"Gemini, streamed as one array", "/v1beta/models/m:streamGenerateContent", `{"contents":[]}`,
			`[{"usageMetadata":{"promptTokenCount":30}},` + "\n" + `{"usageMetadata":{"promptTokenCount":31,"candidatesTokenCount":12}}]`, nil, 31, 0,
		},
		{"Vertex", "/v1/projects/p/locations/l/publishers/google/models/m:generateContent", `{}`, `{"usageMetadata":{"promptTokenCount":7}}`, nil, 7, 0},
		{"Anthropic on Vertex", "/v1/projects/p/locations/l/publishers/anthropic/models/m:rawPredict", `{"max_tokens":5}`, `{"usage":{"input_tokens":7,"output_tokens":2}}`, nil, 7, 2},
		{"Ollama", "/api/chat", `{"model":"m","stream":false}`, `{"message":{"content":"x"},"done":true,"prompt_eval_count":26,"eval_count":298}`, nil, 26, 298},
		{
			"Ollama, streamed", "/api/generate", `{"model":"m","prompt":"x"}`,
			`{"response":"a","done":false}` + "\n" + `{"response":"","done":true,"prompt_eval_count":26,"eval_count":298}` + "\n", nil, 26, 298,
		},
		{"a prompt that was not counted is estimated", "/api/chat", `{"model":"m","messages":[{"role":"user","content":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}]}`, `{"done":true,"eval_count":298}`, nil, 15, 298},
	} {
		t.Run(test.name, func(t *testing.T) {
			rl := newLimiter(t, quota)
			var sent string
			tr := &llmhttp.Transport{Limiter: rl, Base: base(func(req *http.Request) (*http.Response, error) {
				body, _ := io.ReadAll(req.Body)
				sent = string(body)
				if int(req.ContentLength) != len(body) {
					t.Errorf("ContentLength %d of a body of %d", req.ContentLength, len(body))
				}
				if s := rl.Stats("m"); s.InFlight != 1 || s.RPM != 1 {
					t.Errorf("while it is in flight: %+v", s)
				}
				return response(req, 200, test.response, test.headers...), nil
			})}
			resp, err := post(t, tr, "http://llm.test"+test.path, test.request)
			if err != nil {
				t.Fatal(err)
			}
			if got := readAll(t, resp); got != test.response {
				t.Errorf("the answer came as %q", got)
			}
			if sent != test.request {
				t.Errorf("the request went as %q", sent)
			}
			s := rl.Stats("m")
			if s.ITPM != test.in || s.OTPM != test.out || s.RPM != 1 || s.InFlight != 0 {
				t.Errorf("charged %d in, %d out, %d requests, %d in flight; want %d in, %d out, 1, 0",
					s.ITPM, s.OTPM, s.RPM, s.InFlight, test.in, test.out)
			}
		})
	}
}

// What is no call to a model goes to Base as the very request it is.
func TestPassThrough(t *testing.T) {
	rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"*": {MaxRPM: 1}}})
	var got *http.Request
	tr := &llmhttp.Transport{Limiter: rl, Base: base(func(req *http.Request) (*http.Response, error) {
		got = req
		return response(req, 200, `{"usage":{"prompt_tokens":1,"completion_tokens":1}}`), nil
	})}
	for _, test := range []struct{ name, method, path, body string }{
		{"another path", "POST", "/v1/files", `{"model":"m"}`},
		{"another method", "GET", "/v1/chat/completions", ``},
		{"a stored response", "GET", "/v1/responses/resp_1", ``},
		{"a cancel", "POST", "/v1/responses/resp_1/cancel", ``},
		{"batches", "POST", "/v1/messages/batches", `{"requests":[]}`},
		{"count_tokens", "POST", "/v1/messages/count_tokens", `{"model":"m"}`},
		{"countTokens", "POST", "/v1beta/models/m:countTokens", `{}`},
		{"a list of models", "GET", "/v1beta/models", ``},
		{"another method of a model", "POST", "/v1beta/models/m:predictLongRunning", `{}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			req := httptest.NewRequest(test.method, "http://llm.test"+test.path, strings.NewReader(test.body))
			for range 3 {
				if _, err := tr.RoundTrip(req); err != nil {
					t.Fatal(err)
				}
				if got != req {
					t.Error("Base got another request")
				}
			}
		})
	}
	for _, body := range []string{`{"messages":[]}`, `not JSON`, ``, `{"model":""}`, `{"model":7}`} {
		resp, err := post(t, tr, "http://llm.test/v1/threads/t/messages", body)
		if err != nil {
			t.Fatalf("%q: %v", body, err)
		}
		readAll(t, resp)
	}
	if all := rl.AllStats(); len(all) != 0 {
		t.Errorf("something was charged: %v", all)
	}
}

// A body without GetBody is read ahead, and goes out as it came.
func TestBodyWithoutGetBody(t *testing.T) {
	for _, size := range []int{0, 10, 100, 5000, 100_000} {
		for _, limit := range []int64{0, 1000} {
			t.Run(fmt.Sprintf("%d of %d", size, limit), func(t *testing.T) {
				rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 10, MaxTPM: 1_000_000})
				body := `{"model":"m","messages":[{"content":"` + strings.Repeat("x", size) + `"}]}`
				closed := false
				var charged int
				tr := &llmhttp.Transport{Limiter: rl, MaxBody: limit, Base: base(func(req *http.Request) (*http.Response, error) {
					charged = rl.Stats("m").ITPM
					got, err := io.ReadAll(req.Body)
					if err != nil || string(got) != body {
						t.Errorf("got %d bytes, %v; want %d", len(got), err, len(body))
					}
					if req.ContentLength != -1 {
						t.Errorf("ContentLength is %d now", req.ContentLength)
					}
					req.Body.Close()
					return response(req, 200, `{}`), nil
				})}
				req, _ := http.NewRequestWithContext(t.Context(), "POST", chatURL, &closer{strings.NewReader(body), &closed})
				req.ContentLength = -1
				resp, err := tr.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				readAll(t, resp)
				if !closed {
					t.Error("the body was not closed")
				}
				if charged == 0 || charged > len(body)/4+1 {
					t.Errorf("charged %d tokens for %d bytes", charged, len(body))
				}
			})
		}
	}
}

type closer struct {
	io.Reader
	closed *bool
}

func (c *closer) Close() error { *c.closed = true; return nil }

func TestBodyIsClosed(t *testing.T) {
	full := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 1})
	full.RecordUsage("m", 1, 1)
	open := newLimiter(t, ratelimit.ModelQuota{})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	refuses := base(func(req *http.Request) (*http.Response, error) { req.Body.Close(); return nil, errors.New("no") })
	for _, test := range []struct {
		name string
		tr   *llmhttp.Transport
		ctx  context.Context
		url  string
	}{
		{"refused", &llmhttp.Transport{Limiter: full, MaxWait: time.Millisecond}, t.Context(), chatURL},
		{"refused with an error", &llmhttp.Transport{Limiter: full, MaxWait: time.Millisecond, RefuseWithError: true}, t.Context(), chatURL},
		{"the context ended", &llmhttp.Transport{Limiter: open}, ended, chatURL},
		{"Base fails", &llmhttp.Transport{Limiter: open, Base: refuses}, t.Context(), chatURL},
		{"Base fails, no call to a model", &llmhttp.Transport{Limiter: open, Base: refuses}, t.Context(), "http://llm.test/"},
		{"no limiter", &llmhttp.Transport{}, t.Context(), chatURL},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, getBody := range []bool{true, false} {
				closed := false
				req, _ := http.NewRequestWithContext(test.ctx, "POST", test.url, &closer{strings.NewReader(`{"model":"m"}`), &closed})
				if getBody {
					req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(`{"model":"m"}`)), nil }
				}
				resp, err := test.tr.RoundTrip(req)
				if err == nil && resp.StatusCode != 429 {
					t.Errorf("answered %d", resp.StatusCode)
				}
				if !closed {
					t.Errorf("the body was not closed (GetBody: %t)", getBody)
				}
			}
		})
	}
}

func TestRefusal(t *testing.T) {
	rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 1}}})
	rl.RecordUsage("m", 1, 1)
	for _, test := range []struct {
		name, path, body string
		message          func(map[string]any) any
	}{
		{"openai", "/v1/chat/completions", `{"model":"m"}`, func(m map[string]any) any { return m["error"].(map[string]any)["message"] }},
		{"anthropic", "/v1/messages", `{"model":"m"}`, func(m map[string]any) any { return m["error"].(map[string]any)["message"] }},
		{"gemini", "/v1beta/models/m:generateContent", `{}`, func(m map[string]any) any { return m["error"].(map[string]any)["message"] }},
		{"ollama", "/api/chat", `{"model":"m"}`, func(m map[string]any) any { return m["error"] }},
	} {
		t.Run(test.name, func(t *testing.T) {
			var events []llmhttp.Event
			tr := &llmhttp.Transport{Limiter: rl, MaxWait: 100 * time.Millisecond, OnEvent: func(e llmhttp.Event) { events = append(events, e) }}
			resp, err := post(t, tr, "http://llm.test"+test.path, test.body)
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != 429 || resp.Header.Get("x-should-retry") != "false" || resp.Request == nil {
				t.Errorf("refused with %d %v", resp.StatusCode, resp.Header)
			}
			if s := resp.Header.Get("Retry-After"); s != "60" && s != "61" {
				t.Errorf("Retry-After is %q", s)
			}
			var body map[string]any
			text := readAll(t, resp)
			if err := json.Unmarshal([]byte(text), &body); err != nil {
				t.Fatal(err)
			}
			if m, _ := test.message(body).(string); !strings.Contains(m, `model "m"`) || !strings.Contains(m, "requests per minute") {
				t.Errorf("the message is %q", m)
			}
			if len(events) != 1 || events[0].Kind != llmhttp.EventRefused || !errors.Is(events[0].Err, context.DeadlineExceeded) {
				t.Errorf("events: %+v", events)
			}

			resp.Body = io.NopCloser(strings.NewReader(text))
			problem := llmhttp.Classify(resp)
			if !errors.Is(problem, ratelimit.ErrNotSent) || problem.Code != "rpm_exceeded" || problem.RetryAfter < 59*time.Second || problem.RetryAfter > time.Minute+time.Millisecond {
				t.Errorf("it is classified as %v", problem)
			}
			if events[0].Charged != (ratelimit.Usage{}) {
				t.Errorf("charged %+v", events[0].Charged)
			}

			tr.RefuseWithError = true
			_, err = (&http.Client{Transport: tr}).Post("http://llm.test"+test.path, "application/json", strings.NewReader(test.body))
			var limit *ratelimit.LimitError
			if !errors.As(err, &limit) || limit.Decision.Code != ratelimit.DecisionRPMLimit || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

// Nothing that can be told before is waited for.
func TestRefusedAtOnce(t *testing.T) {
	for _, test := range []struct {
		name  string
		quota ratelimit.ModelQuota
		tr    *llmhttp.Transport
		limit time.Duration // of the context
		want  error
	}{
		{"the deadline comes before the room", ratelimit.ModelQuota{MaxRPM: 1}, &llmhttp.Transport{}, 30 * time.Second, context.DeadlineExceeded},
		{"MaxWait does", ratelimit.ModelQuota{MaxRPM: 1}, &llmhttp.Transport{MaxWait: 30 * time.Second}, 0, context.DeadlineExceeded},
		{"an estimate of the program that never fits", ratelimit.ModelQuota{MaxTPM: 100}, &llmhttp.Transport{Estimate: func(*llmhttp.Call) (int, int) { return 90, 20 }}, 0, ratelimit.ErrNeverFits},
	} {
		t.Run(test.name, func(t *testing.T) {
			rl := newLimiter(t, test.quota)
			rl.RecordUsage("m", 10, 0)
			tr := test.tr
			tr.Limiter, tr.RefuseWithError = rl, true
			ctx := t.Context()
			if test.limit > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, test.limit)
				defer cancel()
			}
			req, _ := http.NewRequestWithContext(ctx, "POST", chatURL, strings.NewReader(`{"model":"m"}`))
			began := time.Now()
			_, err := tr.RoundTrip(req)
			if !errors.Is(err, test.want) || !errors.As(err, new(*ratelimit.LimitError)) {
				t.Errorf("got %v, want %v", err, test.want)
			}
			if d := time.Since(began); d > 20*time.Second {
				t.Errorf("it took %v", d)
			}
		})
	}
}

func TestEstimate(t *testing.T) {
	prompt := strings.Repeat("word ", 800) // 4,000 bytes
	for _, test := range []struct {
		name, path, body string
		quota            ratelimit.ModelQuota
		in, out          int // at least, and at most a tenth more
	}{
		{"four bytes a token, and 1,000 to write", "/v1/messages", `{"model":"m","messages":[{"role":"user","content":"` + prompt + `"}]}`, ratelimit.ModelQuota{MaxTPM: 100_000}, 1000, 1000},
		{"no more than the request allows", "/v1/messages", `{"model":"m","max_tokens":50,"messages":[{"role":"user","content":"` + prompt + `"}]}`, ratelimit.ModelQuota{MaxTPM: 100_000}, 1000, 50},
		{"OpenAI counts max_tokens", "/v1/chat/completions", `{"model":"m","max_completion_tokens":5000,"messages":[{"role":"user","content":"` + prompt + `"}]}`, ratelimit.ModelQuota{MaxTPM: 100_000}, 1000, 3980},
		{"embeddings write nothing", "/v1/embeddings", `{"model":"m","input":"` + prompt + `"}`, ratelimit.ModelQuota{MaxTPM: 100_000}, 1000, 0},
		{"Gemini counts no output", "/v1beta/models/m:generateContent", `{"contents":[{"parts":[{"text":"` + prompt + `"}]}]}`, ratelimit.ModelQuota{MaxTPM: 100_000}, 1000, 0},
		{"escapes are what they stand for", "/v1/messages", `{"model":"m","max_tokens":1,"messages":[{"content":"` + strings.Repeat(`\u00e4\n`, 1000) + `"}]}`, ratelimit.ModelQuota{MaxTPM: 100_000}, 750, 1},
		{"an image is 1,000", "/v1/chat/completions", `{"model":"m","max_tokens":1,"messages":[{"content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + strings.Repeat("A", 400_000) + `"}}]}]}`, ratelimit.ModelQuota{MaxTPM: 100_000}, 1000, 1},
		{"so it is at Anthropic", "/v1/messages", `{"model":"m","max_tokens":1,"messages":[{"content":[{"type":"image","source":{"type":"base64","data":"` + strings.Repeat("A", 400_000) + `"}}]}]}`, ratelimit.ModelQuota{MaxTPM: 100_000}, 1000, 1},
		{"never more than the quota", "/v1/messages", `{"model":"m","messages":[{"role":"user","content":"` + prompt + `"}]}`, ratelimit.ModelQuota{MaxTPM: 900}, 900, 0},
		{"never more than any of them", "/v1/messages", `{"model":"m","messages":[{"role":"user","content":"` + prompt + `"}]}`, ratelimit.ModelQuota{MaxITPM: 800, MaxOTPM: 300, MaxTPM: 1000}, 800, 200},
		{"nor than that of the day", "/v1/messages", `{"model":"m","messages":[{"role":"user","content":"` + prompt + `"}]}`, ratelimit.ModelQuota{MaxTPD: 500}, 500, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			rl := newLimiter(t, test.quota)
			tr := &llmhttp.Transport{Limiter: rl, Base: base(func(req *http.Request) (*http.Response, error) {
				s := rl.Stats("m")
				if s.ITPM < test.in || s.ITPM > test.in+test.in/10 || s.OTPM < test.out || s.OTPM > test.out+test.out/10 {
					t.Errorf("charged %d in and %d out, want about %d and %d", s.ITPM, s.OTPM, test.in, test.out)
				}
				return response(req, 200, `{}`), nil
			})}
			resp, err := post(t, tr, "http://llm.test"+test.path, test.body)
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != 200 {
				t.Fatalf("refused: %s", readAll(t, resp))
			}
			readAll(t, resp)
		})
	}
}

// What a model writes is learned, and forgotten.
func TestOutputIsLearned(t *testing.T) {
	rl := newLimiter(t, ratelimit.ModelQuota{MaxTPM: 1_000_000})
	var wrote, expected int
	tr := &llmhttp.Transport{Limiter: rl, Base: base(func(req *http.Request) (*http.Response, error) {
		expected = rl.Stats("m").OTPM
		return response(req, 200, fmt.Sprintf(`{"usage":{"input_tokens":1,"output_tokens":%d}}`, wrote)), nil
	})}
	call := func(output int) {
		t.Helper()
		rl.Reset("m")
		wrote = output
		resp, err := post(t, tr, "http://llm.test/v1/messages", `{"model":"m","max_tokens":8000}`)
		if err != nil {
			t.Fatal(err)
		}
		readAll(t, resp)
	}
	for _, step := range []struct{ output, expected int }{
		{300, 1000}, {500, 375}, {200, 625}, {200, 625}, {9000, 625}, {1, 8000},
	} {
		if call(step.output); expected != step.expected {
			t.Errorf("expected %d before it wrote %d, want %d", expected, step.output, step.expected)
		}
	}
	for range 200 {
		call(10)
	}
	if expected != 12 {
		t.Errorf("after many answers of 10 it expects %d", expected)
	}
}

func TestSettledOnce(t *testing.T) {
	const usage = `{"choices":[],"usage":{"prompt_tokens":11,"completion_tokens":7}}`
	delta := `{"choices":[{"delta":{"content":"` + strings.Repeat("x", 400) + `"}}]}`
	for _, test := range []struct {
		name     string
		path     string
		response string
		read     func(t *testing.T, resp *http.Response, cancel func())
		in, out  int
		source   llmhttp.Source
	}{
		{"read to the end, then closed", "", sse(delta, usage, "[DONE]"), readAndClose, 11, 7, llmhttp.SourceReported},
		{"closed at [DONE], as SDKs do", "", sse(delta, usage, "[DONE]"), readOnce, 11, 7, llmhttp.SourceReported},
		{"without usage: the text", "", sse(delta, delta, "[DONE]"), readAndClose, 20, 200, llmhttp.SourceText},
		{"without usage, closed at [DONE]", "", sse(delta, delta, "[DONE]"), readOnce, 20, 200, llmhttp.SourceText},
		{"cut: the estimate", "", sse(delta), readOnce, 20, 1000, llmhttp.SourceEstimate},
		{"cut after more than that", "", sse(slicesRepeat(delta, 15)...), readOnce, 20, 1500, llmhttp.SourceEstimate},
		{"closed unread", "", sse(delta, usage), func(_ *testing.T, resp *http.Response, _ func()) { resp.Body.Close() }, 20, 1000, llmhttp.SourceEstimate},
		{"the context ends", "", sse(delta, usage), func(t *testing.T, _ *http.Response, cancel func()) { cancel() }, 20, 1000, llmhttp.SourceEstimate},
		{"Anthropic, cut after its start: input is known", "/v1/messages", sse(`{"message":{"usage":{"input_tokens":25,"output_tokens":1}}}`), readOnce, 25, 1000, llmhttp.SourceEstimate},
		{"Anthropic, ended by an error: the text", "/v1/messages", sse(`{"message":{"usage":{"input_tokens":25,"output_tokens":1}}}`, `{"delta":{"text":"`+strings.Repeat("x", 400)+`"}}`, `{"type":"error","error":{"type":"overloaded_error"}}`), readAndClose, 25, 100, llmhttp.SourceReported},
		{"JSON that is not read to the end", "", `{"usage":{"prompt_tokens":11,"completion_tokens":7}} `, readOnce, 11, 7, llmhttp.SourceReported},
		{"JSON that ends early", "", `{"usage":{"prompt_tok`, readAndClose, 20, 1000, llmhttp.SourceEstimate},
		{"an empty answer", "", ``, readAndClose, 20, 1000, llmhttp.SourceEstimate},
		{"usage that cannot be: -5", "", `{"usage":{"prompt_tokens":-5,"completion_tokens":7}}`, readAndClose, 20, 1000, llmhttp.SourceEstimate},
		{"usage that cannot be: 1e300", "", `{"usage":{"prompt_tokens":5,"completion_tokens":1e300}}`, readAndClose, 20, 1000, llmhttp.SourceEstimate},
		{"usage that cannot be: a string", "", `{"usage":{"prompt_tokens":"5","completion_tokens":7}}`, readAndClose, 20, 1000, llmhttp.SourceEstimate},
	} {
		t.Run(test.name, func(t *testing.T) {
			rl := newLimiter(t, ratelimit.ModelQuota{MaxTPM: 1_000_000})
			settled := make(chan llmhttp.Event, 10)
			tr := &llmhttp.Transport{Limiter: rl, Base: reply(200, test.response), OnEvent: func(e llmhttp.Event) {
				if e.Kind == llmhttp.EventSettled {
					settled <- e
				}
			}}
			url := chatURL
			if test.path != "" {
				url = "http://llm.test" + test.path
			}
			ctx, cancel := context.WithCancel(t.Context())
			body := `{"model":"m","stream":true,"messages":[{"role":"user","content":"` + strings.Repeat("x", 20) + `"}]}` // 80 bytes of text
			req, _ := http.NewRequestWithContext(ctx, "POST", url, strings.NewReader(body))
			resp, err := tr.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			test.read(t, resp, cancel)
			e := <-settled
			resp.Body.Close()
			resp.Body.Close()
			cancel()
			s := rl.Stats("m")
			if test.in == 20 {
				test.in = e.Charged.PromptTokens
			}
			if s.ITPM != test.in || (s.OTPM != test.out && test.out != 0) || s.TPM == 0 || e.Source != test.source || s.InFlight != 0 {
				t.Errorf("settled by %q at %d in, %d out; want %q, %d, %d", e.Source, s.ITPM, s.OTPM, test.source, test.in, test.out)
			}
			if s.ITPM != e.Settled.PromptTokens || s.OTPM != e.Settled.OutputTokens {
				t.Errorf("the event says %+v, the limiter %+v", e.Settled, s)
			}
			if anomalies := tr.Anomalies(); (anomalies > 0) != strings.HasPrefix(test.name, "usage that cannot be") {
				t.Errorf("%d anomalies", anomalies)
			}
			if len(settled) > 0 {
				t.Error("settled twice")
			}
		})
	}
}

// OpenAI keeps what it charged when the call arrived.
func TestNoRefund(t *testing.T) {
	for _, test := range []struct {
		name, url, body string
		noRefund        bool
		total           int
	}{
		{"a server that gives back", "http://llm.test", `{"model":"m","max_tokens":500}`, false, 18},
		{"one that does not", "http://llm.test", `{"model":"m","max_tokens":500}`, true, 500},
		{"OpenAI", "https://api.openai.com", `{"model":"m","max_tokens":500}`, false, 500},
		{"Azure", "https://x.openai.azure.com", `{"model":"m","max_tokens":500}`, false, 500},
		{"two answers", "https://api.openai.com", `{"model":"m","max_tokens":500,"n":2}`, false, 1000},
		{"no max_tokens", "https://api.openai.com", `{"model":"m"}`, false, 18},
		{"more used than charged", "https://api.openai.com", `{"model":"m","max_tokens":10}`, false, 18},
		{"no more than the quota", "https://api.openai.com", `{"model":"m","max_tokens":50000}`, false, 10_000},
		{"another host with that name in it", "https://openai.com.example", `{"model":"m","max_tokens":500}`, false, 18},
	} {
		t.Run(test.name, func(t *testing.T) {
			rl := newLimiter(t, ratelimit.ModelQuota{MaxTPM: 10_000})
			tr := &llmhttp.Transport{Limiter: rl, NoRefund: test.noRefund, Base: reply(200, `{"usage":{"prompt_tokens":11,"completion_tokens":7}}`)}
			resp, err := post(t, tr, test.url+"/v1/chat/completions", test.body)
			if err != nil {
				t.Fatal(err)
			}
			readAll(t, resp)
			if s := rl.Stats("m"); s.TPM != test.total {
				t.Errorf("charged %d, want %d", s.TPM, test.total)
			}
		})
	}
}

func slicesRepeat(s string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = s
	}
	return all
}

func readAndClose(t *testing.T, resp *http.Response, _ func()) { readAll(t, resp) }

// readOnce reads what there is, without coming to the end, and closes.
func readOnce(t *testing.T, resp *http.Response, _ func()) {
	if _, err := resp.Body.Read(make([]byte, 64<<10)); err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
}

// A call that was never sent costs nothing; one that was sent and failed, its estimate.
func TestFailedCalls(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	hangsUp := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, _, _ := w.(http.Hijacker).Hijack()
		conn.Close()
	}))
	defer hangsUp.Close()
	stub := errors.New("no network")
	for _, test := range []struct {
		name, url string
		base      http.RoundTripper
		requests  int
	}{
		{"nobody listens", gone.URL, nil, 0},
		{"the connection breaks after the request", hangsUp.URL, nil, 1},
		{"a Base that fails before it reads the body", "http://llm.test", base(func(*http.Request) (*http.Response, error) { return nil, stub }), 0},
		{"and after", "http://llm.test", base(func(req *http.Request) (*http.Response, error) { io.ReadAll(req.Body); return nil, stub }), 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			rl := newLimiter(t, ratelimit.ModelQuota{MaxTPM: 100_000})
			tr := &llmhttp.Transport{Limiter: rl, Base: test.base}
			defer tr.CloseIdleConnections()
			if _, err := post(t, tr, test.url+"/v1/chat/completions", `{"model":"m"}`); err == nil {
				t.Fatal("no error")
			}
			s := rl.Stats("m")
			if s.RPM != test.requests || (s.TPM > 0) != (test.requests > 0) || s.InFlight != 0 {
				t.Errorf("charged %+v", s)
			}
		})
	}
}

func TestRedirects(t *testing.T) {
	var reached atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reached.Add(1)
		io.WriteString(w, `{"usage":{"prompt_tokens":1,"completion_tokens":1}}`)
	}))
	defer other.Close()
	var to string
	first := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/here/v1/messages" {
			io.WriteString(w, `{}`)
			return
		}
		http.Redirect(w, r, to, http.StatusTemporaryRedirect)
	}))
	defer first.Close()
	for _, path := range []string{"/v1/messages", "/v1/files"} {
		rl := newLimiter(t, ratelimit.ModelQuota{})
		tr := &llmhttp.Transport{Limiter: rl}
		client := &http.Client{Transport: tr}
		call := func() error {
			req, _ := http.NewRequest("POST", first.URL+path, strings.NewReader(`{"model":"m"}`))
			req.Header.Set("x-api-key", "sk-secret")
			resp, err := client.Do(req)
			if err == nil {
				readAll(t, resp)
			}
			return err
		}
		to = other.URL + "/v1/messages?key=sk-secret"
		err := call()
		var redirect *llmhttp.RedirectError
		if !errors.As(err, &redirect) || reached.Load() != 0 {
			t.Errorf("%s: redirected to another host: %v, and it was reached %d times", path, err, reached.Load())
		}
		if redirect != nil && strings.Contains(redirect.Error(), "secret") {
			t.Errorf("the error tells the key: %v", redirect)
		}
		to = "/here/v1/messages"
		if err := call(); err != nil {
			t.Errorf("%s: redirected on the same host: %v", path, err)
		}
		to = other.URL + "/v1/messages"
		tr.AllowRedirects = true
		if err := call(); err != nil || reached.Swap(0) != 1 {
			t.Errorf("%s: redirected with AllowRedirects: %v", path, err)
		}
		tr.CloseIdleConnections()
	}
}

// The body of a 101 is a connection.
func TestSwitchingProtocols(t *testing.T) {
	type connection struct {
		io.Reader
		io.Writer
		io.Closer
	}
	rl := newLimiter(t, ratelimit.ModelQuota{MaxTPM: 100_000})
	conn := &connection{strings.NewReader("hello"), new(bytes.Buffer), io.NopCloser(nil)}
	tr := &llmhttp.Transport{Limiter: rl, Base: base(func(req *http.Request) (*http.Response, error) {
		resp := response(req, 101, "")
		resp.Body = conn
		return resp, nil
	})}
	resp, err := post(t, tr, "http://llm.test/v1/responses", `{"model":"m"}`)
	if err != nil {
		t.Fatal(err)
	}
	if resp.Body != io.ReadCloser(conn) {
		t.Errorf("the body is a %T now", resp.Body)
	}
	if s := rl.Stats("m"); s.RPM != 1 || s.TPM == 0 || s.InFlight != 0 {
		t.Errorf("charged %+v", s)
	}
}
