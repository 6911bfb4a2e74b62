package llmhttp

import (
	"bytes"
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Call is a call to a model, as its request tells it.
type Call struct {
	// Request is the caller's. Neither it nor its body may be touched.
	Request *http.Request
	// Adapter is the name of the adapter that knows the call, as "openai".
	Adapter string
	// Operation is which of the API's operations it is, as "chat.completions".
	Operation string
	// Model is the model that is asked for, by the name that the request has for it.
	Model string
	// Stream reports that the answer is asked for as a stream.
	Stream bool
	// StreamUsage reports that the request asks for the usage at the end of the stream,
	// where an API tells it only then.
	StreamUsage bool
	// MaxOutput is the most output tokens that the request allows; zero when it does not say.
	MaxOutput int
	// PromptBytes is how long all strings and keys of the body are together, in UTF-8, but for Media.
	PromptBytes int
	// Media is how many images, sounds and other files are in the body.
	Media int
	// BodySize is how many bytes the body has; -1 when that is not known.
	BodySize int64
	// Partial reports that the body is larger than Transport reads.
	Partial bool
	// Free reports that the call does not count towards the quota of its model.
	Free bool

	choices int  // how many answers are asked for at once; zero for one
	inPath  bool // the model is named in the path, whatever the body says
}

// setModel takes over the model that the body names, of several the last, as servers do.
func (c *Call) setModel(v Value) {
	if !c.inPath {
		c.Model = v.text()
	}
}

// answers is how many answers the call asks for.
func (c *Call) answers() int { return min(max(c.choices, 1), 128) }

// Usage is what an answer says that a call used, in tokens. The zero value says nothing.
type Usage struct {
	Prompt     int // input tokens; at OpenAI and Gemini with the cached ones, at Anthropic without
	CacheRead  int // those read from a cache
	CacheWrite int // those written to a cache
	ToolUse    int // input tokens of the results of tools, where they are apart
	Output     int // output tokens
	Thoughts   int // output tokens of reasoning, where they are apart

	// Known reports that the answer told what was used: all of it, or with Partial what
	// there was until then.
	Known   bool
	Partial bool
	// Anomalies is how often a count was none: negative, not whole, too large, no number.
	Anomalies int
}

// mostTokens is the largest count that is believed.
const mostTokens = 1 << 40

// Set takes over a count of tokens from an answer: the value v into the field that count
// points at. A value that is no count leaves the field, and is an anomaly; null is nothing.
func (u *Usage) Set(count *int, v Value) {
	if v.Kind == Null {
		return
	}
	n, ok := tokens(v)
	if !ok {
		u.Anomalies++
		return
	}
	*count, u.Known = n, true
}

// tokens returns the number that a value is, if it can be a number of tokens.
func tokens(v Value) (int, bool) {
	if v.Kind != Number || len(v.Text) > 32 {
		return 0, false
	}
	if n, err := strconv.ParseInt(string(v.Text), 10, 64); err == nil {
		return int(min(n, math.MaxInt)), n >= 0 && n <= mostTokens && n <= math.MaxInt
	}
	f, err := strconv.ParseFloat(string(v.Text), 64)
	if err != nil || !(f >= 0 && f <= min(mostTokens, math.MaxInt)) || f != math.Trunc(f) {
		return 0, false
	}
	return int(f), true
}

// An Adapter knows one provider's API: which requests are calls to a model, what they
// ask for, and where their answers say what was used. Its methods must be safe for
// concurrent use, must not keep what they are given, and must be quick.
type Adapter interface {
	// Name is what the adapter is called in events.
	Name() string

	// Match reports whether a request is one of the API's, by its method and path,
	// and sets what these tell: Operation, and perhaps Model, Stream and Free.
	Match(req *http.Request, call *Call) bool

	// Request is told each value of the request's body, and sets in call what it tells.
	// A request without a model when all is told is not limited.
	Request(call *Call, v Value)

	// Estimate returns what the provider counts of a call when it arrives, from
	// estimates of its prompt and its output.
	Estimate(call *Call, promptTokens, outputTokens int) (prompt, output int)

	// Marks are byte sequences one of which each part of an answer has that tells usage:
	// the names of the fields, with their quotes. Parts of a stream without any are not looked at.
	Marks() []string

	// Response is told each value of the answer, or of those parts of a stream that
	// have one of the Marks, and sets in usage what it tells. Where several tell the
	// same count, the last one counts.
	Response(call *Call, usage *Usage, v Value)

	// Count returns what the provider counts of what was used.
	Count(call *Call, usage *Usage) (prompt, output int)

	// Refusal returns the body of a refusal with status 429 as the provider would write it.
	Refusal(message string) []byte
}

// adapters are those that every Transport has, in the order in which they are asked.
var adapters = []Adapter{openAI{}, anthropic{}, gemini{}, ollama{}}

// refusalBody returns a JSON text with a message in it.
func refusalBody(before, message, after string) []byte {
	quoted, err := json.Marshal(message)
	if err != nil {
		quoted = []byte(`""`)
	}
	return slices.Concat([]byte(before), quoted, []byte(after))
}

// text returns what a string stands for; of one that is longer than Text, its beginning.
func (v *Value) text() string {
	if v.Kind != String {
		return ""
	}
	if bytes.IndexByte(v.Text, '\\') < 0 {
		return string(v.Text)
	}
	// Text may end within an escape.
	for cut := 0; cut < len(`\u0000`) && cut <= len(v.Text); cut++ {
		var s string
		if json.Unmarshal(slices.Concat([]byte{'"'}, v.Text[:len(v.Text)-cut], []byte{'"'}), &s) == nil {
			return s
		}
	}
	return ""
}

// mostName is how many bytes of the name of a model count.
const mostName = 256

// modelName makes of what a request names one that can be shown and kept: without control
// characters, and of limited length.
func modelName(s string) string {
	if len(s) > mostName {
		s = s[:mostName]
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return unicode.ReplacementChar
		}
		return r
	}, strings.ToValidUTF8(s, ""))
}

// atMost is a number of tokens that is no larger than can be.
func atMost(n int64) int { return int(min(n, mostTokens, math.MaxInt)) }

// isTrue reports whether the value is true.
func (v *Value) isTrue() bool { return v.Kind == Bool && bytes.Equal(v.Text, []byte("true")) }
