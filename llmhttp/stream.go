package llmhttp

import (
	"bytes"
	"io"
	"math"

	"dappco.re/go/core/go-ratelimit/internal/jsonscan"
	"dappco.re/go/core/go-ratelimit/internal/sse"
)

var (
	byteOrderMark = []byte("\uFEFF")
	lastData      = []byte("[DONE]") // the data of the last event in OpenAI's streams
)

// stream reads the body of an answer as it passes by. It recognizes by itself whether the body is
// JSON, of which it emits all values, or a stream of server-sent events. Of these it emits the
// values of events that contain one of the marks, unless null follows, and of events larger than
// sse.MaxEvent. How the body is cut into pieces changes nothing. It is not safe for concurrent use.
type stream struct {
	scanner *jsonscan.Scanner
	events  sse.Reader
	marks   []pattern
	texts   textCounter
	unzips  *unzipper // nil for a body that is not compressed
	frames  *frames   // nil for a body without binary frames

	form form
	mark int // bytes of a byte order mark so far; all of them also when there is none

	array bool // the body is a JSON array

	written int  // bytes of text in the events so far, or in the string that the end of JSON cut off
	last    bool // an event announced the end of the stream
}

type form byte

const (
	unknownForm form = iota
	jsonForm
	eventForm
)

// newStream returns a stream that passes values to emit, which must not use the stream.
func newStream(marks []string, emit func(jsonscan.Value)) *stream {
	s := &stream{scanner: jsonscan.New(emit)}
	s.events.Handler = (*streamEvents)(s)
	for _, mark := range marks {
		s.marks = append(s.marks, patternOf(mark))
	}
	return s
}

// unzip has the stream decode a body that is compressed with gzip. Its end method must be called
// then.
func (s *stream) unzip() { s.unzips = newUnzipper(s.read) }

// textBytes returns the approximate length of the text in the body so far, in bytes.
func (s *stream) textBytes() int {
	if s.form == jsonForm {
		return add(s.scanner.StringBytes(), add(s.scanner.PartialBytes(), s.written))
	}
	return s.written
}

// grows reports whether the body has more than one report of the usage, of which each counts what
// was written so far: it is a stream of events, or an array of answers.
func (s *stream) grows() bool { return s.form != jsonForm || s.array }

// broken reports, after end, that the JSON of the body, or of the last event that was scanned, was
// invalid or cut off, or the last binary frame cut off.
func (s *stream) broken() bool {
	return s.scanner.Invalid() || s.frames != nil && s.frames.open()
}

// cutOff reports, after end, that a compressed body ended before its own end.
func (s *stream) cutOff() bool { return s.unzips != nil && s.unzips.err == io.ErrUnexpectedEOF }

// release frees the stream's buffers for reuse. The stream must not be used afterwards.
func (s *stream) release() { s.scanner.Release() }

// done reports that an event announced the end of the stream, as OpenAI's do: SDKs do not read on
// to the end of the body then.
func (s *stream) done() bool { return s.last }

// add returns the sum of two sizes, or the largest int when the sum overflows.
func add(a, b int) int {
	if a > math.MaxInt-b {
		return math.MaxInt
	}
	return a + b
}

// feed reads the next piece of the body. It neither keeps nor changes the piece.
func (s *stream) feed(p []byte) {
	if s.unzips != nil {
		s.unzips.feed(p)
		return
	}
	s.read(p)
}

// read reads the next piece of the decoded body.
func (s *stream) read(p []byte) {
	if s.frames != nil {
		s.frames.feed(p)
		return
	}
	if s.form == unknownForm {
		p = s.sniff(p)
	}
	if s.form == jsonForm {
		s.scanner.Feed(p)
		return
	}
	s.events.Feed(p)
}

// end marks the end of the body. An event that is cut off there counts. It returns false if the
// body was not in the coding or the frames that its headers named.
func (s *stream) end() (readable bool) {
	readable = s.unzips == nil || s.unzips.end()
	if s.frames != nil {
		return readable && !s.frames.damaged
	}
	if s.form == jsonForm {
		s.written = s.scanner.PartialBytes()
		s.scanner.End()
		return readable
	}
	s.events.End()
	return readable
}

// sniff recognizes the form of the body by its first byte that is neither white space nor of a byte
// order mark. It returns the bytes that are to be read in that form.
func (s *stream) sniff(p []byte) []byte {
	rest := p
	for s.mark < len(byteOrderMark) && len(rest) > 0 {
		if rest[0] != byteOrderMark[s.mark] {
			if s.mark > 0 {
				s.form = eventForm
				return p
			}
			s.mark = len(byteOrderMark)
			break
		}
		s.mark++
		rest = rest[1:]
	}
	rest = trimSpace(rest)
	switch {
	case len(rest) == 0:
		// White space at the beginning of a line is part of a field's name.
		return p
	case rest[0] == '{' || rest[0] == '[':
		s.form, s.array = jsonForm, rest[0] == '['
		return rest
	}
	s.form = eventForm
	return p
}

// streamEvents is a stream as the handler of its events.
type streamEvents stream

// Event counts the text of an event, and scans the event if it has a mark.
func (s *streamEvents) Event(data []byte) {
	if n := len(data); n > 0 && data[n-1] == ']' { // rules most events out
		s.last = s.last || bytes.Equal(trimSpace(data), lastData)
	}
	s.written = add(s.written, s.texts.count(data))
	if s.marked(data) {
		s.scanner.Reset()
		s.scanner.Feed(data)
		s.scanner.End()
	}
}

// BeginLarge begins to scan a large event.
func (s *streamEvents) BeginLarge() { s.scanner.Reset() }

// Large scans a part of a large event, all of which counts as text.
func (s *streamEvents) Large(part []byte) {
	s.written = add(s.written, len(part))
	s.scanner.Feed(part)
}

// EndLarge ends the scan of a large event.
func (s *streamEvents) EndLarge() { s.scanner.End() }

// marked reports whether data contains one of the marks with another value than null behind it.
func (s *streamEvents) marked(data []byte) bool {
	for m := range s.marks {
		mark := &s.marks[m]
		for rest := data; ; {
			i := mark.index(rest)
			if i < 0 {
				break
			}
			rest = rest[i+len(mark.text):]
			if len(mark.text) == 0 || !nullFollows(rest) {
				return true
			}
		}
	}
	return false
}

// nullFollows reports whether p, which follows a key, begins with a colon and null.
func nullFollows(p []byte) bool {
	p, ok := bytes.CutPrefix(trimSpace(p), []byte(":"))
	return ok && bytes.HasPrefix(trimSpace(p), []byte("null"))
}

// trimSpace returns p without the JSON white space in front.
func trimSpace(p []byte) []byte {
	for len(p) > 0 && (p[0] == ' ' || p[0] == '\n' || p[0] == '\r' || p[0] == '\t') {
		p = p[1:]
	}
	return p
}
