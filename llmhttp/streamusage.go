package llmhttp

import (
	"bytes"
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
	if req.GetBody == nil || signed(req) || req.Header.Get("Accept-Encoding") != "" {
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
