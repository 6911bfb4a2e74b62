package llmhttp_test

import (
	"io"
	"net/http"
	"testing"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
	es "dappco.re/go/core/go-ratelimit/llmhttp/internal/eventstreamtest"
	"dappco.re/go/core/go-ratelimit/money"
)

const (
	eventStream = "Content-Type: application/vnd.amazon.eventstream"

	converseURL = "/model/us.anthropic.claude-3-5-sonnet-20241022-v2%3A0/"
	nova        = "/model/amazon.nova-pro-v1%3A0/"
	deltas      = `{"contentBlockIndex":0,"delta":{"text":"Hello"},"p":"abcdefgh"}`
	converseEnd = `{"metrics":{"latencyMs":551},"p":"abcd","usage":{"cacheReadInputTokens":100,"cacheWriteInputTokens":5,"inputTokens":11,"outputTokens":7,"totalTokens":123}}`

	claudeBegin = `{"type":"message_start","message":{"id":"msg_bdrk_1","role":"assistant","content":[],"usage":{"input_tokens":25,"cache_creation_input_tokens":2,"cache_read_input_tokens":50,"output_tokens":1}}}`
	claudeText  = `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello"}}`
	claudeStop  = `{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":15}}`
	claudeEnd   = `{"type":"message_stop","amazon-bedrock-invocationMetrics":{"inputTokenCount":25,"outputTokenCount":15,"invocationLatency":900,"firstByteLatency":300,"cacheReadInputTokenCount":50,"cacheWriteInputTokenCount":2}}`
	novaEnd     = `{"messageStop":{"stopReason":"end_turn"},"amazon-bedrock-invocationMetrics":{"inputTokenCount":4,"outputTokenCount":6}}`
)

// A newCall is a call of an API with its answer.
type newCall struct {
	name, path, request, response string
	model                         string // empty for "m"
	headers                       []string
	in, out                       int         // as the provider counts
	bill                          money.Usage // as it bills
	source                        llmhttp.Source
}

