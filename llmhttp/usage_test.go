package llmhttp_test

import (
	"io"
	"net/http"
	"testing"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

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

// The name under which a call is counted does not change its provider's way of counting.
func TestModelDoesNotChangeWhatCounts(t *testing.T) {
	rl := newLimiter(t, ratelimit.ModelQuota{MaxTPM: 1_000_000})
	tr := &llmhttp.Transport{
		Limiter: rl, Model: func(*llmhttp.Call) string { return "m" },
		Base: reply(200, `{"usage":{"input_tokens":10,"cache_read_input_tokens":1000,"output_tokens":3}}`),
	}
	resp, err := post(t, tr, "http://llm.test/v1/messages", `{"model":"claude-3-5-haiku-20241022","max_tokens":5}`)
	if err != nil {
		t.Fatal(err)
	}
	readAll(t, resp)
	if s := rl.Stats("m"); s.ITPM != 1010 {
		t.Errorf("charged %d in; Haiku 3.5 counts what is read from the cache: want 1010", s.ITPM)
	}
}

// OpenAI does not refund its charge for the arrival of a call.
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

// Other providers on OpenAI's hosts refund.
func TestAzureKeepsOnlyOpenAIs(t *testing.T) {
	rl := newLimiter(t, ratelimit.ModelQuota{MaxOTPM: 10_000})
	tr := &llmhttp.Transport{Limiter: rl, Base: reply(200, `{"usage":{"input_tokens":10,"output_tokens":3}}`)}
	resp, err := post(t, tr, "https://x.services.ai.azure.com/anthropic/v1/messages", `{"model":"m","max_tokens":900}`)
	if err != nil {
		t.Fatal(err)
	}
	readAll(t, resp)
	if s := rl.Stats("m"); s.OTPM != 3 {
		t.Errorf("charged %d out, want 3", s.OTPM)
	}
}
