package llmhttp

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"dappco.re/go/core/go-ratelimit/internal/jsonscan"
)

// The lanes of messages without a stream_id, and with one that the server refuses.
const (
	defaultLane = ""
	invalidLane = "\x00"
)

const maxLaneName = 256 // bytes of a stream_id

// isLane reports whether s is a valid stream_id.
func isLane(s string) bool {
	return isName(s, maxLaneName) && !strings.Contains(s, ":")
}

// laneOf returns the lane that a stream_id names.
func laneOf(v Value) string {
	if v.Kind == Null {
		return defaultLane
	}
	if name := v.text(); v.Size <= maxLaneName && isLane(name) {
		return name
	}
	return invalidLane
}

// socketMessage is a message of the client.
type socketMessage struct {
	raw    []byte // its frames, as the client wrote them
	size   int64  // of its content, in bytes
	kind   string // its type; empty if that was not found
	create bool   // it has the type response.create
	lane   string
	named  bool   // it names its lane
	about  string // the ID of the response that it follows or is about
	flight *flight

	in inspection
}

// newMessage returns a message of the client whose content is yet to be read into call.
func newMessage(call *Call, limit int64) *socketMessage {
	m := &socketMessage{in: inspection{call: call, max: limit}}
	m.in.adapter = messageReader{openAI{}, m}
	m.in.scanner = jsonscan.New(m.in.value)
	return m
}

// read reads the next piece of the content.
func (m *socketMessage) read(p []byte) {
	m.size += int64(len(p))
	m.in.scanner.Feed(p)
}

// end reads the end of the content.
func (m *socketMessage) end() {
	m.in.scanner.End()
	call := m.in.call
	call.invalid = m.in.scanner.Invalid()
	call.BodySize = m.size
	call.PromptBytes = m.in.scanner.StringBytes() - m.in.mediaBytes
	m.release()
}

// release frees the buffers that reading took.
func (m *socketMessage) release() {
	m.in.scanner.Release()
	m.in.scanner, m.in.adapter = nil, nil
}

// calls reports whether the message asks for a response. So does one whose type was not found: the
// server may read it otherwise, and refuses it if not.
func (m *socketMessage) calls() bool { return m.create || m.kind == "" }

// passes reports whether the message may overtake those of a lane that waits: it is about a
// response that has begun, and so belongs to none that waits.
func (m *socketMessage) passes() bool { return !m.calls() && !m.named && m.about != "" }

// messageReader is the adapter that reads a message.
type messageReader struct {
	openAI
	*socketMessage
}

// Request reads what the message says of its lane, and what a request over HTTP would say.
func (r messageReader) Request(call *Call, v Value) {
	switch string(v.Path) {
	case "type":
		r.kind = v.text()
		r.create = r.create || r.kind == "response.create"
	case "stream_id":
		r.lane, r.named = laneOf(v), v.Kind != Null
	case "previous_response_id", "response_id":
		r.about = v.text()
	}
	r.openAI.Request(call, v)
}

// socketEvent is a message of the server.
type socketEvent struct {
	kind  string
	lane  string
	id    string // of the response
	model string // of the response
	usage Usage
	text  int // bytes that the model wrote

	status  int // of an error
	code    string
	param   string
	headers http.Header
	body    []byte // the beginning of an error, for its classification

	scanner *jsonscan.Scanner
}

// newEvent returns an event that is yet to be read.
func newEvent() *socketEvent {
	e := new(socketEvent)
	e.scanner = jsonscan.New(e.value)
	return e
}

// read reads the next piece of the event.
func (e *socketEvent) read(p []byte) {
	e.scanner.Feed(p)
	if e.kind == "" || e.kind == "error" {
		e.body = append(e.body, p[:min(len(p), maxErrorBody-len(e.body))]...)
	}
}

// reset makes the event ready for the next message.
func (e *socketEvent) reset() {
	*e = socketEvent{scanner: e.scanner, body: e.body[:0]}
	e.scanner.Reset()
}

// ends reports whether the event is the last one of a response.
func (e *socketEvent) ends() bool { return e.usage.final }

// value reads a value of the event.
func (e *socketEvent) value(scanned jsonscan.Value) {
	if scanned.Path == nil {
		return
	}
	v := valueOf(scanned)
	switch path := string(v.Path); path {
	case "type":
		e.kind = v.text()
	case "stream_id":
		e.lane = laneOf(v)
	case "response.id":
		e.id = v.text()
	case "response.model":
		e.model = v.text()
	case "delta":
		e.text = v.Size
	case "status":
		e.status, _ = tokenCount(v)
	case "error.code", "response.error.code":
		e.code = v.text()
	case "error.param":
		e.param = v.text()
	default:
		if name, ok := strings.CutPrefix(strings.TrimPrefix(path, "error."), "headers."); ok {
			e.header(name, v)
		}
	}
	openAI{}.Response(nil, &e.usage, v)
}

// header reads a header of the answer that the error would have had over HTTP.
func (e *socketEvent) header(name string, v Value) {
	if e.headers == nil {
		e.headers = make(http.Header)
	}
	value := v.text()
	if v.Kind == Number {
		value = string(v.Text)
	}
	if value != "" && len(e.headers) < maxDetails {
		e.headers.Set(name, value)
	}
}

// refusedStatus returns the status of an error, or the one that its code stands for.
func (e *socketEvent) refusedStatus() int {
	if e.status >= 400 {
		return e.status
	}
	switch b := readErrorBody(e.body, 0); {
	case b.exhausted(), b.hasCode(refusingCodes), strings.HasPrefix(e.code, "rate_limit"):
		return http.StatusTooManyRequests
	case b.hasCode([]string{"invalid_request_error"}):
		return http.StatusBadRequest
	}
	return http.StatusInternalServerError
}

// refusingCodes are the codes and types of errors whose status is 429.
var refusingCodes = []string{"rate_limit_exceeded", "rate_limit_error", "usage_limit_reached"}

// failure returns the body of an error over HTTP with the code of a response that failed; nil if
// it was not for a limit.
func (e *socketEvent) failure() (status int, body []byte) {
	switch {
	case e.code == "rate_limit_exceeded", slices.Contains(exhaustedCodes, e.code):
		status = http.StatusTooManyRequests
	case e.code == "server_is_overloaded":
		status = http.StatusServiceUnavailable
	default:
		return 0, nil
	}
	return status, []byte(`{"error":{"code":` + strconv.Quote(e.code) + `}}`)
}