func newCalls() []newCall {
	bill := func(in, cached, written, out int) money.Usage {
		return money.Usage{Input: in, CachedInput: cached, CacheWrite: written, Output: out}
	}
	const (
		sonnet      = "us.anthropic.claude-3-5-sonnet-20241022-v2:0"
		reported    = llmhttp.SourceReported
		estimated   = llmhttp.SourceEstimate
		claude      = `{"anthropic_version":"bedrock-2023-05-31","max_tokens":64,"messages":[]}`
		interaction = `{"id":"v1_abc","object":"interaction","model":"m","status":"completed","steps":[{"type":"model_output","content":[{"type":"text","text":"Hi"}]}],"usage":{"total_input_tokens":30,"total_cached_tokens":10,"total_output_tokens":12,"total_thought_tokens":4,"total_tool_use_tokens":2,"total_tokens":48}}`
	)
	return []newCall{
		{
			"Interactions", "/v1beta/interactions", `{"model":"models/m","input":"hi","generation_config":{"max_output_tokens":100}}`,
			interaction, "", nil, 32, 0, bill(22, 10, 0, 16), reported,
		},
		{
			"Interactions, an agent", "/v1beta/interactions", `{"agent":"deep-research-preview","input":"hi","background":false}`,
			interaction, "deep-research-preview", nil, 32, 0, bill(22, 10, 0, 16), reported,
		},
		{
			"Interactions, in the background", "/v1beta/interactions", `{"model":"m","input":"aaaaaaaaaaaaa","background":true,"generation_config":{"max_output_tokens":100}}`,
			`{"id":"v1_abc","object":"interaction","status":"in_progress","model":"m"}`, "", nil, 17, 0, bill(17, 0, 0, 100), estimated,
		},
		{
			"Interactions, streamed", "/v1/interactions", `{"model":"m","input":"hi","stream":true}`,
			"event: interaction.created\ndata: {\"event_type\":\"interaction.created\",\"interaction\":{\"id\":\"v1\",\"status\":\"in_progress\"}}\n\n" +
				"event: step.delta\ndata: {\"event_type\":\"step.delta\",\"index\":0,\"delta\":{\"type\":\"text\",\"text\":\"Hello\"}}\n\n" +
				"event: interaction.completed\ndata: {\"event_type\":\"interaction.completed\",\"interaction\":{\"id\":\"v1\",\"status\":\"completed\",\"usage\":{\"total_input_tokens\":30,\"total_output_tokens\":12,\"total_thought_tokens\":4}}}\n\n" +
				"event: done\ndata: [DONE]\n\n",
			"", nil, 30, 0, bill(30, 0, 0, 16), reported,
		},
		{
			"OpenAI compact", "/v1/responses/compact", `{"model":"m","input":[{"role":"user","content":"hi"}]}`,
			`{"id":"resp_1","object":"response.compaction","created_at":1764967971,"output":[{"id":"cmp_1","type":"compaction","encrypted_content":"gAAAAABpM0Yj"}],"usage":{"input_tokens":139,"input_tokens_details":{"cached_tokens":9},"output_tokens":438,"output_tokens_details":{"reasoning_tokens":64},"total_tokens":577}}`,
			"", nil, 139, 438, bill(130, 9, 0, 438), reported,
		},
		{
			"Cohere chat", "/v2/chat", `{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":50}`,
			`{"id":"c14c80c3","message":{"role":"assistant","content":[{"type":"text","text":"LLMs"}]},"finish_reason":"COMPLETE","usage":{"billed_units":{"input_tokens":5,"output_tokens":418},"tokens":{"input_tokens":71,"output_tokens":418}}}`,
			"", nil, 71, 418, bill(5, 0, 0, 418), reported,
		},
		{
			"Cohere chat, the tokens first", "/v2/chat", `{"model":"m","messages":[]}`,
			`{"usage":{"tokens":{"input_tokens":71.0,"output_tokens":9},"billed_units":{"input_tokens":5.0,"output_tokens":8}}}`,
			"", nil, 71, 9, bill(5, 0, 0, 8), reported,
		},
		{
			"Cohere chat, streamed", "/v2/chat", `{"model":"m","messages":[],"stream":true}`,
			"event: message-start\ndata: {\"type\":\"message-start\",\"id\":\"29f1\",\"delta\":{\"message\":{\"role\":\"assistant\",\"content\":[]}}}\n\n" +
				"event: content-delta\ndata: {\"type\":\"content-delta\",\"index\":0,\"delta\":{\"message\":{\"content\":{\"text\":\"LLMs\"}}}}\n\n" +
				"event: message-end\ndata: {\"type\":\"message-end\",\"delta\":{\"finish_reason\":\"COMPLETE\",\"usage\":{\"billed_units\":{\"input_tokens\":12,\"output_tokens\":7},\"tokens\":{\"input_tokens\":78,\"output_tokens\":7}}}}\n\n",
			"", nil, 78, 7, bill(12, 0, 0, 7), reported,
		},
		{
			"Cohere embed", "/v2/embed", `{"model":"m","texts":["hello"],"input_type":"search_query","max_tokens":900}`,
			`{"id":"da6e531f","embeddings":{"float":[[0.01,-0.02]]},"texts":["hello"],"meta":{"api_version":{"version":"2"},"billed_units":{"input_tokens":2}}}`,
			"", nil, 2, 0, bill(2, 0, 0, 0), reported,
		},
		{
			"Cohere rerank", "/v2/rerank", `{"model":"m","query":"what","documents":["aaaaaaaaaa"]}`,
			`{"id":"07734bd2","results":[{"index":3,"relevance_score":0.99}],"meta":{"billed_units":{"search_units":1}}}`,
			"", nil, 9, 0, bill(9, 0, 0, 0), llmhttp.SourceText,
		},
		{
			"Mistral agents", "/v1/agents/completions", `{"agent_id":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":50}`,
			`{"id":"cmpl-1","object":"chat.completion","model":"mistral-small-latest","usage":{"prompt_tokens":16,"completion_tokens":34,"total_tokens":50},"choices":[{"index":0,"message":{"role":"assistant","content":"Hi"}}]}`,
			"", nil, 16, 34, bill(16, 0, 0, 34), reported,
		},
		{
			"Mistral fim, streamed", "/v1/fim/completions", `{"model":"m","prompt":"def","suffix":"return","stream":true}`,
			sse(`{"choices":[{"delta":{"content":"x"}}]}`, `{"choices":[{"delta":{"content":""},"finish_reason":"stop"}],"usage":{"prompt_tokens":8,"completion_tokens":9,"total_tokens":17}}`, "[DONE]"),
			"", nil, 8, 9, bill(8, 0, 0, 9), reported,
		},
		{
			"Mistral conversations", "/v1/conversations", `{"agent_id":"m","inputs":"hi","completion_args":{"max_tokens":50}}`,
			`{"conversation_id":"conv_1","outputs":[{"type":"message.output","content":"Hi","model":"mistral-medium-latest"}],"usage":{"prompt_tokens":188,"completion_tokens":55,"total_tokens":7355,"connector_tokens":7112,"connectors":{"web_search":1}},"object":"conversation.response"}`,
			"", nil, 7300, 55, bill(7300, 0, 0, 55), reported,
		},
		{
			"Mistral conversations, go on, streamed", "/v1/conversations/conv_1", `{"inputs":"hi","stream":true}`,
			"event: message.output.delta\ndata: {\"type\":\"message.output.delta\",\"content\":\"Hello\"}\n\n" +
				"event: conversation.response.done\ndata: {\"type\":\"conversation.response.done\",\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":8,\"total_tokens\":18,\"connector_tokens\":null}}\n\n",
			"mistral-conversation", nil, 10, 8, bill(10, 0, 0, 8), reported,
		},
		{"Mistral conversations, anew", "/v1/conversations/conv_1/restart", `{"inputs":"","from_entry_id":"e","agent_id":"m"}`, `{"usage":{"prompt_tokens":10,"completion_tokens":8}}`, "", nil, 10, 8, bill(10, 0, 0, 8), reported},
		{"Ollama embed", "/api/embed", `{"model":"m","input":["a","b"]}`, `{"model":"m","embeddings":[[0.1]],"total_duration":14143917,"load_duration":1019500,"prompt_eval_count":8}`, "", nil, 8, 0, bill(8, 0, 0, 0), reported},
		{"Ollama embeddings", "/api/embeddings", `{"model":"m","prompt":"aaaa"}`, `{"embedding":[0.5,0.01]}`, "", nil, 4, 0, bill(4, 0, 0, 0), llmhttp.SourceText},
		{
			"Vertex endpoint", "/v1/projects/p/locations/l/endpoints/m:generateContent", `{"contents":[]}`,
			`{"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":30,"candidatesTokenCount":12,"totalTokenCount":42}}`,
			"", nil, 30, 0, bill(30, 0, 0, 12), reported,
		},
		{
			"Vertex endpoint, streamed", "/v1/projects/p/locations/l/endpoints/m:streamGenerateContent?alt=sse", `{"contents":[]}`,
			sse(`{"usageMetadata":{"promptTokenCount":30,"candidatesTokenCount":1}}`, `{"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":31,"candidatesTokenCount":12}}`),
			"", nil, 31, 0, bill(31, 0, 0, 12), reported,
		},
		{
			"Vertex, Mistral", "/v1/projects/p/locations/l/publishers/mistralai/models/m:rawPredict", `{"model":"m","messages":[],"max_tokens":50}`,
			`{"object":"chat.completion","choices":[{"message":{"content":"Hi"}}],"usage":{"prompt_tokens":13,"completion_tokens":5,"total_tokens":18}}`,
			"", nil, 13, 5, bill(13, 0, 0, 5), reported,
		},
		{
			"Vertex, Mistral, streamed", "/v1/projects/p/locations/l/publishers/mistralai/models/m:streamRawPredict", `{"model":"m","stream":true}`,
			sse(`{"choices":[{"delta":{"content":"Hi"}}]}`, `{"choices":[{"delta":{}}],"usage":{"prompt_tokens":13,"completion_tokens":5}}`, "[DONE]"),
			"", nil, 13, 5, bill(13, 0, 0, 5), reported,
		},
		{
			"Vertex, an endpoint that speaks Anthropic's API", "/v1/projects/p/locations/l/endpoints/m:rawPredict", `{"max_tokens":50}`,
			`{"usage":{"input_tokens":13,"cache_creation_input_tokens":4,"cache_read_input_tokens":9,"output_tokens":5}}`,
			"", nil, 17, 5, bill(13, 9, 4, 5), reported,
		},
		{"OpenAI images", "/v1/images/generations", `{"model":"m","prompt":"a cat"}`, `{"created":1,"data":[{"b64_json":"` + string(letters(5<<20)) + `"}]}`, "", nil, 0, 0, bill(0, 0, 0, 0), estimated},
		{
			"OpenAI images with tokens", "/v1/images/generations", `{"model":"m","prompt":"a cat"}`,
			`{"data":[{"b64_json":"aGk="}],"usage":{"total_tokens":100,"input_tokens":50,"output_tokens":50,"input_tokens_details":{"text_tokens":10,"image_tokens":40}}}`,
			"", nil, 50, 50, bill(50, 0, 0, 50), reported,
		},
		{"OpenAI images, no model", "/v1/images/generations", `{"model":null,"prompt":"a cat"}`, `{"data":[]}`, "dall-e-2", nil, 0, 0, bill(0, 0, 0, 0), estimated},
		{"Azure images", "/openai/deployments/m/images/generations", `{"prompt":"a cat"}`, `{"data":[]}`, "", nil, 0, 0, bill(0, 0, 0, 0), estimated},
		{"OpenAI speech", "/v1/audio/speech", `{"model":"m","input":"hello","voice":"alloy"}`, "ID3\x04\x00\x00", "", []string{"Content-Type: audio/mpeg"}, 0, 0, bill(0, 0, 0, 0), estimated},
		{"OpenAI moderations", "/v1/moderations", `{"input":"hi"}`, `{"id":"modr-1","model":"omni-moderation-latest","results":[{"flagged":false}]}`, "omni-moderation-latest", nil, 0, 0, bill(0, 0, 0, 0), estimated},
		{"OpenAI videos", "/v1/videos", `{"model":"m","prompt":"a cat"}`, `{"id":"video_1","status":"queued"}`, "", nil, 0, 0, bill(0, 0, 0, 0), estimated},
		{
			"Bedrock converse", converseURL + "converse", `{"messages":[{"role":"user","content":[{"text":"hi"}]}],"inferenceConfig":{"maxTokens":50}}`,
			`{"metrics":{"latencyMs":551},"output":{"message":{"content":[{"text":"Hello"}],"role":"assistant"}},"stopReason":"end_turn","usage":{"cacheReadInputTokens":100,"cacheWriteInputTokens":5,"inputTokens":11,"outputTokens":7,"totalTokens":123}}`,
			sonnet, nil, 16, 35, bill(11, 100, 5, 7), reported,
		},
		{
			"Bedrock converse-stream", converseURL + "converse-stream", `{"messages":[]}`,
			es.Event("messageStart", `{"role":"assistant","p":"ab"}`) + es.Event("contentBlockDelta", deltas) + es.Event("contentBlockStop", `{"contentBlockIndex":0}`) +
				es.Event("messageStop", `{"stopReason":"end_turn"}`) + es.Event("metadata", converseEnd),
			sonnet, []string{eventStream}, 16, 35, bill(11, 100, 5, 7), reported,
		},
		{
			"Bedrock converse, a model of OpenAI", "/model/openai.gpt-oss-120b-1:0/converse", `{"messages":[]}`,
			`{"usage":{"cacheReadInputTokens":100,"cacheWriteInputTokens":5,"inputTokens":111,"outputTokens":7}}`,
			"openai.gpt-oss-120b-1:0", nil, 11, 7, bill(6, 100, 5, 7), reported,
		},
		{
			"Bedrock invoke", converseURL + "invoke", claude,
			`{"id":"msg_bdrk_1","type":"message","content":[{"type":"text","text":"Hello"}],"stop_reason":"end_turn","usage":{"input_tokens":25,"cache_creation_input_tokens":2,"cache_read_input_tokens":50,"output_tokens":15}}`,
			sonnet, []string{"X-Amzn-Bedrock-Input-Token-Count: 25", "X-Amzn-Bedrock-Output-Token-Count: 15"}, 27, 75, bill(25, 50, 2, 15), reported,
		},
		{
			"Bedrock invoke, the usage in headers", "/model/mistral.mistral-large-2407-v1:0/invoke", `{"prompt":"hi","max_tokens":64}`, `{"outputs":[{"text":"Hello","stop_reason":"stop"}]}`,
			"mistral.mistral-large-2407-v1:0",
			[]string{
				"X-Amzn-Bedrock-Input-Token-Count: 25", "X-Amzn-Bedrock-Output-Token-Count: 15",
				"X-Amzn-Bedrock-Cache-Read-Input-Token-Count: 50", "X-Amzn-Bedrock-Cache-Write-Input-Token-Count: 2",
			}, 27, 15, bill(25, 50, 2, 15), reported,
		},
		{
			"Bedrock invoke, no usage", "/model/cohere.command-r-v1:0/invoke", `{"message":"hi","max_tokens":64}`, `{"text":"Hello"}`,
			"cohere.command-r-v1:0", nil, 5, 3, bill(5, 0, 0, 3), llmhttp.SourceText,
		},
		{
			"Bedrock invoke, Llama", "/model/meta.llama3-70b-instruct-v1:0/invoke", `{"prompt":"hi","max_gen_len":64}`,
			`{"generation":"Hello","prompt_token_count":4,"generation_token_count":6,"stop_reason":"stop"}`,
			"meta.llama3-70b-instruct-v1:0", nil, 4, 6, bill(4, 0, 0, 6), reported,
		},
		{
			"Bedrock invoke, embeddings", "/model/amazon.titan-embed-text-v2:0/invoke", `{"inputText":"hi"}`,
			`{"embedding":[0.1],"inputTextTokenCount":3}`, "amazon.titan-embed-text-v2:0", nil, 3, 0, bill(3, 0, 0, 0), reported,
		},
		{
			"Bedrock invoke, streamed", converseURL + "invoke-with-response-stream", claude,
			es.Chunks(claudeBegin, claudeText, claudeStop, claudeEnd), sonnet, []string{eventStream}, 27, 75, bill(25, 50, 2, 15), reported,
		},
		{
			"Bedrock invoke, streamed, Nova", nova + "invoke-with-response-stream", `{"inferenceConfig":{"maxTokens":9}}`,
			es.Chunks(`{"contentBlockDelta":{"delta":{"text":"Hello"},"contentBlockIndex":0}}`, novaEnd),
			"amazon.nova-pro-v1:0", []string{eventStream}, 4, 6, bill(4, 0, 0, 6), reported,
		},
		{
			"Bedrock, the ARN of a profile", "/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A123456789012%3Ainference-profile%2Fus.anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse", `{}`,
			`{"usage":{"inputTokens":11,"outputTokens":7}}`,
			"arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-sonnet-4-5-20250929-v1:0", nil, 11, 35, bill(11, 0, 0, 7), reported,
		},
		{
			"Bedrock, an ARN as it is", "/model/arn:aws:bedrock:us-east-1::foundation-model/amazon.nova-pro-v1:0/converse", `{}`,
			`{"usage":{"inputTokens":11,"outputTokens":7}}`,
			"arn:aws:bedrock:us-east-1::foundation-model/amazon.nova-pro-v1:0", nil, 11, 7, bill(11, 0, 0, 7), reported,
		},
	}
}

