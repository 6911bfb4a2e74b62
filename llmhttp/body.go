package llmhttp

import (
	"io"
	"net/http"
	"strings"
	"sync"
)

// bodyForm is the form of a request's body as its headers declare it.
type bodyForm byte

const (
	jsonBody    bodyForm = iota
	untypedBody          // the body may be JSON: its first byte shows it
	typedBody            // the same, though the headers name another type, which some servers ignore
	otherBody            // multipart and the like, which is not read
)

// requestForm returns the form of a body by the Content-Type of its request. A plain client names
// no type, or a default that says nothing about the body: that of curl -d, or of a fetch with a
// string.
func requestForm(h http.Header) bodyForm {
	contentType := h["Content-Type"]
	if len(contentType) == 0 {
		return untypedBody
	}
	mediaType, _, _ := strings.Cut(contentType[0], ";")
	switch mediaType = strings.ToLower(strings.TrimSpace(mediaType)); mediaType {
	case "application/json":
		return jsonBody
	case "", "application/x-www-form-urlencoded", "text/plain", "application/octet-stream":
		return untypedBody
	}
	for _, kind := range [...]string{"multipart/", "image/", "audio/", "video/", "application/grpc", "application/connect"} {
		if strings.HasPrefix(mediaType, kind) {
			return otherBody
		}
	}
	if strings.Contains(mediaType, "json") { // text/json, application/problem+json
		return jsonBody
	}
	return typedBody
}

// pieceSize is the size of the pieces in which a body is read and kept, in bytes. It is a size
// class of the allocator, so that a piece takes no more memory than it has bytes.
const pieceSize = 32 << 10

// readBuffers holds buffers for reading bodies.
var readBuffers = sync.Pool{New: func() any { return new([pieceSize]byte) }}

// pieces is the beginning of a body in pieces of pieceSize bytes and a shorter one. Unlike a buffer
// that grows it takes no more memory than the bytes that it keeps.
type pieces [][]byte

// add appends a copy of b.
func (p *pieces) add(b []byte) {
	if len(b) > 0 {
		*p = append(*p, append(make([]byte, 0, len(b)), b...))
	}
}

// reader returns a reader of all pieces. Several readers may be used at once.
func (p pieces) reader() io.Reader { return &piecesReader{rest: p} }

// piecesReader reads pieces, which it does not change.
type piecesReader struct {
	rest pieces
	at   int // bytes read of the first piece
}

// Read reads from the current piece.
func (r *piecesReader) Read(to []byte) (int, error) {
	if len(r.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(to, r.rest[0][r.at:])
	if r.at += n; r.at == len(r.rest[0]) {
		r.rest, r.at = r.rest[1:], 0
	}
	return n, nil
}

// joinedBody is a body of which a part was read and stands in front again. It closes as the body
// itself.
type joinedBody struct {
	io.Reader
	io.Closer
}
