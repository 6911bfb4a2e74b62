package llmhttp

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"strings"

	"dappco.re/go/core/go-ratelimit/internal/pieces"
)

// The codings of a body, as far as its flight can read them.
type coding byte

const (
	plain coding = iota
	gzipped
	unreadable
)

// codingOf returns the coding of a body. An http.Transport that asks for gzip by itself decodes it,
// so the caller asked for what is left.
func codingOf(h http.Header) coding {
	switch strings.ToLower(strings.Join(h["Content-Encoding"], ",")) {
	case "", "identity":
		return plain
	case "gzip", "x-gzip":
		return gzipped
	}
	return unreadable
}

// readableEncodings returns the part of an Accept-Encoding header that asks for answers that a
// flight can read: gzip with its weight, or none.
func readableEncodings(accept []string) string {
	for coding := range strings.SplitSeq(strings.Join(accept, ","), ",") {
		name, weight, _ := strings.Cut(coding, ";")
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "gzip", "x-gzip":
			_, weight, _ = strings.Cut(weight, "=")
			if strings.Trim(weight, " 0.") != "" || strings.TrimSpace(weight) == "" {
				return strings.TrimSpace(coding)
			}
		}
	}
	return "identity"
}

// withReadableEncodings removes the codings that a flight cannot read from the Accept-Encoding of
// a request, unless it is signed with the request. It returns the request to send, whose headers
// are a copy where they differ.
func withReadableEncodings(req *http.Request) *http.Request {
	accept := req.Header["Accept-Encoding"]
	if len(accept) == 0 || signs(req, "accept-encoding") {
		return req
	}
	readable := readableEncodings(accept)
	if len(accept) == 1 && accept[0] == readable {
		return req
	}
	send := req.WithContext(req.Context())
	send.Header = req.Header.Clone()
	send.Header["Accept-Encoding"] = []string{readable}
	return send
}

// unzipper decodes a body that comes in pieces. A goroutine of its own reads on as far as the
// pieces go; it runs only while feed or end wait for it, and end stops it. A coroutine of package
// iter would end the program where the body is read on a goroutine that is locked to its thread.
type unzipper struct {
	emit  func([]byte)
	piece []byte        // what is left of the piece that is decoded
	out   chan []byte   // what was decoded; nil where another piece is needed, or at the end
	more  chan struct{} // lets the goroutine go on
	began bool
	last  bool  // no piece follows
	ended bool  // the goroutine has
	err   error // that ended the decoding: io.EOF at the end of the body, or where it was cut off
}

// newUnzipper returns an unzipper that passes what it decodes to emit. Its end method must be
// called.
func newUnzipper(emit func([]byte)) *unzipper {
	return &unzipper{emit: emit, out: make(chan []byte), more: make(chan struct{})}
}

// run is the goroutine.
func (u *unzipper) run() {
	u.err = u.decode()
	u.ended = true
	u.out <- nil
}

func (u *unzipper) decode() error {
	r, err := gzip.NewReader((*unzipperInput)(u))
	if err != nil {
		return err
	}
	buf := pieces.Buffers.Get().(*[pieces.Size]byte)
	defer pieces.Buffers.Put(buf)
	for {
		n, err := r.Read(buf[:])
		if n > 0 {
			u.out <- buf[:n]
			<-u.more // buf was read
		}
		if err != nil {
			return err
		}
	}
}

// feed decodes the next piece of the body.
func (u *unzipper) feed(p []byte) {
	if len(p) == 0 || u.ended {
		return
	}
	u.piece = p
	defer func() { u.piece = nil }() // also if emit panics
	if u.began {
		u.more <- struct{}{}
	} else {
		u.began = true
		go u.run()
	}
	u.pass()
}

// pass emits what the goroutine decodes until that waits for another piece, or ends.
func (u *unzipper) pass() {
	for decoded := <-u.out; decoded != nil; decoded = <-u.out {
		u.emit(decoded)
		u.more <- struct{}{}
	}
}

// end decodes what is left. It returns false if the body was not in the format.
func (u *unzipper) end() bool {
	if u.began && !u.ended {
		u.last = true
		u.more <- struct{}{}
		u.pass()
	}
	return u.err == nil || u.err == io.EOF || u.err == io.ErrUnexpectedEOF
}

// unzipperInput is an unzipper as the reader of its pieces.
type unzipperInput unzipper

// Read reads the current piece, and waits for the next one.
func (u *unzipperInput) Read(p []byte) (int, error) {
	for len(u.piece) == 0 {
		if u.last {
			return 0, io.EOF
		}
		u.out <- nil
		<-u.more
	}
	n := copy(p, u.piece)
	u.piece = u.piece[n:]
	return n, nil
}

// unzipped returns the beginning of a body that is compressed, decoded; at most maxErrorBody bytes.
func unzipped(h http.Header, body []byte) []byte {
	if codingOf(h) != gzipped || len(body) == 0 {
		return body
	}
	r, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return body
	}
	decoded, _ := io.ReadAll(io.LimitReader(r, maxErrorBody)) // as far as it goes
	return decoded
}
