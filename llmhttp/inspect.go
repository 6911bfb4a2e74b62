package llmhttp

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"

	"dappco.re/go/core/go-ratelimit/internal/jsonscan"
	"dappco.re/go/core/go-ratelimit/internal/pieces"
	"dappco.re/go/core/go-ratelimit/llmhttp/internal/media"
)

// inspection is the reading of a request's body. It stops where the body proves to be no JSON.
type inspection struct {
	call    *Call
	adapter Adapter // nil for a request that none recognized, of which only the model is looked for
	builtIn bool    // the adapter is one of this package
	scanner *jsonscan.Scanner
	max     int64 // bytes of the body to read

	mark       int   // bytes of the byte order mark that were skipped
	sniffing   bool  // the first byte is yet to show whether the body is JSON
	stopped    bool  // the body is no JSON, or the rest of it does not matter
	size       int64 // bytes read so far, decoded
	large      bool  // size passed Transport.MaxBody
	cut        bool  // the rest of the body was not read, though it may matter
	mediaBytes int   // of StringBytes, the bytes of media, which are no text
	names      names
	copied     failingReader
}

// recognize returns the adapter for a request, which fills in call, and reports whether it is one
// of this package. It returns nil for a request that is no call to a model.
func (t *Transport) recognize(req *http.Request, call *Call) (a Adapter, builtIn bool) {
	for _, a := range t.Adapters {
		*call = Call{Request: req, BodySize: -1}
		if a.Match(req, call) {
			call.Adapter = a.Name()
			return a, false
		}
	}
	asked := withoutSlash(req)
	for _, a := range adapters {
		*call = Call{Request: req, BodySize: -1}
		if a.Match(asked, call) {
			call.Adapter = a.Name()
			return a, true
		}
	}
	return nil, false
}

// withoutSlash returns a request with a path that does not end in a slash: req, or a copy to look
// at. Servers take such a path for the one without it.
func withoutSlash(req *http.Request) *http.Request {
	path := strings.TrimRight(req.URL.Path, "/")
	if len(path) == len(req.URL.Path) {
		return req
	}
	asked, u := *req, *req.URL
	u.Path, u.RawPath = path, strings.TrimRight(u.RawPath, "/")
	asked.URL = &u
	return &asked
}

// inspect reads the body of a call, if it is JSON, and fills in call. It returns the request to
// send, whose body is complete: without GetBody, a copy of the request with the bytes that were
// read in front of the rest. With an error, the body is closed.
func (t *Transport) inspect(call *Call, a Adapter, builtIn bool) (*http.Request, error) {
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
	decode := decoderOf(req.Header)
	if decode == nil {
		return req, nil
	}
	in := inspection{call: call, adapter: a, builtIn: builtIn, max: t.maxBody(), sniffing: form != jsonBody}
	in.scanner = jsonscan.New(in.value)
	defer in.scanner.Release()
	send, err := in.read(req, decode)
	if err != nil {
		return nil, fmt.Errorf("llmhttp: read request body: %w", err)
	}
	in.scanner.End()
	if builtIn && call.Model == "" {
		call.Model = in.names.other()
	}
	call.large = in.large || in.cut || in.size > in.max
	if t.CountAbove > 0 && len(req.Header["Content-Encoding"]) == 0 {
		call.body = send.GetBody
	}
	call.invalid = in.scanner.Invalid()
	if !in.stopped {
		call.Partial = in.cut || in.size > in.max
		if !call.Partial || call.BodySize < in.size { // it may be compressed
			call.BodySize = in.size
		}
	}
	call.PromptBytes = in.scanner.StringBytes() - in.mediaBytes
	return send, nil
}

// read reads a copy of the request's body, or the body itself where there is no copy. It returns
// the request to send. With an error, the body is closed.
func (in *inspection) read(req *http.Request, decode decoder) (send *http.Request, err error) {
	if req.GetBody != nil {
		if body, err := req.GetBody(); err == nil {
			defer body.Close()
			if err = in.readCopy(req, decode, body); err == nil {
				send, err = withFreshBody(req)
			}
			if err != nil {
				req.Body.Close()
			}
			return send, err
		}
	}
	held := holdBody(req.Context(), req.Body, in.max)
	defer held.release()
	if text, err := decode(held); err == nil {
		in.readText(text)
	}
	if held.err != nil {
		return nil, held.failed(req.Body)
	}
	in.cut = !held.whole && !in.stopped
	return held.request(req), nil
}