func letters(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = 'A'
	}
	return b
}

// The calls and their answers pass unchanged, and count and cost what the provider says.
func TestNewCalls(t *testing.T) {
	for _, test := range newCalls() {
		t.Run(test.name, func(t *testing.T) {
			if test.model == "" {
				test.model = "m"
			}
			rl := newLimiterWith(t, ratelimit.Config{
				Quotas: map[string]ratelimit.ModelQuota{"*": {MaxRPM: 100, MaxTPM: 1_000_000, MaxSpendPerDay: 1_000_000_000 * money.Dollar}},
				Prices: map[string]money.Price{test.model: {Input: money.Dollar, CachedInput: 1000 * money.Dollar, CacheWrite: 100_000 * money.Dollar, Output: 10_000_000 * money.Dollar}},
			})
			var settled llmhttp.Event
			tr := &llmhttp.Transport{Limiter: rl, Base: base(func(req *http.Request) (*http.Response, error) {
				if body, _ := io.ReadAll(req.Body); string(body) != test.request || int(req.ContentLength) != len(body) {
					t.Errorf("the request went as %q with %d", body, req.ContentLength)
				}
				return response(req, 200, test.response, test.headers...), nil
			}), OnEvent: func(e llmhttp.Event) {
				if e.Kind == llmhttp.EventSettled {
					settled = e
				}
			}}
			resp, err := post(t, tr, "http://llm.test"+test.path, test.request)
			if err != nil {
				t.Fatal(err)
			}
			if got := readAll(t, resp); got != test.response {
				t.Errorf("the answer came as %.200q", got)
			}
			s := rl.Stats(test.model)
			if s.ITPM != test.in || s.OTPM != test.out || s.RPM != 1 || s.InFlight != 0 || len(rl.AllStats()) != 1 {
				t.Errorf("charged %d in, %d out, %d requests of %q, %d in flight; want %d in, %d out", s.ITPM, s.OTPM, s.RPM, settled.Requested, s.InFlight, test.in, test.out)
			}
			if settled.Source != test.source || tr.Anomalies() != 0 {
				t.Errorf("settled by %q, %d anomalies, want %q", settled.Source, tr.Anomalies(), test.source)
			}
			price, _ := rl.PriceOf(test.model)
			if got, want := s.SpendDay, price.Cost(test.bill); got != want {
				t.Errorf("costs %v of %+v, want %v for %+v", got, settled.Reported, want, test.bill)
			}
		})
	}
}
