package llmhttp

import (
	"bytes"
	"net/http"
	"slices"
	"strings"

	"dappco.re/go/core/go-ratelimit/llmhttp/internal/headers"
)

// openAI is the adapter for OpenAI's API, which Azure and most other providers speak, too: chat
// completions, responses, completions and embeddings.
//
// See https://platform.openai.com/docs/api-reference and, for the counting of tokens,
// https://platform.openai.com/docs/guides/rate-limits.
type openAI struct{}

func (openAI) Name() string { return "openai" }

const (
	chatCompletions = "chat.completions"
	responses       = "responses"
	completions     = "completions"
	embeddings      = "embeddings"
)

// openAIOperations maps the ends of paths to operations. The first match counts.
var openAIOperations = []struct{ suffix, operation string }{
	{"/chat/completions", chatCompletions},
	{"/responses", responses},
	{"/completions", completions},
	{"/embeddings", embeddings},
}

func (openAI) paths() []knownPath {
	return slices.Concat(
		pathsOf("OpenAI", openAISource, countedFate, "and what speaks its API",
			"/chat/completions", "/responses", "/completions", "/embeddings"),
		pathsOf("OpenAI", webSocketSource, countedFate, "a WebSocket: each response.create in it; also Azure and xAI", "GET /responses"),
		pathsOf("Azure", unread, countedFate, "the model is the deployment",
			"/deployments/{model}/chat/completions", "/deployments/{model}/completions", "/deployments/{model}/embeddings"),
	)
}

func (openAI) Match(req *http.Request, call *Call) bool {
	if req.Method != http.MethodPost {
		return false
	}
	path := req.URL.Path
	for _, o := range openAIOperations {
		if rest, ok := strings.CutSuffix(path, o.suffix); ok {
			call.Operation = o.operation
			call.Model = deployment(rest)
			call.inPath = call.Model != ""
			return true
		}
	}
	return false
}

// deployment returns NAME of Azure's paths .../deployments/NAME, and nothing for other paths.
// Azure limits the deployment, whichever model it runs.
func deployment(path string) string {
	i := strings.LastIndexByte(path, '/')
	if i < 0 || !strings.HasSuffix(path[:i], "/deployments") {
		return ""
	}
	return path[i+1:]
}

func (openAI) Request(call *Call, v Value) {
	switch string(v.Path) {
	case "model":
		call.setModel(v)
	case "max_completion_tokens", "max_tokens", "max_output_tokens":
		if n, ok := tokenCount(v); ok {
			call.MaxOutput = max(call.MaxOutput, n)
		}
	case "n":
		if n, ok := tokenCount(v); ok {
			call.choices = n
		}
	case "stream":
		call.Stream = v.isTrue()
	case "stream_options.include_usage":
		call.StreamUsage = v.isTrue()
	case "previous_response_id", "conversation", "conversation.id", "prompt.id":
		call.continues = call.continues || v.Kind == String && v.Size > 0 && call.Operation == responses
	case "service_tier":
		call.tier = tierOf(v)
	}
}

// Estimate returns the prompt, and an output with which both together are at least the max_tokens
// of the request: OpenAI charges the larger of max_tokens and its own estimate.
func (openAI) Estimate(call *Call, promptTokens, outputTokens int) (prompt, output int) {
	if call.Operation == embeddings {
		return promptTokens, 0
	}
	n := int64(call.answers())
	output = clampTokens(int64(outputTokens) * n)
	return promptTokens, max(output, clampTokens(int64(call.MaxOutput)*n)-promptTokens)
}

// Marks returns the name of the field in all operations, which is also its name within x_groq.
func (openAI) Marks() []string { return []string{`"usage"`} }

// usagePaths are the paths of usage in an answer or chunk, in the last event of a response, and at
// the end of Groq's streams.
var usagePaths = [...][]byte{[]byte("usage."), []byte("response.usage."), []byte("x_groq.usage.")}

// isPending reports whether the status of an answer says that the model works on in the background.
func isPending(v Value) bool {
	status := v.text()
	return status == "queued" || status == "in_progress"
}

func (openAI) Response(_ *Call, usage *Usage, v Value) {
	switch string(v.Path) {
	case "choices": // none in the chunk with the usage, which is the last one
		usage.final = v.Kind == Array
	case "service_tier", "response.service_tier":
		usage.ServiceTier = tierOf(v)
	case "status": // of a response
		usage.pending = isPending(v)
	case "type": // of the events that end the stream of a response
		switch v.text() {
		case "response.completed", "response.incomplete", "response.failed":
			usage.final = true
		}
	}
	for _, path := range usagePaths {
		if name, ok := bytes.CutPrefix(v.Path, path); ok {
			readUsage(usage, string(name), v)
		}
	}
}

// readUsage stores the field of usage that name stands for.
func readUsage(usage *Usage, name string, v Value) {
	switch name {
	case "prompt_tokens", "input_tokens":
		usage.Set(&usage.Prompt, v)
	case "completion_tokens", "output_tokens":
		usage.Set(&usage.Output, v)
	case "prompt_tokens_details.cached_tokens", "input_tokens_details.cached_tokens", "prompt_cache_hit_tokens": // the last at DeepSeek
		usage.Set(&usage.CacheRead, v)
	case "prompt_tokens_details.cache_write_tokens", "input_tokens_details.cache_write_tokens":
		usage.Set(&usage.CacheWrite, v)
	}
}

// Count includes cached input, as OpenAI and xAI do. Groq does not count it.
func (openAI) Count(call *Call, usage *Usage) (prompt, output int) {
	prompt = usage.Prompt
	if headers.IsHost(call.Request.URL.Hostname(), "groq.com") {
		prompt = max(prompt-usage.CacheRead, 0)
	}
	return prompt, usage.Output
}

func (openAI) Refusal(message string) []byte {
	const after = `,"type":"rate_limit_error","param":null,"code":"rate_limit_exceeded"}}`
	return refusalBody(`{"error":{"message":`, message, after)
}
