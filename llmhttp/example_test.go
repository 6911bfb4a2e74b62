package llmhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// exampleLimiter returns a limiter with a quota for gpt-4o that saves nothing.
func exampleLimiter(q ratelimit.ModelQuota) *ratelimit.RateLimiter {
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{
		Quotas:        map[string]ratelimit.ModelQuota{"gpt-4o": q},
		MatchVersions: true,
		FilePath:      filepath.Join(os.TempDir(), "example.yaml"),
	})
	if err != nil {
		panic(err)
	}
	return rl
}

// exampleProvider returns a provider that answers every call.
func exampleProvider() *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `{"choices":[{"message":{"content":"Hello"}}],"usage":{"prompt_tokens":12,"completion_tokens":3}}`)
	}))
}

// Give an SDK this client: option.WithHTTPClient(client) of OpenAI's and Anthropic's,
// ClientConfig.HTTPClient of Google's.
func ExampleNewClient() {
	server := exampleProvider()
	defer server.Close()
	rl := exampleLimiter(ratelimit.ModelQuota{MaxRPM: 500, MaxTPM: 30_000})
	client := llmhttp.NewClient(rl)

	resp, err := client.Post(server.URL+"/v1/chat/completions", "application/json",
		strings.NewReader(`{"model":"gpt-4o-2024-08-06","messages":[{"role":"user","content":"Hi"}]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()

	s := rl.Stats("gpt-4o")
	fmt.Printf("%d request, %d tokens\n", s.RPM, s.TPM)
	// Output: 1 request, 15 tokens
}

// A call that would wait longer than MaxWait is not sent.
func ExampleTransport_refused() {
	server := exampleProvider()
	defer server.Close()
	rl := exampleLimiter(ratelimit.ModelQuota{MaxRPM: 1})
	rl.RecordUsage("gpt-4o", 100, 50) // the minute is used up

	client := &http.Client{Transport: &llmhttp.Transport{
		Limiter:         rl,
		MaxWait:         5 * time.Second,
		RefuseWithError: true,
	}}
	_, err := client.Post(server.URL+"/v1/chat/completions", "application/json", strings.NewReader(`{"model":"gpt-4o"}`))
	var limit *ratelimit.LimitError
	if errors.As(err, &limit) {
		fmt.Println(limit.Decision.Code, limit.Decision.RetryAfter.Round(time.Minute), errors.Is(err, ratelimit.ErrMaxWait))
	}
	// Output: rpm_exceeded 1m0s true
}

// OnEvent receives the events of each call.
func ExampleTransport_onEvent() {
	server := exampleProvider()
	defer server.Close()
	client := &http.Client{Transport: &llmhttp.Transport{
		Limiter: exampleLimiter(ratelimit.ModelQuota{MaxTPM: 30_000}),
		OnEvent: func(e llmhttp.Event) {
			switch e.Kind {
			case llmhttp.EventAdmitted:
				fmt.Println(e.Kind, e.Model, "at an estimate of", e.Charged.PromptTokens+e.Charged.OutputTokens)
			case llmhttp.EventSettled:
				fmt.Println(e.Kind, e.Model, "at", e.Settled.PromptTokens, "and", e.Settled.OutputTokens, "as", e.Source)
			}
		},
	}}
	resp, err := client.Post(server.URL+"/v1/chat/completions", "application/json",
		strings.NewReader(`{"model":"gpt-4o","max_tokens":200,"messages":[{"role":"user","content":"Hi"}]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	// Output:
	// admitted gpt-4o at an estimate of 212
	// settled gpt-4o at 12 and 3 as reported
}

// A provider that does not say what it allows: its refusals tell. A 429 lowers the rate, and
// overload the calls in flight.
func ExampleTransport_adaptive() {
	answers := []int{200, http.StatusTooManyRequests, http.StatusServiceUnavailable}
	calls := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(answers[calls])
		calls++
	}))
	defer server.Close()
	rl := exampleLimiter(ratelimit.ModelQuota{AdaptiveFloorRPM: 6000, AdaptiveFloorInFlight: 10})
	client := llmhttp.NewClient(rl)
	for range answers {
		resp, err := client.Post(server.URL+"/v1/chat/completions", "application/json", strings.NewReader(`{"model":"gpt-4o"}`))
		if err != nil {
			fmt.Println(err)
			return
		}
		resp.Body.Close()
		s := rl.Stats("gpt-4o")
		fmt.Printf("%d: %d requests a minute, %d in flight\n", resp.StatusCode, s.AdaptiveRPM, s.AdaptiveInFlight)
	}
	// Output:
	// 200: 12000 requests a minute, 20 in flight
	// 429: 11400 requests a minute, 20 in flight
	// 503: 11400 requests a minute, 19 in flight
}

