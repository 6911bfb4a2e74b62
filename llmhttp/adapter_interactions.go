package llmhttp

import (
	"net/http"
	"slices"
	"strings"

	"dappco.re/go/core/go-ratelimit/money"
)

// interactions is the adapter for Gemini's Interactions API.
//
// See https://ai.google.dev/api/interactions-api.
type interactions struct{}

func (interactions) Name() string { return gemini{}.Name() }

func (interactions) Match(req *http.Request, call *Call) bool {
	if req.Method != http.MethodPost || !strings.HasSuffix(req.URL.Path, "/interactions") {
		return false
	}
	call.Operation = "interactions"
	return true
}

// Request takes the name of an agent for that of the model, of which a request has one.
func (interactions) Request(call *Call, v Value) {
	switch string(v.Path) {
	case "model", "agent":
		if name := v.text(); name != "" {
			call.Model = strings.TrimPrefix(name, "models/")
		}
	case "stream":
		call.Stream = v.isTrue()
	case "previous_interaction_id":
		call.continues = v.Kind == String && v.Size > 0
	case "generation_config.max_output_tokens":
		if n, ok := tokenCount(v); ok {
			call.MaxOutput = n
		}
	case "service_tier":
		call.tier = tierOf(v)
	}
}

// Headers reads the service tier, as of generateContent.
func (interactions) Headers(call *Call, usage *Usage, h http.Header) {
	gemini{}.Headers(call, usage, h)
}

// Estimate returns the prompt alone: only input counts. The server may add the interaction before.
func (interactions) Estimate(_ *Call, promptTokens, _ int) (prompt, output int) {
	return promptTokens, 0
}

func (interactions) Marks() []string { return []string{`"usage"`} }

func (interactions) Response(_ *Call, usage *Usage, v Value) {
	path := string(v.Path)
	switch path {
	case "status":
		usage.pending = isPending(v)
	case "event_type":
		event := v.text()
		usage.final = event == "interaction.completed" || event == "interaction.complete" // of earlier revisions
	}
	path, _ = strings.CutPrefix(path, "interaction.") // in the last event of a stream
	switch path {
	case "usage.total_input_tokens":
		usage.Set(&usage.Prompt, v)
	case "usage.total_cached_tokens":
		usage.Set(&usage.CacheRead, v)
	case "usage.total_tool_use_tokens":
		usage.Set(&usage.ToolUse, v)
	case "usage.total_output_tokens":
		usage.Set(&usage.Output, v)
	case "usage.total_thought_tokens":
		usage.Set(&usage.Thoughts, v)
	}
}

// Count returns the input alone, in which the cached tokens are.
func (interactions) Count(_ *Call, usage *Usage) (prompt, output int) {
	return usage.Prompt + usage.ToolUse, 0
}

// Bill takes the usage for that of generateContent, under other names.
func (interactions) Bill(call *Call, usage *Usage) money.Usage { return gemini{}.Bill(call, usage) }

func (interactions) billsOutput(*Call) bool { return true }

func (interactions) Refusal(message string) []byte { return gemini{}.Refusal(message) }

func (interactions) paths() []knownPath {
	const page, agent = "https://ai.google.dev/api/interactions-api", "an agent counts under its name"
	return slices.Concat(
		pathsOf("Gemini", page, countedFate, agent, "/v1beta/interactions"),
		pathsOf("Gemini", "https://ai.google.dev/static/api/interactions-v1.md.txt", countedFate, agent, "/v1/interactions"),
		pathsOf("Gemini", page, freeFate, "", "/v1beta/interactions/{id}/cancel"),
	)
}