// readCopy reads a copy of a body. Where the part that is to be read names no model, it reads on:
// the SDKs for Go write the messages first, and nothing is kept of them.
func (in *inspection) readCopy(req *http.Request, decode decoder, body io.Reader) error {
	copied := &in.copied
	copied.Reader = body
	text, err := decode(copied)
	if err == nil {
		err = in.readText(text)
	}
	if err == nil && !in.stopped && in.namesNone() {
		in.large, in.max = true, math.MaxInt64-1
		in.readText(&contextReader{req.Context(), text})
	}
	if copied.err != nil {
		return copied.err
	}
	if in.large {
		return req.Context().Err()
	}
	return nil // what cannot be decoded is in another coding than it says
}

// namesNone reports whether a call has no model so far.
func (in *inspection) namesNone() bool {
	return in.adapter != nil && in.call.Model == "" && (!in.builtIn || in.names.other() == "")
}

// readText reads a text as far as it is JSON, and at most one byte more than max. At the end of the
// text it returns io.EOF.
func (in *inspection) readText(text io.Reader) error {
	buf := pieces.Buffers.Get().(*[pieces.Size]byte)
	defer pieces.Buffers.Put(buf)
	for !in.stopped && in.size <= in.max {
		n, err := text.Read(buf[:min(int64(len(buf)), in.max+1-in.size)])
		in.scan(buf[:n])
		in.size += int64(n)
		if err != nil {
			return err
		}
	}
	return nil
}

// scan reads the next piece of the body.
func (in *inspection) scan(p []byte) {
	for in.mark < len(byteOrderMark) && len(p) > 0 {
		if p[0] != byteOrderMark[in.mark] {
			in.stopped = in.mark > 0
			in.mark = len(byteOrderMark)
			break
		}
		p = p[1:]
		in.mark++
	}
	if in.sniffing {
		rest := trimSpace(p)
		if len(rest) == 0 {
			return
		}
		in.stopped = in.stopped || rest[0] != '{' && rest[0] != '['
		in.sniffing = false
	}
	if in.stopped {
		return
	}
	in.scanner.Feed(p)
	in.stopped = in.stopped || in.scanner.Invalid() || in.adapter == nil && in.scanner.Between()
}

// value passes a value of the body to the adapter, and counts media.
func (in *inspection) value(scanned jsonscan.Value) {
	v := valueOf(scanned)
	in.names.see(&v)
	if in.adapter == nil {
		in.stopped = in.stopped || in.names.model != ""
		return
	}
	if v.Kind == String && isMedia(&v) {
		in.call.Media++
		in.call.mediaTokens = clampTokens(int64(in.call.mediaTokens) + int64(media.Tokens(in.call.Adapter, v.Text, v.Size)))
		in.mediaBytes += v.Size
	}
	if v.Path != nil {
		in.adapter.Request(in.call, v)
	}
}

// names are the models that a body names.
type names struct {
	model  string // by the key model
	cased  string // by the key in other letters, such as Model, which servers in Go take for it
	listed string // the first one of models, as OpenRouter has them
	id     string // by model_id or modelId
}

// see notes a value of the body.
func (n *names) see(v *Value) {
	const longest = "model_id"
	if len(v.Path) < len("model") || len(v.Path) > len(longest) || v.Path[0]|0x20 != 'm' || v.Kind != String {
		return
	}
	switch key := v.Path; {
	case string(key) == "model":
		n.model = v.text()
	case string(key) == "models":
		if n.listed == "" {
			n.listed = v.text()
		}
	case bytes.EqualFold(key, []byte("model")):
		n.cased = v.text()
	case bytes.EqualFold(key, []byte("model_id")), bytes.EqualFold(key, []byte("modelId")):
		n.id = v.text()
	}
}

// other returns the model of a body that has no key model.
func (n *names) other() string {
	if n.cased != "" {
		return n.cased
	}
	return n.listed
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
