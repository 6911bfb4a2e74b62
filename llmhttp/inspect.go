package llmhttp

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"

	"dappco.re/go/core/go-ratelimit/internal/jsonscan"
	"dappco.re/go/core/go-ratelimit/llmhttp/internal/media"
)

// inspection is the reading of a request's body. It stops where the body proves to be no JSON.
type inspection struct {
	call    *Call
	adapter Adapter
	scanner *jsonscan.Scanner
	max     int64 // bytes of the body to read

	sniffing   bool  // the first byte is yet to show whether the body is JSON
	stopped    bool  // the body is no JSON
	size       int64 // bytes read so far
	mediaBytes int   // of StringBytes, the bytes of media, which are no text
}

// recognize returns the adapter for a request, which fills in call. It returns nil for a request
// that is no call to a model.
func (t *Transport) recognize(req *http.Request, call *Call) Adapter {
	for _, all := range [...][]Adapter{t.Adapters, adapters} {
		for _, a := range all {
			*call = Call{Request: req, BodySize: -1}
			if a.Match(req, call) {
				call.Adapter = a.Name()
				return a
			}
		}
	}
	return nil
}

// inspect reads the body of a call, if it is JSON, and fills in call. It returns the request to
// send, whose body is complete: without GetBody, a copy of the request with the bytes that were
// read in front of the rest. With an error, the body is closed.
func (t *Transport) inspect(call *Call, a Adapter) (*http.Request, error) {
	req := call.Request
	if req.Body == nil || req.Body == http.NoBody {
		call.BodySize = 0
		return req, nil
	}
	if req.ContentLength > 0 {
		call.BodySize = req.ContentLength
	}
	form := requestForm(req.Header)
	if form == otherBody {
		return t.inspectForm(call, a)
	}
	in := inspection{call: call, adapter: a, max: t.maxBody(), sniffing: form == untypedBody}
	in.scanner = jsonscan.New(in.value)
	defer in.scanner.Release()
	send, err := in.read(req)
	if err != nil {
		req.Body.Close()
		return nil, fmt.Errorf("llmhttp: read request body: %w", err)
	}
	in.scanner.End()
	if t.CountAbove > 0 {
		call.body = send.GetBody
	}
	call.invalid = in.scanner.Invalid()
	if !in.stopped {
		call.Partial = in.size > in.max
		if !call.Partial || call.BodySize < 0 {
			call.BodySize = in.size
		}
	}
	call.PromptBytes = in.scanner.StringBytes() - in.mediaBytes
	return send, nil
}

// read reads a copy of the request's body, or the body itself where there is no copy. It returns
// the request to send.
func (in *inspection) read(req *http.Request) (send *http.Request, err error) {
	if req.GetBody != nil {
		if body, err := req.GetBody(); err == nil {
			defer body.Close()
			if _, err = in.readBody(body, func([]byte) {}); err != nil {
				return nil, err
			}
			return withFreshBody(req)
		}
	}
	var head pieces
	whole, err := in.readBody(req.Body, head.add)
	if err != nil {
		return nil, err
	}
	send = req.WithContext(req.Context())
	if !whole {
		send.Body = &joinedBody{io.MultiReader(head.reader(), req.Body), req.Body}
		return send, nil
	}
	send.Body = &joinedBody{head.reader(), req.Body}
	send.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(head.reader()), nil }
	return send, nil
}

// readBody reads a body as far as it is JSON, and at most one byte more than max. It passes
// everything that it read to keep, which must not retain its argument, and reports whether that
// is the whole body.
func (in *inspection) readBody(body io.Reader, keep func([]byte)) (whole bool, err error) {
	buf := readBuffers.Get().(*[pieceSize]byte)
	defer readBuffers.Put(buf)
	n := 0 // bytes in buf
	for err == nil && !in.stopped && in.size <= in.max {
		if n == len(buf) {
			keep(buf[:])
			n = 0
		}
		var got int
		got, err = body.Read(buf[n:min(int64(len(buf)), int64(n)+in.max+1-in.size)])
		in.scan(buf[n : n+got])
		n += got
		in.size += int64(got)
	}
	keep(buf[:n])
	if err == io.EOF { // only as it is: an error that wraps it is a failure
		return true, nil
	}
	return false, err
}

// scan reads the next piece of the body.
func (in *inspection) scan(p []byte) {
	if in.sniffing {
		rest := trimSpace(p)
		if len(rest) == 0 {
			return
		}
		if in.stopped = rest[0] != '{' && rest[0] != '['; in.stopped {
			return
		}
		in.sniffing = false
	}
	in.scanner.Feed(p)
	in.stopped = in.scanner.Invalid()
}

// value passes a value of the body to the adapter, and counts media.
func (in *inspection) value(scanned jsonscan.Value) {
	v := valueOf(scanned)
	if v.Kind == String && isMedia(&v) {
		in.call.Media++
		in.call.mediaTokens = clampTokens(int64(in.call.mediaTokens) + int64(media.Tokens(in.call.Adapter, v.Text, v.Size)))
		in.mediaBytes += v.Size
	}
	if v.Path != nil {
		in.adapter.Request(in.call, v)
	}
}

// mediaKeys are the keys of strings that contain images, sounds or files, or refer to them.
var mediaKeys = map[string]bool{
	"data": true, "file_data": true, "url": true, "image_url": true, "images": true,
	"file_id": true, "fileUri": true, "file_uri": true, "bytesBase64Encoded": true, "bytes": true,
}

// minMediaSize is the length in bytes from which a string counts as media by its key alone: tools
// may have fields with the same names.
const minMediaSize = 256

// isMedia reports whether a string is media, which does not count as text.
func isMedia(v *Value) bool {
	if bytes.HasPrefix(v.Text, []byte("data:")) {
		return true
	}
	key := v.Path[bytes.LastIndexByte(v.Path, '.')+1:]
	if !mediaKeys[string(key)] {
		return false
	}
	return v.Size >= minMediaSize || bytes.HasPrefix(v.Text, []byte("https://")) ||
		bytes.HasPrefix(v.Text, []byte("gs://")) || strings.HasSuffix(string(key), "_id")
}
