package llmhttp_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
	"dappco.re/go/core/go-ratelimit/money"
)

// Where each chunk of a stream reports the usage so far, an answer that is closed early costs the
// larger of that and the estimate, and teaches nothing. One whose end was announced is complete.
func TestClosedEarlyWithRunningUsage(t *testing.T) {
	const (
		vllm      = `{"choices":[{"delta":{"content":"x"}}],"usage":{"prompt_tokens":5,"completion_tokens":1}}`
		vllmMore  = `{"choices":[{"delta":{"content":"x"}}],"usage":{"prompt_tokens":5,"completion_tokens":700}}`
		last      = `{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":9}}`
		gemini    = `{"candidates":[{"content":{"parts":[{"text":"x"}]}}],"usageMetadata":{"promptTokenCount":5,"candidatesTokenCount":1}}`
		geminiEnd = `{"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":5,"candidatesTokenCount":9}}`
		claude    = `{"type":"message_start","message":{"usage":{"input_tokens":5,"output_tokens":1}}}`
		claudeNow = `{"type":"message_delta","delta":{"stop_reason":null},"usage":{"output_tokens":2}}`
		claudeEnd = `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":9}}`
		responses = `{"type":"response.in_progress","response":{"usage":{"input_tokens":5,"output_tokens":1}}}`
		completed = `{"type":"response.completed","response":{"usage":{"input_tokens":5,"output_tokens":9}}}`
		chat      = "/v1/chat/completions"
		generate  = "/v1beta/models/m:streamGenerateContent"
		messages  = "/v1/messages"
	)
	for _, test := range []struct {
		name, path, extra, answer string
		output                    int // billed
		source                    llmhttp.Source
	}{
		{"vLLM", chat, `"max_tokens":500`, sse(vllm), 500, llmhttp.SourceEstimate},
		{"vLLM, more than the estimate", chat, `"max_tokens":500`, sse(vllm, vllmMore), 700, llmhttp.SourceEstimate},
		{"the chunk with the usage", chat, `"max_tokens":500`, sse(vllm, last), 9, llmhttp.SourceReported},
		{"vLLM, to [DONE]", chat, `"max_tokens":500`, sse(vllm, "[DONE]"), 1, llmhttp.SourceReported},
		{"Gemini", generate, `"generationConfig":{"maxOutputTokens":500}`, sse(gemini), 500, llmhttp.SourceEstimate},
		{"Gemini, the reason to finish was read", generate, `"generationConfig":{"maxOutputTokens":500}`, sse(gemini, geminiEnd), 9, llmhttp.SourceReported},
		{"Gemini, that of one of two candidates", generate, `"generationConfig":{"maxOutputTokens":500,"candidateCount":2}`, sse(gemini, geminiEnd), 1000, llmhttp.SourceEstimate},
		{"Gemini, an array", generate, `"generationConfig":{"maxOutputTokens":500}`, "[" + gemini + ",\n", 500, llmhttp.SourceEstimate},
		{"Anthropic", messages, `"max_tokens":500`, sse(claude, claudeNow), 500, llmhttp.SourceEstimate},
		{"Anthropic, the reason to stop was read", messages, `"max_tokens":500`, sse(claude, claudeEnd), 9, llmhttp.SourceReported},
		{"Responses", "/v1/responses", `"max_output_tokens":500`, sse(responses), 500, llmhttp.SourceEstimate},
		{"Responses, completed", "/v1/responses", `"max_output_tokens":500`, sse(responses, completed), 9, llmhttp.SourceReported},
	} {
		t.Run(test.name, func(t *testing.T) {
			rl := newLimiterWith(t, ratelimit.Config{
				Quotas: map[string]ratelimit.ModelQuota{"m": {MaxTPM: 1_000_000, MaxSpendPerDay: 10 * money.Dollar}},
				Prices: map[string]money.Price{"m": {Output: money.Dollar}},
			})
			var settled llmhttp.Event
			tr := &llmhttp.Transport{Limiter: rl, FirstOutput: 500, Base: reply(200, test.answer), OnEvent: func(e llmhttp.Event) {
				if e.Kind == llmhttp.EventSettled {
					settled = e
				}
			}}
			resp, err := post(t, tr, "http://llm.test"+test.path, `{"model":"m","stream":true,`+test.extra+`}`)
			if err != nil {
				t.Fatal(err)
			}
			readOnce(t, resp, nil)
			if settled.Source != test.source {
				t.Errorf("settled by %q, want %q", settled.Source, test.source)
			}
			if got, want := rl.Stats("m").SpendDay, money.Amount(test.output); got != want {
				t.Errorf("costs %v, want %v", got, want)
			}
			if n := rl.Estimate("m").Answers; test.source == llmhttp.SourceEstimate && n > 0 {
				t.Errorf("learned from %d answers", n)
			}
		})
	}
}

