package llmhttp

import (
	"net/http"
	"slices"
	"strings"
)

// gemini is the adapter for Google's Gemini API, also on Vertex AI.
//
// See https://ai.google.dev/api/generate-content and, for the counting of tokens,
// https://ai.google.dev/gemini-api/docs/rate-limits.
type gemini struct{}

func (gemini) Name() string { return "gemini" }

func (gemini) paths() []knownPath {
	return slices.Concat(
		pathsOf("Gemini", geminiSource, countedFate, "also on Vertex", "/models/{model}:generateContent",
			"/models/{model}:streamGenerateContent", "/models/{model}:embedContent", "/models/{model}:batchEmbedContents",
			"/tunedModels/{model}:generateContent", "/tunedModels/{model}:streamGenerateContent",
			"/dynamic/{model}:generateContent", "/dynamic/{model}:streamGenerateContent"),
		pathsOf("Gemini", geminiSource, freeFate, "counts tokens", "/models/{model}:countTokens"),
	)
}

func (gemini) Match(req *http.Request, call *Call) bool {
	if req.Method != http.MethodPost {
		return false
	}
	model, method, ok := modelMethod(req.URL.Path)
	if !ok {
		return false
	}
	switch method {
	case "generateContent", "embedContent", "batchEmbedContents":
	case "streamGenerateContent":
		call.Stream = true
	case "countTokens":
		call.Free = true
	default:
		return false
	}
	call.Operation, call.Model, call.inPath = method, model, true
	return true
}

// modelMethod returns the parts of the last segment of a path .../models/MODEL:METHOD.
func modelMethod(path string) (model, method string, ok bool) {
	return lastMethod(path, "models", "tunedModels", "dynamic")
}

// lastMethod returns the parts of the last segment of a path .../FOLDER/NAME:METHOD, of which the
// folder is one of some.
func lastMethod(path string, folders ...string) (name, method string, ok bool) {
	i := strings.LastIndexByte(path, '/')
	if i < 0 || !slices.Contains(folders, path[strings.LastIndexByte(path[:i], '/')+1:i]) {
		return "", "", false
	}
	last := path[i+1:]
	colon := strings.LastIndexByte(last, ':')
	if colon <= 0 {
		return "", "", false
	}
	return last[:colon], last[colon+1:], true
}

func (gemini) Request(call *Call, v Value) {
	switch string(v.Path) {
	case "generationConfig.maxOutputTokens", "generation_config.max_output_tokens":
		if n, ok := tokenCount(v); ok {
			call.MaxOutput = n
		}
	case "generationConfig.candidateCount", "generation_config.candidate_count":
		if n, ok := tokenCount(v); ok {
			call.choices = n
		}
	case "serviceTier", "service_tier":
		call.tier = tierOf(v)
	}
}

// Headers reads the service tier: one that is full serves at the standard one.
func (gemini) Headers(_ *Call, usage *Usage, h http.Header) {
	usage.ServiceTier = tierNamed(h.Get("X-Gemini-Service-Tier"))
}

// Estimate returns the prompt alone: only input counts.
func (gemini) Estimate(_ *Call, promptTokens, _ int) (prompt, output int) {
	return promptTokens, 0
}

func (gemini) Marks() []string { return []string{`"usageMetadata"`} }

func (gemini) Response(call *Call, usage *Usage, v Value) {
	switch string(v.Path) {
	case "candidates.finishReason":
		usage.final = v.Kind == String && call.answers() == 1 // others may be written on
	case "usageMetadata.promptTokenCount":
		usage.Set(&usage.Prompt, v)
	case "usageMetadata.cachedContentTokenCount":
		usage.Set(&usage.CacheRead, v)
	case "usageMetadata.toolUsePromptTokenCount":
		usage.Set(&usage.ToolUse, v)
	case "usageMetadata.candidatesTokenCount":
		usage.Set(&usage.Output, v)
	case "usageMetadata.thoughtsTokenCount":
		usage.Set(&usage.Thoughts, v)
	}
}

// Count returns the input alone. promptTokenCount includes the cached tokens.
func (gemini) Count(_ *Call, usage *Usage) (prompt, output int) {
	return usage.Prompt + usage.ToolUse, 0
}

func (gemini) Refusal(message string) []byte {
	return refusalBody(`{"error":{"code":429,"message":`, message, `,"status":"RESOURCE_EXHAUSTED"}}`)
}
