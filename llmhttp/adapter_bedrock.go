package llmhttp

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"dappco.re/go/core/go-ratelimit/llmhttp/internal/headers"
	"dappco.re/go/core/go-ratelimit/money"
)

// bedrock is the adapter for the runtime of Amazon Bedrock: Converse, InvokeModel, and their
// streams. Its other endpoint, mantle, speaks OpenAI's API and Anthropic's.
//
// See
// https://docs.aws.amazon.com/bedrock/latest/APIReference/API_Operations_Amazon_Bedrock_Runtime.html
// and, for the counting of tokens,
// https://docs.aws.amazon.com/bedrock/latest/userguide/quotas-token-burndown.html.
type bedrock struct{}

func (bedrock) Name() string { return "bedrock" }

const (
	converse       = "converse"
	converseStream = "converse-stream"
	invoke         = "invoke"
	invokeStream   = "invoke-with-response-stream"
)

func (bedrock) Match(req *http.Request, call *Call) bool {
	if req.Method != http.MethodPost {
		return false
	}
	model, operation, ok := bedrockModel(req.URL.Path)
	if !ok {
		return false
	}
	switch operation {
	case converse, invoke:
	case converseStream, invokeStream:
		call.Stream = true
	case "count-tokens":
		call.Free = true
	default:
		return false
	}
	call.Operation, call.Model, call.inPath = operation, model, true
	return true
}

// bedrockModel returns the parts of a path .../model/MODEL/OPERATION. It is the path without its
// escapes: the name of a model may be an ARN, which has colons and slashes, escaped or not.
func bedrockModel(path string) (model, operation string, ok bool) {
	_, rest, found := strings.Cut(path, "/model/")
	i := strings.LastIndexByte(rest, '/')
	if !found || i <= 0 {
		return "", "", false
	}
	return rest[:i], rest[i+1:], true
}

// Request reads the limit of the output. The body of an invocation is that of the model's vendor.
func (bedrock) Request(call *Call, v Value) {
	switch string(v.Path) {
	case "serviceTier.type":
		call.tier = tierOf(v)
		return
	case "inferenceConfig.maxTokens":
	case "max_tokens", "max_completion_tokens", "max_tokens_to_sample", "max_gen_len",
		"inferenceConfig.max_new_tokens", "textGenerationConfig.maxTokenCount":
		if call.Operation != invoke && call.Operation != invokeStream {
			return
		}
	default:
		return
	}
	if n, ok := tokenCount(v); ok {
		call.MaxOutput = max(call.MaxOutput, n)
	}
}

// Estimate returns the prompt, and as output the larger of max_tokens, which Bedrock takes from
// the quota when a call arrives, and what the answer is expected to take in the end.
func (b bedrock) Estimate(call *Call, promptTokens, outputTokens int) (prompt, output int) {
	if b.embeds(call) {
		return promptTokens, 0
	}
	return promptTokens, max(clampTokens(int64(outputTokens)*int64(b.weight(call))), call.MaxOutput)
}

// embeds reports whether the model writes nothing.
func (bedrock) embeds(call *Call) bool {
	return strings.Contains(call.Model, "embed") || strings.Contains(call.Model, "rerank")
}

// Marks returns the names of what has usage: in a Converse stream, in the chunks of an invocation,
// and in those of Llama.
func (bedrock) Marks() []string {
	return []string{`"usage"`, `"amazon-bedrock-invocationMetrics"`, `"generation_token_count"`}
}

// Response reads the usage that Converse reports, and the forms of the vendors, whose fields differ
// in their names alone.
func (bedrock) Response(call *Call, usage *Usage, v Value) {
	path, starts := strings.CutPrefix(string(v.Path), "message.") // Anthropic's message_start
	path, metrics := strings.CutPrefix(path, "amazon-bedrock-invocationMetrics.")
	switch path {
	case "usage.inputTokens", "usage.input_tokens", "usage.prompt_tokens", "prompt_token_count",
		"inputTextTokenCount", "inputTokenCount":
		usage.Set(&usage.Prompt, v)
	case "usage.cacheReadInputTokens", "usage.cacheReadInputTokenCount", "cacheReadInputTokenCount",
		"usage.cache_read_input_tokens", "usage.prompt_tokens_details.cached_tokens":
		usage.Set(&usage.CacheRead, v)
	case "usage.cacheWriteInputTokens", "usage.cacheWriteInputTokenCount", "cacheWriteInputTokenCount",
		"usage.cache_creation_input_tokens":
		usage.Set(&usage.CacheWrite, v)
	case "usage.outputTokens", "usage.output_tokens", "usage.completion_tokens",
		"generation_token_count", "results.tokenCount", "outputTokenCount":
		usage.Set(&usage.Output, v)
		usage.Partial = starts
		usage.final = usage.final || metrics || call.Operation == converseStream
	case "usage.cache_creation.ephemeral_1h_input_tokens":
		usage.Set(&usage.CacheWriteHour, v)
	case "serviceTier.type", "usage.service_tier":
		usage.ServiceTier = tierOf(v)
	case "delta.stop_reason":
		usage.final = usage.final || v.Kind == String
	}
}

