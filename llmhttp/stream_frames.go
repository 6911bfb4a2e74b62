package llmhttp

import (
	"encoding/json"
	"net/http"
	"strings"

	"dappco.re/go/core/go-ratelimit/llmhttp/internal/eventstream"
)

// isEventStream reports whether a body comes in the binary frames of Amazon Bedrock.
func isEventStream(h http.Header) bool {
	mediaType, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	return strings.EqualFold(strings.TrimSpace(mediaType), "application/vnd.amazon.eventstream")
}

// frames reads the binary frames of a body for its stream, as events.
type frames struct {
	reader  *eventstream.Reader
	stream  *stream
	fault   func(kind string, payload []byte) // an exception or an error
	began   func()                            // the first event; nil after it
	damaged bool                              // a frame could not be read, and none after it was
}

// frame has the stream read binary frames. It passes exceptions and errors to fault, which must not
// keep the payload, and calls began at the first event.
func (s *stream) frame(fault func(kind string, payload []byte), began func()) {
	s.frames = &frames{stream: s, fault: fault, began: began}
	s.frames.reader = eventstream.New(s.frames.message)
}

func (r *frames) feed(p []byte) {
	r.damaged = r.reader.Feed(p) != nil || r.damaged
}

// open reports that the body ended within a frame.
func (r *frames) open() bool { return r.reader.Open() }

// message reads a frame. Its text counts, and its usage is read, as that of a server-sent event.
func (r *frames) message(m eventstream.Message) {
	if m.Type == "exception" || m.Type == "error" {
		r.fault(m.Name, m.Payload)
		return
	}
	if r.began != nil {
		r.began()
		r.began = nil
	}
	switch {
	case m.Payload == nil && m.Size > 0: // too large to be read
		r.stream.written = add(r.stream.written, m.Size)
	case m.Name == "chunk":
		var chunk struct{ Bytes []byte } // in base64
		if json.Unmarshal(m.Payload, &chunk) != nil {
			r.damaged = true
			return
		}
		r.event(chunk.Bytes)
	default:
		r.event(m.Payload)
	}
}

// frameKeys are the keys of text that only the events in frames have: the input of a tool in
// ConverseStream, and what the models of Meta, Amazon and older ones of Anthropic write.
var frameKeys = [...]pattern{
	patternOf(`"input":`), patternOf(`"generation":`), patternOf(`"outputText":`), patternOf(`"completion":`),
}

// event reads an event of the stream.
func (r *frames) event(data []byte) {
	before := r.stream.written
	(*streamEvents)(r.stream).Event(data)
	if r.stream.written > before {
		return
	}
	for i := range frameKeys {
		key := &frameKeys[i]
		if at := key.index(data); at >= 0 {
			r.stream.written = add(before, stringAfter(data[at+len(key.text):]))
			return
		}
	}
}
