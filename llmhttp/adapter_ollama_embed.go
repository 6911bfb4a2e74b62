package llmhttp

import (
	"net/http"
	"slices"
	"strings"

	"dappco.re/go/core/go-ratelimit/money"
)

// ollamaEmbed is the adapter for the embeddings of Ollama's own API.
//
// See https://docs.ollama.com/api/embed.
type ollamaEmbed struct{ ollama }

func (ollamaEmbed) Match(req *http.Request, call *Call) bool {
	if req.Method != http.MethodPost {
		return false
	}
	path := req.URL.Path
	if !strings.HasSuffix(path, "/api/embed") && !strings.HasSuffix(path, "/api/embeddings") {
		return false
	}
	call.Operation = "embed"
	return true
}

func (ollamaEmbed) Request(call *Call, v Value) {
	if string(v.Path) == "model" {
		call.setModel(v)
	}
}

func (ollamaEmbed) Estimate(_ *Call, promptTokens, _ int) (prompt, output int) {
	return promptTokens, 0
}

func (ollamaEmbed) Count(_ *Call, usage *Usage) (prompt, output int) { return usage.Prompt, 0 }

func (ollamaEmbed) Bill(_ *Call, usage *Usage) money.Usage { return money.Usage{Input: usage.Prompt} }

func (ollamaEmbed) paths() []knownPath {
	return slices.Concat(
		pathsOf("Ollama", "https://docs.ollama.com/api/embed", countedFate, "", "/api/embed"),
		pathsOf("Ollama", "https://github.com/ollama/ollama/blob/main/docs/api.md", countedFate,
			"it reports no tokens, so they are the estimate", "/api/embeddings"),
	)
}
