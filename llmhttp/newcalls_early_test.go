package llmhttp_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
	"dappco.re/go/core/go-ratelimit/money"
)

// A stream of a new API that is closed early costs the larger of what it said so far and the
// estimate. One whose end was announced is complete.
func TestNewCallsClosedEarly(t *testing.T) {
	const (
		delta       = `{"event_type":"step.delta","index":0,"delta":{"type":"text","text":"Hello"}}`
		interaction = `{"event_type":"interaction.completed","interaction":{"usage":{"total_input_tokens":5,"total_output_tokens":9}}}`
		update      = `{"event_type":"interaction.status_update","interaction":{"usage":{"total_input_tokens":5,"total_output_tokens":1}}}`
		cohere      = `{"type":"content-delta","index":0,"delta":{"message":{"content":{"text":"Hello"}}}}`
		cohereEnd   = `{"type":"message-end","delta":{"finish_reason":"COMPLETE","usage":{"billed_units":{"input_tokens":5,"output_tokens":9},"tokens":{"input_tokens":6,"output_tokens":9}}}}`
		output      = `{"type":"message.output.delta","content":"Hello"}`
		outputEnd   = `{"type":"conversation.response.done","usage":{"prompt_tokens":5,"completion_tokens":9}}`
		gemini      = `{"candidates":[{"content":{"parts":[{"text":"x"}]}}],"usageMetadata":{"promptTokenCount":5,"candidatesTokenCount":1}}`
		mistral     = `{"choices":[{"delta":{"content":"x"}}]}`
		mistralEnd  = `{"choices":[{"delta":{}}],"usage":{"prompt_tokens":5,"completion_tokens":9}}`
		interact    = "/v1beta/interactions"
		talk        = "/v1/conversations"
		endpoint    = "/v1/projects/p/locations/l/endpoints/m:streamGenerateContent"
		raw         = "/v1/projects/p/locations/l/publishers/mistralai/models/m:streamRawPredict"
	)
	for _, test := range []struct {
		name, path, extra, answer string
		output                    int // billed
		source                    llmhttp.Source
	}{
		{"Interactions", interact, `"generation_config":{"max_output_tokens":500}`, sse(delta), 500, llmhttp.SourceEstimate},
		{"Interactions, running usage", interact, `"generation_config":{"max_output_tokens":500}`, sse(delta, update), 500, llmhttp.SourceEstimate},
		{"Interactions, completed", interact, `"generation_config":{"max_output_tokens":500}`, sse(delta, interaction), 9, llmhttp.SourceReported},
		{"Cohere", "/v2/chat", `"max_tokens":500`, sse(cohere), 500, llmhttp.SourceEstimate},
		{"Cohere, ended", "/v2/chat", `"max_tokens":500`, sse(cohere, cohereEnd), 9, llmhttp.SourceReported},
		{"Mistral conversation", talk, `"completion_args":{"max_tokens":500}`, sse(output), 500, llmhttp.SourceEstimate},
		{"Mistral conversation, done", talk, `"completion_args":{"max_tokens":500}`, sse(output, outputEnd), 9, llmhttp.SourceReported},
		{"Mistral agent, to [DONE]", "/v1/agents/completions", `"max_tokens":500`, sse(mistral, mistralEnd, "[DONE]"), 9, llmhttp.SourceReported},
		{"Vertex endpoint", endpoint, `"generationConfig":{"maxOutputTokens":500}`, sse(gemini), 500, llmhttp.SourceEstimate},
		{"Vertex, Mistral", raw, `"max_tokens":500`, sse(mistral), 500, llmhttp.SourceEstimate},
		{"Vertex, Mistral, to [DONE]", raw, `"max_tokens":500`, sse(mistral, mistralEnd, "[DONE]"), 9, llmhttp.SourceReported},
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
			if _, err := io.ReadFull(resp.Body, make([]byte, len(test.answer))); err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if got, want := rl.Stats("m").SpendDay, money.Amount(test.output); got != want || settled.Source != test.source {
				t.Errorf("costs %v by %q, want %v by %q", got, settled.Source, want, test.source)
			}
		})
	}
}

// Each new API refuses in the form of its provider, and an answer of the provider that refuses
// takes no tokens and pauses the model.
func TestNewCallsRefused(t *testing.T) {
	for _, test := range newCalls() {
		t.Run(test.name, func(t *testing.T) {
			if test.model == "" {
				test.model = "m"
			}
			rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"*": {MaxRPM: 1, MaxTPM: 1_000_000}}})
			sent := 0
			tr := &llmhttp.Transport{Limiter: rl, MaxWait: time.Millisecond, Base: base(func(req *http.Request) (*http.Response, error) {
				sent++
				return response(req, 429, `{"message":"slow down"}`, "Retry-After: 30"), nil
			})}
			for i, want := range []string{`{"message":"slow down"}`, "go-ratelimit: the call was not sent"} {
				resp, err := post(t, tr, "http://llm.test"+test.path, test.request)
				if err != nil {
					t.Fatal(err)
				}
				text := readAll(t, resp)
				if resp.StatusCode != 429 || !json.Valid([]byte(text)) || !strings.Contains(text, want) {
					t.Errorf("call %d: %d %s", i, resp.StatusCode, text)
				}
				if p := llmhttp.Classify(resp); i == 1 && (p == nil || p.Kind != llmhttp.NotSent || p.Model != test.model) {
					t.Errorf("refused with %v", p)
				}
			}
			s := rl.Stats(test.model)
			if sent != 1 || s.RPM != 1 || s.TPM != 0 || time.Until(s.CooldownUntil) < 29*time.Second {
				t.Errorf("%d sent, charged %+v", sent, s)
			}
		})
	}
}
