package llmhttp

import (
	"encoding/json"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"dappco.re/go/core/go-ratelimit/llmhttp/internal/headers"
	"dappco.re/go/core/go-ratelimit/money"
)

// Call is a call to a model, as described by its request.
type Call struct {
	// Request is the caller's request. Neither it nor its body may be changed or read.
	Request *http.Request
	// Adapter is the name of the adapter that recognized the call, such as "openai".
	Adapter string
	// Operation is the operation of the API, such as "chat.completions".
	Operation string
	// Model is the model that the request names.
	Model string
	// Stream reports that the request asks for a streamed answer.
	Stream bool
	// StreamUsage reports that the request asks for the usage at the end of the stream, at an
	// API that reports it only on request.
	StreamUsage bool
	// MaxOutput is the limit of output tokens that the request sets; zero if it sets none.
	MaxOutput int
	// PromptBytes is the length of all strings and keys in the body except Media, in bytes of
	// UTF-8.
	PromptBytes int
	// Media is the number of images, sounds and other files in the body.
	Media int
	// BodySize is the length of the body in bytes; -1 if it is unknown.
	BodySize int64
	// Partial reports that the body is larger than Transport.MaxBody and was read only so far. A
	// larger body that names its model at the end is read as a whole.
	Partial bool
	// Free reports that the call does not count towards the quota of its model.
	Free bool

	mediaTokens int                           // the estimate of Media
	continues   bool                          // the server adds a conversation that it holds to the prompt
	carried     int                           // the tokens of that, as far as they are known
	body        func() (io.ReadCloser, error) // a copy of the whole body; nil if there is none
	counted     int                           // the tokens of the prompt as the provider counted them; -1 if it did not
	choices     int                           // answers that the request asks for; zero means one
	stores      bool                          // without a model, it stores a conversation and generates nothing
	inPath      bool                          // the path names the model, which overrides the body
	meant       string                        // the model that a request without one means; empty if that is none
	invalid     bool                          // the body was read and is no JSON
	large       bool                          // the body is larger than MaxBody, though it may have been read as a whole
	byRequest   bool                          // the answer is no text: it counts as a request
	tier        money.ServiceTier             // the service tier that the request asks for
}

// setModel takes the model from the body. The last of several counts, as it does at servers.
func (c *Call) setModel(v Value) {
	if !c.inPath {
		c.Model = v.text()
	}
}

// answers returns the number of answers that the call asks for.
func (c *Call) answers() int { return min(max(c.choices, 1), 128) }

// Usage is the usage in tokens that an answer reports. The zero value reports nothing.
type Usage struct {
	Prompt     int // input tokens; at OpenAI and Gemini with the cached ones, at Anthropic without
	CacheRead  int // input tokens read from a cache
	CacheWrite int // input tokens written to a cache
	// CacheWriteHour is the part of CacheWrite that was written for an hour rather than for five
	// minutes, as far as the answer tells.
	CacheWriteHour int
	ToolUse        int // input tokens of tool results, where they are reported apart
	Output         int // output tokens
	Thoughts       int // output tokens of reasoning, where they are reported apart
	// ServiceTier is the one that served the call, where the answer says it.
	ServiceTier money.ServiceTier
	// Known reports that the answer stated its usage: the final usage, or with Partial the usage
	// so far.
	Known   bool
	Partial bool
	// Anomalies counts the counts that were invalid: negative, fractional, too large, or no
	// number.
	Anomalies int

	// The part that is billed, where the answer states it apart.
	billedInput, billedOutput int
	hasBilled                 bool

	final   bool // a stream announced its end, so that what it reported is not to grow any more
	pending bool // the answer is a receipt: the model works on in the background
}

// maxTokens is the largest count of tokens that is believed.
const maxTokens = headers.MaxCount

// Set stores a count of tokens from an answer: the value v into the field that count points at. An
// invalid count leaves the field alone and is counted in Anomalies; null is ignored.
func (u *Usage) Set(count *int, v Value) {
	if v.Kind == Null {
		return
	}
	n, ok := tokenCount(v)
	if !ok {
		u.Anomalies++
		return
	}
	*count, u.Known = n, true
}

// tokenCount returns the number of tokens that a value states, if it is a valid one.
func tokenCount(v Value) (int, bool) {
	if v.Kind != Number || len(v.Text) > 32 {
		return 0, false
	}
	if n, err := strconv.ParseInt(string(v.Text), 10, 64); err == nil {
		return int(min(n, math.MaxInt)), n >= 0 && n <= maxTokens && n <= math.MaxInt
	}
	f, err := strconv.ParseFloat(string(v.Text), 64)
	if err != nil || !(f >= 0 && f <= min(maxTokens, math.MaxInt)) || f != math.Trunc(f) {
		return 0, false
	}
	return int(f), true
}

// clampTokens returns n, or the largest valid number of tokens if n is larger.
func clampTokens(n int64) int { return int(min(n, maxTokens, math.MaxInt)) }

// An Adapter knows the API of one provider: which requests are calls to a model, which model and
// how much output they ask for, and where answers report their usage. Its methods must be safe for
// concurrent use, must not retain their arguments, and must return quickly.
type Adapter interface {
	// Name returns the name of the adapter in events.
	Name() string
	// Match reports whether a request belongs to the API, by its method and path, and sets the
	// fields that these determine: Operation, and possibly Model, Stream and Free.
	Match(req *http.Request, call *Call) bool
	// Request receives each value of the request's body and stores it in call where it matters. A
	// request that names no model by the end of the body is not limited, and told as uncounted.
	Request(call *Call, v Value)
	// Estimate returns the tokens that the provider charges when the call arrives, given
	// estimates of its prompt and its output.
	Estimate(call *Call, promptTokens, outputTokens int) (prompt, output int)
	// Marks returns byte sequences, usually the quoted names of the usage fields. Events of a
	// stream that contain none of them are not parsed.
	Marks() []string
	// Response receives each value of the answer, or of those events of a stream that contain one
	// of the Marks, and stores the counts of usage. Of several values for a count the last one
	// counts.
	Response(call *Call, usage *Usage, v Value)
	// Count returns the tokens that the provider charges for a usage.
	Count(call *Call, usage *Usage) (prompt, output int)
	// Refusal returns the body of a refusal with status 429 in the provider's format.
	Refusal(message string) []byte
}

// adapters are the built-in adapters in the order in which they are asked. The first two come
// before OpenAI's, to which their paths belong by their ends, and the last one after Anthropic's.
var adapters = []Adapter{
	mistral{}, ollamaEmbed{}, openAI{}, anthropic{}, gemini{}, ollama{},
	bedrock{}, interactions{}, cohere{}, openAIMore{}, vertexEndpoint{}, vertexRaw{},
}

// refusalBody returns a JSON text that contains message as a string.
func refusalBody(before, message, after string) []byte {
	quoted, err := json.Marshal(message)
	if err != nil {
		quoted = []byte(`""`)
	}
	return slices.Concat([]byte(before), quoted, []byte(after))
}

// maxModelName is the length in bytes to which the name of a model is cut.
const maxModelName = 256

// modelName returns the name of a model in a form that is safe to show and to keep: without
// control characters, and of bounded length.
func modelName(s string) string {
	if len(s) > maxModelName {
		s = s[:maxModelName]
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return unicode.ReplacementChar
		}
		return r
	}, strings.ToValidUTF8(s, ""))
}
