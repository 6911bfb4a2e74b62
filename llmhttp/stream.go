package llmhttp

import (
	"bytes"
	"math"
)

// maxEvent is how large the data of an event may be that is looked at as a whole.
const maxEvent = 64 << 10

var (
	byteOrderMark = []byte("\uFEFF")
	newline       = []byte("\n")
	lastData      = []byte("[DONE]")
)

// stream watches the body of an answer go by and tells its values: of JSON texts
// all, of server-sent events those of the events that have one of the marks, other
// than before null, and of those that are larger than 64 KiB. It finds out by itself
// which of the two it is. How the body is cut into pieces changes nothing. A stream has
// one user at a time.
type stream struct {
	scanner *scanner
	marks   []pattern
	needles needles

	form    form
	mark    int   // bytes of a byte order mark that were found
	cr      bool  // the last piece ended with \r
	line    field // of the line that is not at its end
	hasData bool  // the event at hand has data
	large   bool  // more than maxEvent, so that it goes to the scanner as it comes

	// The data of the event at hand, in one of the two.
	whole []byte // a part of the piece
	carry []byte

	written int  // bytes of text in the events so far, or of the string that the end of JSON cut off
	last    bool // an event said that no more come
}

type form byte

const (
	unknownForm form = iota
	jsonForm
	eventForm
)

func newStream(marks []string, tell func(Value)) *stream {
	s := &stream{scanner: newScanner(tell)}
	for _, mark := range marks {
		s.marks = append(s.marks, patternOf(mark))
	}
	return s
}

// text returns how many bytes of text the body has so far, about.
func (s *stream) text() int {
	if s.form == jsonForm {
		return sum(s.scanner.strings, sum(s.scanner.partial(), s.written))
	}
	return s.written
}

// broken reports, after end, that the JSON of the body, or of the last event that was
// looked at, was not whole.
func (s *stream) broken() bool { return s.scanner.bad() }

// release gives back what the stream needs no more. It must not be used afterwards.
func (s *stream) release() { s.scanner.release() }

// done reports that the stream said that no more comes, as those of OpenAI do: SDKs
// then do not read on to the end.
func (s *stream) done() bool { return s.last }

// sum adds two sizes, and stays at the largest when there is no larger.
func sum(a, b int) int {
	if a > math.MaxInt-b {
		return math.MaxInt
	}
	return a + b
}

// feed looks at the next piece of the body. It neither keeps nor changes it.
func (s *stream) feed(p []byte) {
	if s.form == unknownForm {
		p = s.sniff(p)
	}
	if s.form == jsonForm {
		s.scanner.feed(p)
		return
	}
	s.events(p)
}

// end tells that no more comes. An event that is cut off there counts.
func (s *stream) end() {
	if s.form == jsonForm {
		s.written = s.scanner.partial()
		s.scanner.end()
		return
	}
	s.endLine()
	s.dispatch()
}

// sniff finds out what the body is and returns what it did not need for that.
func (s *stream) sniff(p []byte) []byte {
	for s.mark < len(byteOrderMark) && len(p) > 0 {
		if p[0] != byteOrderMark[s.mark] {
			if s.mark > 0 {
				s.form, s.line = eventForm, otherField
				return p
			}
			s.mark = len(byteOrderMark)
			break
		}
		s.mark++
		p = p[1:]
	}
	rest := trimSpace(p)
	if len(rest) > 0 {
		s.form = eventForm
		if rest[0] == '{' || rest[0] == '[' {
			s.form = jsonForm
		}
	}
	// White space at the beginning of a line of an event makes it another field.
	s.events(p[:len(p)-len(rest)])
	return rest
}

// events reads the next piece of a stream of events.
func (s *stream) events(p []byte) {
	p = afterCR(&s.cr, p)
	for l := linesOf(p); l.i < len(p); {
		part, ended := l.next()
		switch {
		case !ended:
			s.part(part)
		case s.line != lineStart:
			s.part(part)
			s.endLine()
		case len(part) == 0:
			s.dispatch()
		default:
			value, ok := dataOf(part)
			switch {
			case !ok:
			case !s.hasData && len(value) <= maxEvent && l.skipBlank():
				s.event(value)
			default:
				s.add(value)
			}
		}
	}
	s.carryOver()
}

// part reads a part of a line.
func (s *stream) part(part []byte) {
	if s.line == inValue {
		s.gather(part)
		return
	}
	value := s.line.value(part)
	if s.line == inValue {
		s.add(value)
	}
}

// endLine ends a line that came in parts.
func (s *stream) endLine() {
	// In inValue, the line was added when its value began.
	if s.line != inValue && s.line.isData() {
		s.add(nil)
	}
	s.line = lineStart
}

// add adds a line of data, or its beginning, to the event.
func (s *stream) add(value []byte) {
	if !s.hasData {
		s.hasData, s.whole = true, value
		return
	}
	s.carryOver()
	s.gather(newline)
	s.gather(value)
}

// carryOver keeps of the event what lies in the piece only.
func (s *stream) carryOver() {
	whole := s.whole
	s.whole = nil
	s.gather(whole)
}

// gather adds to the data of an event that does not lie in the piece as a whole.
func (s *stream) gather(data []byte) {
	if !s.large && len(s.carry)+len(data) <= maxEvent {
		s.carry = append(s.carry, data...)
		return
	}
	if !s.large {
		s.large = true
		s.written = sum(s.written, len(s.carry))
		s.scanner.reset()
		s.scanner.feed(s.carry)
		s.carry = s.carry[:0]
	}
	s.written = sum(s.written, len(data))
	s.scanner.feed(data)
}

// dispatch ends an event.
func (s *stream) dispatch() {
	if !s.hasData {
		return
	}
	if len(s.whole) > maxEvent {
		s.carryOver()
	}
	switch {
	case s.large:
		s.scanner.end()
	case len(s.carry) > 0:
		s.event(s.carry)
	default:
		s.event(s.whole)
	}
	s.hasData, s.large, s.whole, s.carry = false, false, nil, s.carry[:0]
}

// event looks at the data of an event.
func (s *stream) event(data []byte) {
	s.last = s.last || bytes.Equal(trimSpace(data), lastData)
	s.written = sum(s.written, s.needles.count(data))
	if s.marked(data) {
		s.scanner.reset()
		s.scanner.feed(data)
		s.scanner.end()
	}
}

// marked reports whether data has one of the marks, other than before null.
func (s *stream) marked(data []byte) bool {
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

// nullFollows reports whether a key is followed by null.
func nullFollows(p []byte) bool {
	p, ok := bytes.CutPrefix(trimSpace(p), []byte(":"))
	return ok && bytes.HasPrefix(trimSpace(p), []byte("null"))
}

func trimSpace(p []byte) []byte {
	for len(p) > 0 && (p[0] == ' ' || p[0] == '\n' || p[0] == '\r' || p[0] == '\t') {
		p = p[1:]
	}
	return p
}
