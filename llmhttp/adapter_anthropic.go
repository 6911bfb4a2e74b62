package llmhttp

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
)

// anthropic is the adapter for Anthropic's Messages API, also on Vertex AI.
//
// See https://platform.claude.com/docs/en/api/messages and, for the counting of tokens,
// https://platform.claude.com/docs/en/api/rate-limits.
type anthropic struct{}

func (anthropic) Name() string { return "anthropic" }

func (anthropic) paths() []knownPath {
	const source = anthropicSource
	return slices.Concat(
		pathsOf("Anthropic", source, countedFate, "", "/messages"),
		pathsOf("Anthropic", source, freeFate, "counts tokens", "/messages/count_tokens"),
		pathsOf("Vertex", source, countedFate, "", "/publishers/anthropic/models/{model}:rawPredict",
			"/publishers/anthropic/models/{model}:streamRawPredict"),
		pathsOf("Vertex", source, freeFate, "counts tokens", "/publishers/anthropic/models/count-tokens:rawPredict"),
	)
}

func (anthropic) Match(req *http.Request, call *Call) bool {
	if req.Method != http.MethodPost {
		return false
	}
	path := req.URL.Path
	switch {
	case strings.HasSuffix(path, "/messages") && !strings.Contains(path, "/threads/"): // which are OpenAI's
		call.Operation = "messages"
	case strings.HasSuffix(path, "/messages/count_tokens"):
		call.Operation, call.Free = "messages.count_tokens", true
	default:
		model, method, ok := modelMethod(path)
		if !ok || method != "rawPredict" && method != "streamRawPredict" ||
			!strings.Contains(path, "/publishers/anthropic/") {
			return false
		}
		call.Operation, call.Model, call.inPath = "messages", model, true
		call.Free = model == "count-tokens"
	}
	return true
}

func (anthropic) Request(call *Call, v Value) {
	switch string(v.Path) {
	case "model":
		call.setModel(v)
	case "max_tokens":
		if n, ok := tokenCount(v); ok {
			call.MaxOutput = n
		}
	case "stream":
		call.Stream = v.isTrue()
	}
}

// Estimate returns the estimates unchanged: max_tokens does not count.
func (anthropic) Estimate(_ *Call, promptTokens, outputTokens int) (prompt, output int) {
	return promptTokens, outputTokens
}

func (anthropic) Marks() []string { return []string{`"usage"`} }

func (anthropic) Response(_ *Call, usage *Usage, v Value) {
	path, starts := bytes.CutPrefix(v.Path, []byte("message."))
	var count *int
	switch string(path) {
	case "usage.input_tokens":
		count = &usage.Prompt
	case "usage.cache_creation_input_tokens":
		count = &usage.CacheWrite
	case "usage.cache_read_input_tokens":
		count = &usage.CacheRead
	case "usage.output_tokens":
		count = &usage.Output
		usage.Partial = starts // message_start reports it before anything was written
	case "usage.cache_creation.ephemeral_1h_input_tokens":
		count = &usage.CacheWriteHour
	case "usage.service_tier":
		usage.ServiceTier = tierOf(v)
		return
	case "delta.stop_reason":
		usage.final = v.Kind == String
		return
	default:
		return
	}
	usage.Set(count, v)
}

// Count adds the tokens written to a cache to the input. Tokens read from a cache count only with
// Haiku 3.5.
func (anthropic) Count(call *Call, usage *Usage) (prompt, output int) {
	prompt = usage.Prompt + usage.CacheWrite
	for _, name := range []string{"haiku-3.5", "haiku-3-5", "3-5-haiku"} {
		if strings.Contains(call.Model, name) {
			prompt += usage.CacheRead
		}
	}
	return prompt, usage.Output
}

func (anthropic) Refusal(message string) []byte {
	return refusalBody(`{"type":"error","error":{"type":"rate_limit_error","message":`, message, `}}`)
}
