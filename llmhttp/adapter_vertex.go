package llmhttp

import (
	"net/http"
	"slices"
	"strings"

	"dappco.re/go/core/go-ratelimit/money"
)

// vertexEndpoint is the adapter for models of one's own on Vertex AI that speak Gemini's API. They
// count under the number of their endpoint.
//
// See
// https://docs.cloud.google.com/gemini-enterprise-agent-platform/reference/rest/v1/projects.locations.endpoints/generateContent.
type vertexEndpoint struct{ gemini }

func (vertexEndpoint) Match(req *http.Request, call *Call) bool {
	endpoint, method, ok := lastMethod(req.URL.Path, "endpoints")
	if !ok || req.Method != http.MethodPost {
		return false
	}
	switch method {
	case "generateContent":
	case "streamGenerateContent":
		call.Stream = true
	case "countTokens":
		call.Free = true
	default:
		return false
	}
	call.Operation, call.Model, call.inPath = method, endpoint, true
	return true
}

// vertexRaw is the adapter for the models of other publishers on Vertex AI whose requests and
// answers are as their vendors have them: Mistral's and others that are like OpenAI's. Anthropic's
// adapter has its own.
//
// See https://docs.cloud.google.com/vertex-ai/generative-ai/docs/partner-models/mistral.
type vertexRaw struct{ openAI }

func (vertexRaw) Match(req *http.Request, call *Call) bool {
	folders := []string{"endpoints"}
	if strings.Contains(req.URL.Path, "/publishers/") {
		folders = append(folders, "models")
	}
	model, method, ok := lastMethod(req.URL.Path, folders...)
	if !ok || req.Method != http.MethodPost || method != "rawPredict" && method != "streamRawPredict" {
		return false
	}
	call.Operation, call.Model, call.inPath = method, model, true
	call.Stream = method == "streamRawPredict"
	return true
}

func (a vertexRaw) Response(call *Call, usage *Usage, v Value) {
	switch string(v.Path) {
	case "usage.cache_read_input_tokens": // of a model that speaks Anthropic's API, beside the prompt
		usage.Set(&usage.CacheRead, v)
	case "usage.cache_creation_input_tokens":
		usage.Set(&usage.CacheWrite, v)
	default:
		a.openAI.Response(call, usage, v)
	}
}

// Count adds what Anthropic's API writes to a cache to the prompt.
func (a vertexRaw) Count(call *Call, usage *Usage) (prompt, output int) {
	prompt, output = a.openAI.Count(call, usage)
	return prompt + usage.CacheWrite, output
}

// Bill counts each kind of input as if none were inside another: the vendors differ.
func (vertexRaw) Bill(_ *Call, usage *Usage) money.Usage {
	return money.Usage{
		Input: usage.Prompt, CachedInput: usage.CacheRead, CacheWrite: usage.CacheWrite, Output: usage.Output,
	}
}

func (vertexRaw) Refusal(message string) []byte { return gemini{}.Refusal(message) }

// vertexProject is how the paths of a project begin.
const vertexProject = "/v1/projects/{project}/locations/{location}"

func (vertexEndpoint) paths() []knownPath {
	const (
		page = "https://docs.cloud.google.com/gemini-enterprise-agent-platform/reference/rest/v1/projects.locations.endpoints/"
		path = vertexProject + "/endpoints/{model}:"
		note = "counts under the number of the endpoint"
	)
	return slices.Concat(
		pathsOf("Vertex AI", page+"generateContent", countedFate, note, path+"generateContent"),
		pathsOf("Vertex AI", page+"streamGenerateContent", countedFate, note, path+"streamGenerateContent"),
		pathsOf("Vertex AI", page+"countTokens", freeFate, "", path+"countTokens"),
	)
}

func (vertexRaw) paths() []knownPath {
	const models, endpoints = vertexProject + "/publishers/{publisher}/models/{model}:", vertexProject + "/endpoints/{model}:"
	return pathsOf("Vertex AI", "https://docs.cloud.google.com/vertex-ai/generative-ai/docs/partner-models/mistral", countedFate,
		"usage as OpenAI or Anthropic report it; otherwise the text counts",
		models+"rawPredict", models+"streamRawPredict", endpoints+"rawPredict", endpoints+"streamRawPredict")
}