// The receipt of a response that the model works on in the background costs what was reserved.
func TestBackgroundResponse(t *testing.T) {
	for _, test := range []struct {
		answer string
		output int
	}{
		{`{"id":"resp_1","status":"queued","background":true,"output":[],"usage":null}`, 500},
		{`{"id":"resp_1","status":"in_progress","background":true,"output":[]}`, 500},
		{`{"id":"resp_1","status":"queued","usage":{"input_tokens":0,"output_tokens":0}}`, 500},
		{`{"id":"resp_1","status":"completed","usage":{"input_tokens":5,"output_tokens":9}}`, 9},
		{`{"id":"resp_1","status":"in_progress","usage":{"input_tokens":5,"output_tokens":9}}`, 9},
	} {
		rl := newLimiter(t, ratelimit.ModelQuota{MaxTPM: 1_000_000})
		tr := &llmhttp.Transport{Limiter: rl, FirstOutput: 500, Base: reply(200, test.answer)}
		exchange(t, tr, "http://llm.test/v1/responses", `{"model":"m","background":true,"max_output_tokens":500,"input":"x"}`)
		if s := rl.Stats("m"); s.OTPM != test.output {
			t.Errorf("%s: counted %d, want %d", test.answer, s.OTPM, test.output)
		}
	}
}

// A refusal that a gateway built on this package passes on is one of the provider to its clients:
// the call was sent, and the pause that it asks for is kept.
func TestRefusalOfGateway(t *testing.T) {
	inner := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 1})
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tr := &llmhttp.Transport{Limiter: inner, MaxWait: time.Millisecond, Base: reply(200, someUsage)}
		out := r.Clone(r.Context())
		out.URL.Scheme, out.URL.Host, out.RequestURI = "http", "llm.test", ""
		resp, err := tr.RoundTrip(out)
		if err != nil {
			t.Error(err)
			return
		}
		for name, values := range resp.Header {
			w.Header()[name] = values
		}
		w.WriteHeader(resp.StatusCode)
		w.Write([]byte(readAll(t, resp)))
	}))
	defer gateway.Close()
	var problems []*llmhttp.Problem
	rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 100})
	tr := &llmhttp.Transport{Limiter: rl, OnEvent: func(e llmhttp.Event) {
		if e.Kind == llmhttp.EventProblem {
			problems = append(problems, e.Problem)
		}
	}}
	defer tr.CloseIdleConnections()
	exchange(t, tr, gateway.URL+"/v1/chat/completions", `{"model":"m"}`)
	resp, err := post(t, tr, gateway.URL+"/v1/chat/completions", `{"model":"m"}`)
	if err != nil {
		t.Fatal(err)
	}
	if p := llmhttp.Classify(resp); p.Kind != llmhttp.RateLimited || p.RetryAfter < 50*time.Second {
		t.Errorf("classified as %v, retry after %v", p.Kind, p.RetryAfter)
	}
	if text := readAll(t, resp); !strings.Contains(text, "rate_limit") {
		t.Errorf("the body is %s", text)
	}
	if len(problems) != 1 || problems[0].Kind != llmhttp.RateLimited {
		t.Errorf("problems %v", problems)
	}
	if s := rl.Stats("m"); s.RPM != 2 || time.Until(s.CooldownUntil) < 50*time.Second {
		t.Errorf("counted %d, paused until %v", s.RPM, s.CooldownUntil)
	}
}
