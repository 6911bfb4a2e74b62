package fakeprovider

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/http"
	"strings"
	"unicode/utf8"
)

// Dialect is whose API a request speaks.
type Dialect int

// The dialects.
const (
	OpenAI Dialect = iota
	Anthropic
	Gemini
	Ollama
)

// Call is a request, as the server has understood it.
type Call struct {
	Dialect Dialect
	// Operation is "chat.completions", "responses", "completions", "embeddings", "messages",
	// "count_tokens", "generateContent", "embedContent", "countTokens", "api/chat" or
	// "api/generate".
	Operation   string
	Model       string
	Stream      bool
	StreamUsage bool // stream_options.include_usage
	MaxOutput   int  // zero when the request does not say
	Characters  int  // of the prompt
	Inputs      int  // texts to embed
	Header      http.Header
	Rand        *rand.Rand // draws for this call alone

	azure, vertex bool
	sse           bool // Gemini streams an array without it
	free          bool
}

// route finds out by a request's path what it is.
func route(r *http.Request, c *Call) bool {
	path := r.URL.Path
	if r.Method != http.MethodPost {
		return false
	}
	if _, after, found := strings.Cut(path, "/openai/deployments/"); found {
		c.Model, _, _ = strings.Cut(after, "/")
		c.azure = true
	}
	if i := strings.LastIndex(path, "/models/"); i >= 0 {
		return routeGemini(r, path[i+len("/models/"):], c)
	}
	for _, known := range []struct {
		suffix    string
		dialect   Dialect
		operation string
	}{
		{"/chat/completions", OpenAI, "chat.completions"},
		{"/completions", OpenAI, "completions"},
		{"/responses", OpenAI, "responses"},
		{"/embeddings", OpenAI, "embeddings"},
		{"/messages", Anthropic, "messages"},
		{"/messages/count_tokens", Anthropic, "count_tokens"},
		{"/api/chat", Ollama, "api/chat"},
		{"/api/generate", Ollama, "api/generate"},
	} {
		if strings.HasSuffix(path, known.suffix) {
			c.Dialect, c.Operation = known.dialect, known.operation
			c.free = known.operation == "count_tokens"
			c.Stream = known.dialect == Ollama // unless it says otherwise
			return true
		}
	}
	return false
}

func routeGemini(r *http.Request, call string, c *Call) bool {
	var method string
	c.Model, method, _ = strings.Cut(call, ":")
	c.Dialect, c.Operation = Gemini, method
	c.vertex = strings.Contains(r.URL.Path, "/projects/")
	switch method {
	case "streamGenerateContent":
		c.Operation, c.Stream = "generateContent", true
		c.sse = r.URL.Query().Get("alt") == "sse"
	case "countTokens":
		c.free = true
	case "generateContent", "embedContent":
	case "batchEmbedContents":
		c.Operation = "embedContent"
	case "predict": // what Vertex has for embedContent
		c.Operation = "embedContent"
	default:
		return false
	}
	return true
}

// read takes over what a request's body says.
func (c *Call) read(body []byte) error {
	var b struct {
		Model         string
		Stream        *bool
		StreamOptions struct {
			IncludeUsage bool `json:"include_usage"`
		} `json:"stream_options"`
		MaxTokens     int                           `json:"max_tokens"`
		MaxCompletion int                           `json:"max_completion_tokens"`
		MaxOutput     int                           `json:"max_output_tokens"`
		Generation    struct{ MaxOutputTokens int } `json:"generationConfig"`
		OllamaOptions struct {
			NumPredict int `json:"num_predict"`
		} `json:"options"`
		Input json.RawMessage
	}
	if err := json.Unmarshal(body, &b); err != nil {
		return errors.New("read a body: not what it should be")
	}
	if c.Model == "" {
		c.Model = b.Model
	}
	if b.Stream != nil {
		c.Stream = *b.Stream
	}
	c.StreamUsage = b.StreamOptions.IncludeUsage
	c.MaxOutput = max(b.MaxTokens, b.MaxCompletion, b.MaxOutput, b.Generation.MaxOutputTokens, b.OllamaOptions.NumPredict, 0)

	c.Inputs = 1
	var inputs []any
	if json.Unmarshal(b.Input, &inputs) == nil && c.Operation == "embeddings" {
		c.Inputs = max(len(inputs), 1)
	}
	var all map[string]any
	if err := json.Unmarshal(body, &all); err != nil {
		return errors.New("read a body: no object")
	}
	for _, field := range []string{"messages", "system", "prompt", "input", "instructions", "contents", "content", "systemInstruction", "requests", "instances"} {
		c.Characters += characters(all[field])
	}
	return nil
}

// characters returns how many characters all strings have in a part of a body, but
// those that say what the part is.
func characters(v any) (n int) {
	switch v := v.(type) {
	case string:
		return utf8.RuneCountInString(v)
	case []any:
		for _, w := range v {
			n += characters(w)
		}
	case map[string]any:
		for key, w := range v {
			if key != "role" && key != "type" && key != "model" {
				n += characters(w)
			}
		}
	}
	return n
}