// Headers reads the counts of an invocation. The models of some vendors have none.
func (bedrock) Headers(call *Call, usage *Usage, h http.Header) {
	if call.Operation != invoke {
		return
	}
	for _, one := range [...]struct {
		header string
		count  *int
	}{
		{"X-Amzn-Bedrock-Input-Token-Count", &usage.Prompt},
		{"X-Amzn-Bedrock-Output-Token-Count", &usage.Output},
		{"X-Amzn-Bedrock-Cache-Read-Input-Token-Count", &usage.CacheRead},
		{"X-Amzn-Bedrock-Cache-Write-Input-Token-Count", &usage.CacheWrite},
	} {
		text := h.Get(one.header)
		if text == "" {
			continue
		}
		if n, ok := headers.ParseCount(text); ok {
			*one.count, usage.Known = n, true
		} else {
			usage.Anomalies++
		}
	}
}

// Count adds the tokens written to a cache to the input, leaves out those read from one, and counts
// a token of the output as often as the model's burndown rate says.
func (b bedrock) Count(call *Call, usage *Usage) (prompt, output int) {
	prompt = usage.Prompt + usage.CacheWrite
	if cachedInside(call) {
		prompt = max(usage.Prompt-usage.CacheRead, 0)
	}
	if b.embeds(call) {
		return prompt, 0
	}
	return prompt, clampTokens(int64(usage.Output) * int64(b.weight(call)))
}

// cachedInside reports whether the model's count of the prompt has the cached tokens in it.
func cachedInside(call *Call) bool { return strings.Contains(call.Model, "openai.") }

// Bill leaves the parts of the cache beside the prompt, and takes them out of it for the models of
// OpenAI.
func (b bedrock) Bill(call *Call, usage *Usage) money.Usage {
	bill := money.Usage{
		Input: usage.Prompt, CachedInput: usage.CacheRead, CacheWrite: usage.CacheWrite, Output: usage.Output,
	}
	if cachedInside(call) {
		bill.Input = max(usage.Prompt-usage.CacheRead-usage.CacheWrite, 0)
	}
	if b.embeds(call) {
		bill.Output = 0
	}
	return bill
}

func (bedrock) wholePrompt(call *Call, usage *Usage) int {
	if cachedInside(call) {
		return usage.Prompt
	}
	return usage.Prompt + usage.CacheRead + usage.CacheWrite
}

// weight returns the burndown rate of a model: 15 for Claude 4.8, 10 from Claude 5 on, 5 for the
// other Claudes, and 1 for all other models, as others quoted the page of the quotas on 2026-11-25.
// It names Opus 5.5, Sonnet 5, Opus 5 and Fable 5.1; other models of version 5 are taken for those.
func (bedrock) weight(call *Call) int {
	_, name, ok := strings.Cut(call.Model, "anthropic.claude-")
	if !ok {
		return 1
	}
	major, minor := 0, 0
	parts := strings.FieldsFunc(name, func(r rune) bool { return r == '-' || r == '.' || r == ':' || r == '/' })
	for i, part := range parts {
		n, err := strconv.Atoi(part)
		if err != nil || n > 99 { // a family, or a date
			continue
		}
		major = n
		if i+1 < len(parts) {
			if n, err := strconv.Atoi(parts[i+1]); err == nil && n <= 99 {
				minor = n
			}
		}
		break
	}
	switch {
	case major == 4 && minor == 8:
		return 15
	case major >= 5:
		return 10
	}
	return 5
}

// Refusal names an error that the SDKs of AWS know and do not retry, unlike ThrottlingException.
func (bedrock) Refusal(message string) []byte {
	return refusalBody(`{"__type":"ServiceQuotaExceededException","message":`, message, `}`)
}

func (b bedrock) paths() []knownPath {
	const reference = "https://docs.aws.amazon.com/bedrock/latest/APIReference/"
	path := func(path string, f fate, note, page string) []knownPath {
		return pathsOf("Amazon Bedrock", reference+page, f, note, path)
	}
	return slices.Concat(
		path("/model/{model}/converse", countedFate, "", "API_runtime_Converse.html"),
		path("/model/{model}/converse-stream", countedFate, "", "API_runtime_ConverseStream.html"),
		path("/model/{model}/invoke", countedFate, "the usage is in the body or in headers; without either the text counts", "API_runtime_InvokeModel.html"),
		path("/model/{model}/invoke-with-response-stream", countedFate, "", "API_runtime_InvokeModelWithResponseStream.html"),
		path("/model/{model}/invoke-with-bidirectional-stream", toldFate, "speech in both directions", "API_runtime_InvokeModelWithBidirectionalStream.html"),
		path("/async-invoke", toldFate, "the body names a modelId; the answer goes to S3", "API_runtime_StartAsyncInvoke.html"),
		path("/model/{model}/count-tokens", freeFate, "", "API_runtime_CountTokens.html"),
		path("/guardrail/{id}/version/{version}/apply", freeFate, "no model", "API_runtime_ApplyGuardrail.html"),
	)
}
