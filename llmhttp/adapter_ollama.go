package llmhttp

import (
	"net/http"
	"strings"
)

// ollama is the adapter for Ollama's own API: chat and generate.
//
// See https://docs.ollama.com/api.
type ollama struct{}

func (ollama) Name() string { return "ollama" }

func (ollama) paths() []knownPath {
	return pathsOf("Ollama", ollamaSource, countedFate, "", "/api/chat", "/api/generate")
}

func (ollama) Match(req *http.Request, call *Call) bool {
	if req.Method != http.MethodPost {
		return false
	}
	switch path := req.URL.Path; {
	case strings.HasSuffix(path, "/api/chat"):
		call.Operation = "chat"
	case strings.HasSuffix(path, "/api/generate"):
		call.Operation = "generate"
	default:
		return false
	}
	call.Stream = true // the default of the body
	return true
}

func (ollama) Request(call *Call, v Value) {
	switch string(v.Path) {
	case "model":
		call.setModel(v)
	case "stream":
		call.Stream = v.isTrue()
	case "options.num_predict":
		if n, ok := tokenCount(v); ok {
			call.MaxOutput = n
		}
	}
}

func (ollama) Estimate(_ *Call, promptTokens, outputTokens int) (prompt, output int) {
	return promptTokens, outputTokens
}

func (ollama) Marks() []string { return []string{`"prompt_eval_count"`, `"eval_count"`} }

func (ollama) Response(_ *Call, usage *Usage, v Value) {
	switch string(v.Path) {
	case "prompt_eval_count":
		usage.Set(&usage.Prompt, v)
	case "eval_count":
		usage.Set(&usage.Output, v)
	}
}

func (ollama) Count(_ *Call, usage *Usage) (prompt, output int) { return usage.Prompt, usage.Output }

func (ollama) Refusal(message string) []byte {
	return refusalBody(`{"error":`, message, `}`)
}
