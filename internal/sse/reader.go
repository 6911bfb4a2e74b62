// Package sse reads streams of server-sent events that arrive in pieces, in limited memory: a
// [Reader] takes the data out of the events, and a [Filter] passes a stream on without some of
// them. How a stream is cut into pieces does not change the result.
//
// Packages llmhttp and httplimit watch with it the answers of models that stream by. The format is
// that of https://html.spec.whatwg.org/multipage/server-sent-events.html, but for an event that the
// end of the stream cuts off, which counts.
package sse

// MaxEvent is the length in bytes up to which an event is buffered: of its data in a Reader, of
// all its lines in a Filter.
const MaxEvent = 64 << 10

var (
	byteOrderMark = []byte("\uFEFF")
	newline       = []byte("\n")
)

// Handler receives the data of the events that a Reader reads. Its methods must neither keep nor
// change their arguments, and must not use the Reader.
type Handler interface {
	// Event receives the data of an event of at most MaxEvent bytes. The lines of data are joined
	// by newlines.
	Event(data []byte)
	// BeginLarge announces an event with more data.
	BeginLarge()
	// Large receives the next part of the data of a large event.
	Large(part []byte)
	// EndLarge ends a large event.
	EndLarge()
}

// Reader passes the data of each event in a stream to a Handler. Events without data and all
// fields but data are skipped. The zero value with a Handler is ready to use. It must not be copied
// after the first use, and is not safe for concurrent use.
type Reader struct {
	// Handler receives the events. It must be set before the first use.
	Handler Handler

	mark    int   // bytes of the byte order mark so far; all of them also when there is none
	cr      bool  // the last piece ended with \r
	line    field // of the unfinished line
	hasData bool  // the current event has data
	large   bool  // the current event has more than MaxEvent bytes of data

	// The data of the current event so far is in one of the two.
	whole  []byte // a part of the current piece
	joined []byte
}

// Feed reads the next piece of the stream. It neither keeps nor changes the piece.
func (r *Reader) Feed(p []byte) {
	if r.mark < len(byteOrderMark) {
		p = r.skipMark(p)
	}
	p = afterCR(&r.cr, p)
	for l := linesOf(p); l.i < len(p); {
		part, ended := l.next()
		switch {
		case !ended:
			r.part(part)
		case r.line != lineStart:
			r.part(part)
			r.endLine()
		case len(part) == 0:
			r.dispatch()
		default:
			value, ok := dataOf(part)
			switch {
			case !ok:
			case !r.hasData && len(value) <= MaxEvent && l.skipBlank():
				r.Handler.Event(value)
			default:
				r.add(value)
			}
		}
	}
	r.join()
}

// End marks the end of the stream. An event that is cut off there counts as if it were whole.
func (r *Reader) End() {
	r.endLine()
	r.dispatch()
}

// skipMark drops the byte order mark that a stream may begin with. A part of one belongs to the
// name of a field that is not data.
func (r *Reader) skipMark(p []byte) []byte {
	for r.mark < len(byteOrderMark) && len(p) > 0 {
		if p[0] != byteOrderMark[r.mark] {
			if r.mark > 0 {
				r.line = otherField
			}
			r.mark = len(byteOrderMark)
			break
		}
		r.mark++
		p = p[1:]
	}
	return p
}

// part reads a part of a line.
func (r *Reader) part(part []byte) {
	if r.line == inValue {
		r.gather(part)
		return
	}
	value := r.line.value(part)
	if r.line == inValue {
		r.add(value)
	}
}

// endLine ends a line that came in parts.
func (r *Reader) endLine() {
	// In inValue, the line was added when its value began.
	if r.line != inValue && r.line.isData() {
		r.add(nil)
	}
	r.line = lineStart
}

// add adds a line of data, or its beginning, to the event.
func (r *Reader) add(value []byte) {
	if !r.hasData {
		r.hasData, r.whole = true, value
		return
	}
	r.join()
	r.gather(newline)
	r.gather(value)
}

// join copies the data that lies in the current piece, so that the event outlives it.
func (r *Reader) join() {
	whole := r.whole
	r.whole = nil
	r.gather(whole)
}

// gather adds to the data of an event that does not lie in one piece.
func (r *Reader) gather(data []byte) {
	if !r.large && len(r.joined)+len(data) <= MaxEvent {
		r.joined = append(r.joined, data...)
		return
	}
	if !r.large {
		r.large = true
		r.Handler.BeginLarge()
		r.Handler.Large(r.joined)
		r.joined = r.joined[:0]
	}
	r.Handler.Large(data)
}

// dispatch ends an event.
func (r *Reader) dispatch() {
	if !r.hasData {
		return
	}
	if len(r.whole) > MaxEvent {
		r.join()
	}
	switch {
	case r.large:
		r.Handler.EndLarge()
	case len(r.joined) > 0:
		r.Handler.Event(r.joined)
	default:
		r.Handler.Event(r.whole)
	}
	r.hasData, r.large, r.whole, r.joined = false, false, nil, r.joined[:0]
}
