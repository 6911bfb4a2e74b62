package llmhttp

import (
	"net/http"
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
	endpoint, method, ok := lastMethod(req, "/endpoints")
	if !ok {
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

// lastMethod returns the parts of the last segment of a path ...FOLDER/NAME:METHOD of a POST.
func lastMethod(req *http.Request, folder string) (name, method string, ok bool) {
	path := strings.TrimSuffix(req.URL.Path, "/")
	i := strings.LastIndexByte(path, '/')
	if req.Method != http.MethodPost || i < 0 || !strings.HasSuffix(path[:i], folder) {
		return "", "", false
	}
	last := path[i+1:]
	colon := strings.LastIndexByte(last, ':')
	if colon <= 0 {
		return "", "", false
	}
	return last[:colon], last[colon+1:], true
}

// vertexRaw is the adapter for the models of other publishers on Vertex AI whose requests and
// answers are as their vendors have them: Mistral's and others that are like OpenAI's. Anthropic's
// adapter has its own.
//
// See https://docs.cloud.google.com/vertex-ai/generative-ai/docs/partner-models/mistral.
type vertexRaw struct{ openAI }

func (vertexRaw) Match(req *http.Request, call *Call) bool {
	model, method, ok := lastMethod(req, "/models")
	if ok = ok && strings.Contains(req.URL.Path, "/publishers/"); !ok {
		model, method, ok = lastMethod(req, "/endpoints")
	}
	if !ok || method != "rawPredict" && method != "streamRawPredict" {
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

func (vertexEndpoint) paths() []knownPath {
	const (
		page = "https://docs.cloud.google.com/gemini-enterprise-agent-platform/reference/rest/v1/projects.locations.endpoints/"
		day  = "2026-11-25"
		path = "/v1/projects/{project}/locations/{location}/endpoints/{model}"
		note = "counts under the number of the endpoint"
	)
	return []knownPath{
		{"Vertex AI", http.MethodPost, path + ":generateContent", countedFate, note, page + "generateContent", day},
		{"Vertex AI", http.MethodPost, path + ":streamGenerateContent", countedFate, note, page + "streamGenerateContent", day},
		{"Vertex AI", http.MethodPost, path + ":countTokens", freeFate, "", page + "countTokens", day},
	}
}

func (vertexRaw) paths() []knownPath {
	const (
		page   = "https://docs.cloud.google.com/vertex-ai/generative-ai/docs/partner-models/mistral"
		day    = "2026-11-25"
		models = "/v1/projects/{project}/locations/{location}/publishers/{publisher}/models/{model}"
		ends   = "/v1/projects/{project}/locations/{location}/endpoints/{model}"
		note   = "usage as OpenAI or Anthropic report it; otherwise the text counts"
	)
	return []knownPath{
		{"Vertex AI", http.MethodPost, models + ":rawPredict", countedFate, note, page, day},
		{"Vertex AI", http.MethodPost, models + ":streamRawPredict", countedFate, note, page, day},
		{"Vertex AI", http.MethodPost, ends + ":rawPredict", countedFate, note, page, day},
		{"Vertex AI", http.MethodPost, ends + ":streamRawPredict", countedFate, note, page, day},
	}
}
