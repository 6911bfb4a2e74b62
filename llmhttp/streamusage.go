package llmhttp

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
)

// askUsage returns a copy of a streamed chat completion that asks for its usage, too. It
// leaves a body alone that it does not understand, or that says include_usage itself.
func askUsage(req *http.Request) (*http.Request, bool) {
	if req.GetBody == nil || req.Header.Get("Accept-Encoding") != "" {
		return nil, false // of a compressed answer the chunk could not be taken out
	}
	copied, err := req.GetBody()
	if err != nil {
		return nil, false
	}
	body, err := io.ReadAll(copied)
	copied.Close()
	if err != nil {
		return nil, false
	}
	asking, ok := withUsage(body)
	if !ok {
		return nil, false
	}
	req.Body.Close()
	send := req.WithContext(req.Context())
	send.ContentLength = int64(len(asking))
	if send.Header.Get("Content-Length") != "" {
		send.Header = send.Header.Clone()
		send.Header.Set("Content-Length", strconv.Itoa(len(asking)))
	}
	send.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(asking)), nil }
	send.Body, _ = send.GetBody()
	return send, true
}

// withUsage puts include_usage into a body, whose other bytes stay as they are.
func withUsage(body []byte) ([]byte, bool) {
	const option = `"include_usage":true`
	dec := json.NewDecoder(bytes.NewReader(body))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, false
	}
	open, fields := dec.InputOffset(), 0
	for dec.More() {
		fields++
		key, err := dec.Token()
		if err != nil {
			return nil, false
		}
		var value json.RawMessage
		if dec.Decode(&value) != nil {
			return nil, false
		}
		if key != "stream_options" {
			continue
		}
		end := int(dec.InputOffset())
		begin := end - len(value)
		if string(value) == "null" {
			return splice(body, begin, end, `{`+option+`}`), true
		}
		var options map[string]json.RawMessage
		if json.Unmarshal(value, &options) != nil || options["include_usage"] != nil {
			return nil, false
		}
		if len(options) > 0 {
			return splice(body, begin+1, begin+1, option+`,`), true
		}
		return splice(body, begin, end, `{`+option+`}`), true
	}
	if t, err := dec.Token(); err != nil || t != json.Delim('}') {
		return nil, false
	}
	insert := `"stream_options":{` + option + `}`
	if fields > 0 {
		insert += ","
	}
	return splice(body, int(open), int(open), insert), true
}

// splice returns a copy of body with other text between two places.
func splice(body []byte, from, to int, text string) []byte {
	out := make([]byte, 0, len(body)+len(text))
	out = append(out, body[:from]...)
	out = append(out, text...)
	return append(out, body[to:]...)
}

// hidingBody is the body of an answer without the chunk that tells the usage.
type hidingBody struct {
	io.ReadCloser
	hider *hider
	piece []byte // as it came
	room  []byte // of what is for the caller,
	ready []byte // the part that is left
	err   error
}

func newHidingBody(body io.ReadCloser) *hidingBody {
	return &hidingBody{ReadCloser: body, hider: newHider(isUsageChunk), piece: make([]byte, 4<<10)}
}

func (b *hidingBody) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for len(b.ready) == 0 {
		if b.err != nil {
			return 0, b.err
		}
		n, err := b.ReadCloser.Read(b.piece)
		b.err = err
		b.room = b.hider.filter(b.room[:0], b.piece[:n], err != nil)
		b.ready = b.room
	}
	n := copy(p, b.ready)
	b.ready = b.ready[n:]
	return n, nil
}

// isUsageChunk reports whether the data of an event are the chunk that tells the usage and
// has no choices.
func isUsageChunk(data []byte) bool {
	if !bytes.Contains(data, []byte(`"usage"`)) {
		return false
	}
	usage, list, choices, failed := false, false, false, false
	scan := newScanner(func(v Value) {
		switch string(v.Path) {
		case "usage":
			usage = usage || v.Kind == Object
		case "choices":
			list = list || v.Kind == Array
			choices = choices || v.Kind != Array
		case "error":
			failed = failed || v.Kind != Null
		}
	})
	defer scan.release()
	scan.feed(data)
	scan.end()
	return usage && list && !choices && !failed && !scan.bad()
}
