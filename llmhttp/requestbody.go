package llmhttp

import (
	"compress/gzip"
	"compress/zlib"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/pieces"
)

// decoder returns the text of a body.
type decoder func(io.Reader) (io.Reader, error)

// decoderOf returns the decoder for the Content-Encoding of a request; nil for an encoding that
// cannot be read.
func decoderOf(h http.Header) decoder {
	switch strings.ToLower(strings.Join(h["Content-Encoding"], ",")) {
	case "", "identity":
		return func(r io.Reader) (io.Reader, error) { return r, nil }
	case "gzip", "x-gzip":
		return func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) }
	case "deflate":
		return func(r io.Reader) (io.Reader, error) { return zlib.NewReader(r) }
	}
	return nil
}

// failingReader keeps the error of its reader, other than io.EOF.
type failingReader struct {
	io.Reader
	err error
}

// Read reads from the reader.
func (r *failingReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != io.EOF { // only as it is: an error that wraps it is a failure
		r.err = err
	}
	return n, err
}

// contextReader reads as long as a context lasts.
type contextReader struct {
	ctx context.Context
	io.Reader
}

// Read reads from the reader.
func (r *contextReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}

// errHeldEnough ends the reading of a heldBody.
var errHeldEnough = errors.New("enough of the body was read")

// heldBody reads a body that cannot be read again, and holds what it read. It returns when the
// context ends, also from a Read of the body that blocks: that one ends in its own time, as it does
// within an http.Transport.
type heldBody struct {
	ctx  context.Context
	body io.Reader
	max  int64 // bytes to hold; one more shows that the body is larger

	buf   *[pieces.Size]byte
	n     int         // bytes in buf, which are not in full yet
	full  pieces.List // what was read before buf
	size  int64
	whole bool  // the body was read to its end
	err   error // that ended the reading, other than the end of the body

	asks    chan []byte // to the goroutine that reads; nil before the first Read
	got     chan readResult
	deserts bool // the goroutine is in a Read of the body, and has buf
}

type readResult struct {
	n   int
	err error
}

func holdBody(ctx context.Context, body io.Reader, most int64) *heldBody {
	return &heldBody{ctx: ctx, body: body, max: most, buf: pieces.Buffers.Get().(*[pieces.Size]byte)}
}

// Read reads from the body, and holds what it returns.
func (b *heldBody) Read(p []byte) (int, error) {
	switch {
	case b.err != nil:
		return 0, b.err
	case b.whole:
		return 0, io.EOF
	case b.size > b.max:
		return 0, errHeldEnough
	}
	if b.n == len(b.buf) {
		b.full.Add(b.buf[:])
		b.n = 0
	}
	to := b.buf[b.n:]
	to = to[:min(int64(len(to)), int64(len(p)), b.max+1-b.size)]
	n, err := b.read(to)
	copy(p, to[:n])
	b.n += n
	b.size += int64(n)
	if b.whole = err == io.EOF; !b.whole { // only as it is: an error that wraps it is a failure
		b.err = err
	}
	return n, err
}

// read reads from the body until the context ends.
func (b *heldBody) read(to []byte) (int, error) {
	if b.ctx.Done() == nil {
		return b.body.Read(to)
	}
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	if b.asks == nil {
		b.asks, b.got = make(chan []byte), make(chan readResult, 1)
		go readFor(b.body, b.asks, b.got)
	}
	b.asks <- to
	select {
	case r := <-b.got:
		return r.n, r.err
	case <-b.ctx.Done():
		b.deserts = true
		return 0, b.ctx.Err()
	}
}

// readFor reads from a body what is asked for, until asks is closed.
func readFor(body io.Reader, asks <-chan []byte, got chan<- readResult) {
	for to := range asks {
		n, err := body.Read(to)
		got <- readResult{n, err}
	}
}

// held returns what was read.
func (b *heldBody) held() pieces.List {
	b.full.Add(b.buf[:b.n])
	b.n = 0
	return b.full
}

// request returns a copy of a request whose body begins with what was read. It has a GetBody where
// that is all.
func (b *heldBody) request(req *http.Request) *http.Request {
	send := req.WithContext(req.Context())
	head := b.held()
	if !b.whole {
		send.Body = &joinedBody{io.MultiReader(head.Reader(), req.Body), req.Body}
		return send
	}
	send.Body = &joinedBody{head.Reader(), req.Body}
	send.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(head.Reader()), nil }
	return send
}

// closeGrace is how long a call whose context ended waits for its body to close.
const closeGrace = 10 * time.Millisecond

// failed closes the body of a request that is not sent, and returns the error that ended the
// reading. A body that is in a Read may close no sooner than that ends, as the one of an incoming
// request does, so the call does not wait for it.
func (b *heldBody) failed(body io.Closer) error {
	if !b.deserts {
		body.Close()
		return b.err
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		body.Close()
	}()
	select {
	case <-closed:
	case <-time.After(closeGrace):
	}
	return b.err
}

// release ends the reading.
func (b *heldBody) release() {
	if b.asks != nil {
		close(b.asks)
	}
	if !b.deserts {
		pieces.Buffers.Put(b.buf)
	}
}
