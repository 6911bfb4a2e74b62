package httplimit

import (
	"bytes"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"dappco.re/go/core/go-ratelimit/internal/jsonscan"
	"dappco.re/go/core/go-ratelimit/internal/sse"
)

// Usage is the number of tokens that a response in OpenAI's or Anthropic's shape reports. The zero
// value reports nothing.
type Usage struct {
	// Prompt is the input tokens, including those read from a cache or written to it.
	Prompt int
	// Cached is the input tokens that the provider read from its cache, a part of Prompt.
	Cached int
	// Output is the output tokens, including those of reasoning.
	Output int
	// Known reports that the response stated its usage, the input tokens at least, and that each
	// count in it was valid. If the response states it several times, as some servers do in each
	// event of a stream, the largest of each count is taken. What Anthropic's stream states at
	// its begin alone is not known.
	Known bool
}

// maxTokens is the largest count of tokens that is believed. Sums of counts stay below the largest
// int.
const maxTokens = min(1<<40, math.MaxInt>>3)

// usageMark is the key that events of a stream must contain to be parsed, with another value than
// noUsage.
var usageMark, noUsage = []byte(`"usage"`), []byte(":null")

// usagePaths lead to the usage in an answer or a chunk of a chat completion, in the last event of
// a response, at the end of Groq's streams, and at the begin of Anthropic's. The last one is not
// final.
var usagePaths = [...][]byte{
	[]byte("usage."), []byte("response.usage."), []byte("x_groq.usage."), []byte("message.usage."),
}

const beginPath = len(usagePaths) - 1

// count returns the number of tokens that a value states, if it is a valid one.
func count(v jsonscan.Value) (int, bool) {
	if v.Kind != jsonscan.Number {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(v.Text), 64) // 20.0 and 2e1 are counts, too
	return int(f), err == nil && f >= 0 && f <= maxTokens && f == math.Trunc(f)
}

// usageReader reads the usage from the body of a response as the body passes by. It takes the
// body for JSON if its first byte is a brace or a bracket, and for server-sent events otherwise.
// How the body is cut into pieces changes nothing. Its methods are safe for concurrent use,
// because a handler may leave a goroutine behind that still writes.
type usageReader struct {
	mu      sync.Mutex
	usage   Usage             // Known says that one of its counts is final
	stated  inputs            // what Prompt is made of
	invalid bool              // one of the counts was
	scanner *jsonscan.Scanner // nil after close
	events  sse.Reader
	form    bodyForm
}

// inputs are the counts of input tokens that a body states, and whether it states any.
type inputs struct {
	prompt                       int // with the cached ones
	uncached, cacheRead, written int // Anthropic's, whose sum is the prompt
	any                          bool
}

type bodyForm byte

const (
	unknownForm bodyForm = iota
	jsonForm
	eventForm
)

// open makes the reader ready. It must be called before all others.
func (r *usageReader) open() {
	r.scanner = jsonscan.New(r.value)
	r.events.Handler = (*usageEvents)(r)
}

// feed reads the next piece of the body. It neither keeps nor changes the piece.
func (r *usageReader) feed(p []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.scanner == nil {
		return
	}
	if r.form == unknownForm {
		r.form = formOf(p)
	}
	if r.form == jsonForm {
		r.scanner.Feed(p)
		return
	}
	r.events.Feed(p)
}

// close ends the body and returns the usage that it has reported, which is none if the reader was
// not opened. Later pieces are not read.
func (r *usageReader) close() Usage {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.scanner == nil {
		return r.usage
	}
	if r.form == jsonForm {
		r.scanner.End()
	} else {
		r.events.End()
	}
	r.scanner.Release()
	r.scanner = nil
	r.conclude()
	return r.usage
}

// conclude sets what follows from the counts that the body has stated.
func (r *usageReader) conclude() {
	u, in := &r.usage, &r.stated
	u.Prompt = in.prompt
	if in.prompt == 0 { // LiteLLM states both, and counts the cached ones as prompt_tokens, too
		u.Prompt = in.uncached + in.cacheRead + in.written
		u.Cached = max(u.Cached, in.cacheRead)
	}
	if !u.Known || !in.any || r.invalid || u.Prompt > maxTokens {
		*u = Usage{}
	}
}

// value reads one value of the JSON in a response.
func (r *usageReader) value(v jsonscan.Value) {
	for i, path := range usagePaths {
		if name, ok := bytes.CutPrefix(v.Path, path); ok {
			r.field(string(name), v, i != beginPath)
			return
		}
	}
}

// field stores the field of usage that name stands for. final says that it is not a count so far.
func (r *usageReader) field(name string, v jsonscan.Value, final bool) {
	var to *int
	input := false
	switch name {
	case "prompt_tokens":
		to, input = &r.stated.prompt, true
	case "input_tokens":
		to, input = &r.stated.uncached, true
	case "cache_read_input_tokens":
		to = &r.stated.cacheRead
	case "cache_creation_input_tokens":
		to = &r.stated.written
	case "completion_tokens", "output_tokens":
		to = &r.usage.Output
	case "prompt_tokens_details.cached_tokens", "input_tokens_details.cached_tokens":
		to = &r.usage.Cached
	default:
		return
	}
	if v.Kind == jsonscan.Null {
		return
	}
	n, ok := count(v)
	if !ok {
		r.invalid = true
		return
	}
	*to = max(*to, n)
	r.usage.Known = r.usage.Known || final
	r.stated.any = r.stated.any || input
}

// formOf returns the form of a body that begins with p; unknownForm if p is white space.
// White space in front of events would belong to the name of a field, so passing it to the reader
// of events does no harm if JSON follows.
func formOf(p []byte) bodyForm {
	for _, c := range p {
		switch c {
		case ' ', '\t', '\r', '\n':
		case '{', '[':
			return jsonForm
		default:
			return eventForm
		}
	}
	return unknownForm
}

// usageEvents is a usageReader as the handler of its events.
type usageEvents usageReader

// Event scans an event, unless it has no usage or a usage of null.
func (r *usageEvents) Event(data []byte) {
	for rest := data; ; {
		i := bytes.Index(rest, usageMark)
		if i < 0 {
			return
		}
		if rest = rest[i+len(usageMark):]; !bytes.HasPrefix(rest, noUsage) {
			break
		}
	}
	r.scanner.Reset()
	r.scanner.Feed(data)
	r.scanner.End()
}

// BeginLarge begins to scan a large event.
func (r *usageEvents) BeginLarge() { r.scanner.Reset() }

// Large scans a part of a large event.
func (r *usageEvents) Large(part []byte) { r.scanner.Feed(part) }

// EndLarge ends the scan of a large event.
func (r *usageEvents) EndLarge() { r.scanner.End() }

// mayReportUsage reports whether a body with these headers can be read: JSON or server-sent
// events that are not compressed. Without a type it can, because net/http guesses one only later.
func mayReportUsage(h http.Header) bool {
	if encoding := h.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return false
	}
	mediaType, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	switch mediaType = strings.ToLower(strings.TrimSpace(mediaType)); mediaType {
	case "", "application/json", "text/event-stream":
		return true
	}
	return strings.HasSuffix(mediaType, "+json")
}