// rerank is an adapter for an API that Transport does not know.
type rerank struct{}

func (rerank) Name() string { return "rerank" }

func (rerank) Match(req *http.Request, call *llmhttp.Call) bool {
	call.Operation = "rerank"
	return req.Method == http.MethodPost && strings.HasSuffix(req.URL.Path, "/v2/rerank")
}

func (rerank) Request(call *llmhttp.Call, v llmhttp.Value) {
	if string(v.Path) == "model" && v.Kind == llmhttp.String {
		call.Model = string(v.Text)
	}
}

func (rerank) Estimate(_ *llmhttp.Call, promptTokens, _ int) (prompt, output int) {
	return promptTokens, 0
}

func (rerank) Marks() []string { return []string{`"billed_units"`} }

func (rerank) Response(_ *llmhttp.Call, usage *llmhttp.Usage, v llmhttp.Value) {
	if string(v.Path) == "meta.billed_units.input_tokens" {
		usage.Set(&usage.Prompt, v)
	}
}

func (rerank) Count(_ *llmhttp.Call, usage *llmhttp.Usage) (prompt, output int) {
	return usage.Prompt, 0
}

func (rerank) Refusal(message string) []byte { return []byte(`{"message":"too many requests"}`) }

// An adapter adds an API to a Transport.
func ExampleAdapter() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `{"results":[],"meta":{"billed_units":{"input_tokens":321}}}`)
	}))
	defer server.Close()
	rl := exampleLimiter(ratelimit.ModelQuota{})
	rl.SetQuota("rerank-3", ratelimit.ModelQuota{MaxRPM: 100, MaxTPM: 100_000})
	client := &http.Client{Transport: &llmhttp.Transport{Limiter: rl, Adapters: []llmhttp.Adapter{rerank{}}}}
	resp, err := client.Post(server.URL+"/v2/rerank", "application/json", strings.NewReader(`{"model":"rerank-3","documents":["a","b"]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	fmt.Println(rl.Stats("rerank-3").TPM, "tokens")
	// Output: 321 tokens
}

func ExampleClassify() {
	resp := &http.Response{
		StatusCode: http.StatusTooManyRequests,
		Header:     http.Header{"Retry-After": {"2"}},
		Body:       io.NopCloser(strings.NewReader(`{"error":{"type":"tokens","code":"rate_limit_exceeded"}}`)),
	}
	if p := llmhttp.Classify(resp); p != nil {
		fmt.Println(p)
	}
	// The body can still be read.
	body, _ := io.ReadAll(resp.Body)
	fmt.Println(len(body), "bytes")
	// Output:
	// provider: rate limited (429 rate_limit_exceeded), again in 2s
	// 56 bytes
}

func ExampleClassify_errors() {
	call := func() error {
		resp := &http.Response{
			StatusCode: http.StatusTooManyRequests,
			Body:       io.NopCloser(strings.NewReader(`{"error":{"code":"insufficient_quota"}}`)),
		}
		if p := llmhttp.Classify(resp); p != nil {
			return fmt.Errorf("summarize: %w", p)
		}
		return nil
	}

	err := call()
	if errors.Is(err, llmhttp.ErrExhausted) {
		fmt.Println("no wait helps")
	}
	var p *llmhttp.Problem
	if errors.As(err, &p) {
		fmt.Println(p.Status, p.Code)
	}
	// Output:
	// no wait helps
	// 429 insufficient_quota
}

// One call of a batch may wait a minute, although others wait two seconds.
func ExampleWithMaxWait() {
	server := exampleProvider()
	defer server.Close()
	rl := exampleLimiter(ratelimit.ModelQuota{MaxRPM: 1})
	rl.RecordUsage("gpt-4o", 100, 50) // the minute is used up
	client := &http.Client{Transport: &llmhttp.Transport{
		Limiter: rl, MaxWait: time.Hour, RefuseWithError: true,
	}}

	ctx := llmhttp.WithMaxWait(context.Background(), 2*time.Second)
	req, _ := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/v1/chat/completions",
		strings.NewReader(`{"model":"gpt-4o"}`))
	req.Header.Set("Content-Type", "application/json")
	_, err := client.Do(req)
	fmt.Println(errors.Is(err, ratelimit.ErrMaxWait), errors.Is(err, context.DeadlineExceeded))
	// Output: true false
}

// A team has a quota of its own, and each call takes one of the day's hundred calls of a customer.
func ExampleWithCharge() {
	server := exampleProvider()
	defer server.Close()
	rl := exampleLimiter(ratelimit.ModelQuota{MaxRPM: 500, MaxTPM: 30_000})
	rl.SetQuota("team:search", ratelimit.ModelQuota{MaxTPM: 5_000})
	rl.SetQuota("customer:42", ratelimit.ModelQuota{MaxRPD: 100, MaxTPD: 1_000})
	client := llmhttp.NewClient(rl)

	ctx := llmhttp.WithCharge(context.Background(),
		ratelimit.Request{Model: "team:search"},                   // the tokens of the call
		ratelimit.Request{Model: "customer:42", PromptTokens: 10}, // ten, whatever it takes
	)
	req, _ := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/v1/chat/completions",
		strings.NewReader(`{"model":"gpt-4o","messages":[{"role":"user","content":"Hi"}]}`))
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()

	for _, model := range []string{"gpt-4o", "team:search", "customer:42"} {
		s := rl.Stats(model)
		fmt.Printf("%s: %d request, %d tokens\n", model, s.RPD, s.TPD)
	}
	// Output:
	// gpt-4o: 1 request, 15 tokens
	// team:search: 1 request, 15 tokens
	// customer:42: 1 request, 10 tokens
}

// sdkError stands for the error of an SDK: openai.Error and anthropic.Error have these fields.
type sdkError struct {
	StatusCode int
	Response   *http.Response
}

func (e *sdkError) Error() string { return fmt.Sprintf("API error: %d", e.StatusCode) }

// The error of an SDK tells whether the call was sent.
func ExampleFromError() {
	rl := exampleLimiter(ratelimit.ModelQuota{MaxRPM: 1})
	rl.RecordUsage("gpt-4o", 100, 50) // the minute is used up
	client := &http.Client{Transport: &llmhttp.Transport{Limiter: rl, MaxWait: 2 * time.Second}}

	call := func() error { // as an SDK does
		resp, err := client.Post("https://api.openai.com/v1/chat/completions", "application/json",
			strings.NewReader(`{"model":"gpt-4o"}`))
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		return &sdkError{StatusCode: resp.StatusCode, Response: resp}
	}

	err := call()
	fmt.Println(err)
	if p, ok := llmhttp.FromError(err); ok {
		fmt.Println(p.Kind, p.Model, p.Code, p.RetryAfter.Round(time.Minute))
		fmt.Println(errors.Is(p, llmhttp.ErrNotSent), errors.Is(p, ratelimit.ErrMaxWait))
	}
	// Output:
	// API error: 429
	// call was not sent gpt-4o rpm_exceeded 1m0s
	// true true
}

// An ID joins the events of a call, and the context brings what the caller knows of it.
func ExampleEvent() {
	server := exampleProvider()
	defer server.Close()
	type user struct{}
	client := &http.Client{Transport: &llmhttp.Transport{
		Limiter: exampleLimiter(ratelimit.ModelQuota{MaxTPM: 30_000}),
		OnEvent: func(e llmhttp.Event) {
			if e.Kind == llmhttp.EventSettled {
				fmt.Printf("%v: %s as %s, attempt %d, call known: %t\n",
					e.Context.Value(user{}), e.Requested, e.Model, e.Attempt, e.ID != 0)
				fmt.Println("estimated", e.Estimated, "booked", e.Booked)
			}
		},
	}}
	ctx := context.WithValue(context.Background(), user{}, "ann")
	req, _ := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/v1/chat/completions",
		strings.NewReader(`{"model":"gpt-4o-2024-08-06","max_tokens":200,"messages":[]}`))
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	// Output:
	// ann: gpt-4o-2024-08-06 as gpt-4o, attempt 0, call known: true
	// estimated {10 200} booked {12 3}
}

// Two keys of one API: a call goes to the key with the most room, and a refused one to the other.
func ExampleRoute() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println(r.Header.Get("Authorization"))
		if r.Header.Get("Authorization") == "Bearer sk-large" {
			w.Header().Set("Retry-After", "20")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		io.WriteString(w, `{"usage":{"prompt_tokens":12,"completion_tokens":3}}`)
	}))
	defer server.Close()
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{
		Quotas: map[string]ratelimit.ModelQuota{
			"large/gpt-4o": {MaxRPM: 500},
			"small/gpt-4o": {MaxRPM: 60},
		},
		FilePath: filepath.Join(os.TempDir(), "example.yaml"),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	client := &http.Client{Transport: &llmhttp.Route{
		Transport: llmhttp.Transport{Limiter: rl},
		Backends: []llmhttp.Backend{
			{Name: "large", Header: http.Header{"Authorization": {"Bearer sk-large"}}},
			{Name: "small", Header: http.Header{"Authorization": {"Bearer sk-small"}}},
		},
	}}
	for range 2 { // the large one pauses after the first call
		resp, err := client.Post(server.URL+"/v1/chat/completions", "application/json", strings.NewReader(`{"model":"gpt-4o"}`))
		if err != nil {
			fmt.Println(err)
			return
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		fmt.Println(resp.StatusCode)
	}
	// Output:
	// Bearer sk-large
	// Bearer sk-small
	// 200
	// Bearer sk-small
	// 200
}

// A file is known to the backend that it was uploaded to.
func ExampleWithBackend() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println(r.URL.Path, r.Header.Get("Authorization"))
	}))
	defer server.Close()
	client := &http.Client{Transport: &llmhttp.Route{
		Transport: llmhttp.Transport{Limiter: exampleLimiter(ratelimit.ModelQuota{})},
		Backends: []llmhttp.Backend{
			{Name: "eu", Header: http.Header{"Authorization": {"Bearer sk-eu"}}},
			{Name: "us", Header: http.Header{"Authorization": {"Bearer sk-us"}}},
		},
	}}
	ctx := llmhttp.WithBackend(context.Background(), "us")
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/v1/files/file-1", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	resp, err := client.Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	resp.Body.Close()
	// Output: /v1/files/file-1 Bearer sk-us
}

// A gateway with a line of its own refuses calls in the format that the SDK of the caller knows.
func ExampleRefusal() {
	req := httptest.NewRequest("POST", "https://gateway.test/v1/messages", nil)
	resp := llmhttp.Refusal(req, &ratelimit.LimitError{
		Model: "m", Err: ratelimit.ErrQueueFull,
		Decision: ratelimit.Decision{Code: ratelimit.DecisionRPMLimit, Reason: "we are full", RetryAfter: 1500 * time.Millisecond},
	})
	body, _ := io.ReadAll(resp.Body)
	fmt.Println(resp.StatusCode, resp.Header.Get("Retry-After"))
	fmt.Println(strings.NewReplacer(`"message":`, "\n", `m\": `, "m\\\":\n").Replace(string(body)))
	// Output:
	// 429 2
	// {"type":"error","error":{"type":"rate_limit_error",
	// "go-ratelimit: the call was not sent (rpm_exceeded, queue_full): model \"m\":
	// we are full, free in 1.5s: the queue is full"}}
}
