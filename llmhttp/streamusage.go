package llmhttp

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"

	"dappco.re/go/core/go-ratelimit/internal/jsonscan"
	"dappco.re/go/core/go-ratelimit/internal/sse"
)

// withStreamUsage returns a copy of a streamed completion that also asks for its usage. bodySize is
// the length of its body in bytes. It returns false, and leaves the request alone, if it cannot
// read the body, or if the body sets include_usage itself.
func withStreamUsage(req *http.Request, bodySize int64) (*http.Request, bool) {
	if req.GetBody == nil || req.Header.Get("Accept-Encoding") != "" {
		return nil, false // the chunk cannot be taken out of a compressed answer
	}
	copied, err := req.GetBody()
	if err != nil {
		return nil, false
	}
	body := make([]byte, bodySize+1) // one more shows that nothing follows
	n, err := io.ReadFull(copied, body)
	copied.Close()
	if err != io.ErrUnexpectedEOF || int64(n) != bodySize {
		return nil, false
	}
	body = body[:n]
	edit, ok := usageEdit(body)
	if !ok {
		return nil, false
	}
	req.Body.Close()
	send := req.WithContext(req.Context())
	send.ContentLength = bodySize + int64(len(edit.text)-(edit.end-edit.begin))
	if send.Header.Get("Content-Length") != "" {
		send.Header = send.Header.Clone()
		send.Header.Set("Content-Length", strconv.FormatInt(send.ContentLength, 10))
	}
	send.GetBody = func() (io.ReadCloser, error) {
		return io.NopCloser(io.MultiReader(bytes.NewReader(body[:edit.begin]),
			strings.NewReader(edit.text), bytes.NewReader(body[edit.end:]))), nil
	}
	send.Body, _ = send.GetBody()
	return send, true
}

// edit replaces the bytes from begin to end of a body by text.
type edit struct {
	begin, end int
	text       string
}

// usageEdit returns the edit that sets include_usage in a body. It returns false for a body that
// sets it already, and for one that is no JSON object.
func usageEdit(body []byte) (edit, bool) {
	const option = `"include_usage":true`
	dec := json.NewDecoder(bytes.NewReader(body))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return edit{}, false
	}
	open, fields := int(dec.InputOffset()), 0
	for dec.More() {
		fields++
		key, err := dec.Token()
		if err != nil {
			return edit{}, false
		}
		var value json.RawMessage
		if dec.Decode(&value) != nil {
			return edit{}, false
		}
		if key != "stream_options" {
			continue
		}
		end := int(dec.InputOffset())
		begin := end - len(value)
		if string(value) == "null" {
			return edit{begin, end, `{` + option + `}`}, true
		}
		var options map[string]json.RawMessage
		if json.Unmarshal(value, &options) != nil || options["include_usage"] != nil {
			return edit{}, false
		}
		if len(options) > 0 {
			return edit{begin + 1, begin + 1, option + `,`}, true
		}
		return edit{begin, end, `{` + option + `}`}, true
	}
	if t, err := dec.Token(); err != nil || t != json.Delim('}') {
		return edit{}, false
	}
	insert := `"stream_options":{` + option + `}`
	if fields > 0 {
		insert += ","
	}
	return edit{open, open, insert}, true
}

// filteredBody is the body of an answer without the chunk that reports the usage.
type filteredBody struct {
	io.ReadCloser
	filter *sse.Filter
	piece  []byte // buffer for reading the body
	passed []byte // buffer for the bytes that pass the filter
	rest   []byte // of passed, the bytes that the caller has not read
	err    error  // that ended the body
}

func newFilteredBody(body io.ReadCloser) *filteredBody {
	return &filteredBody{
		ReadCloser: body, filter: sse.NewFilter(isUsageChunk), piece: make([]byte, 4<<10),
	}
}

// Read reads from the body until bytes pass the filter.
func (b *filteredBody) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for len(b.rest) == 0 {
		if b.err != nil {
			return 0, b.err
		}
		n, err := b.ReadCloser.Read(b.piece)
		b.passed = b.filter.Append(b.passed[:0], b.piece[:n])
		if b.err = err; err != nil {
			b.passed = b.filter.Finish(b.passed)
		}
		b.rest = b.passed
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// isUsageChunk reports whether the data of an event is the chunk that reports the usage and has no
// choices.
func isUsageChunk(data []byte) bool {
	if !bytes.Contains(data, []byte(`"usage"`)) {
		return false
	}
	usage, list, choices, failed := false, false, false, false
	scanner := jsonscan.New(func(v jsonscan.Value) {
		switch string(v.Path) {
		case "usage":
			usage = usage || v.Kind == jsonscan.Object
		case "choices":
			list = list || v.Kind == jsonscan.Array
			choices = choices || v.Kind != jsonscan.Array
		case "error":
			failed = failed || v.Kind != jsonscan.Null
		}
	})
	defer scanner.Release()
	scanner.Feed(data)
	scanner.End()
	return usage && list && !choices && !failed && !scanner.Invalid()
}
