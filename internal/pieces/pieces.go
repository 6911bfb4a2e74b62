// Package pieces keeps bodies in pieces. Unlike a buffer that grows, a List takes no more memory
// than the bytes that it keeps.
package pieces

import (
	"io"
	"sync"
)

// Size is the size of the pieces in which a body is read and kept, in bytes. It is a size class of
// the allocator, so that a piece takes no more memory than it has bytes.
const Size = 32 << 10

// Buffers holds buffers for reading bodies, each a *[Size]byte.
var Buffers = sync.Pool{New: func() any { return new([Size]byte) }}

// List is bytes in pieces of Size bytes and a shorter one. Its zero value is empty.
type List [][]byte

// Add appends a copy of b.
func (l *List) Add(b []byte) {
	if len(b) > 0 {
		*l = append(*l, append(make([]byte, 0, len(b)), b...))
	}
}

// Reader returns a reader of all pieces. Several readers may be used at once.
func (l List) Reader() io.Reader { return &reader{rest: l} }

// reader reads pieces, which it does not change.
type reader struct {
	rest List
	at   int // bytes read of the first piece
}

// Read reads from the current piece.
func (r *reader) Read(to []byte) (int, error) {
	if len(r.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(to, r.rest[0][r.at:])
	if r.at += n; r.at == len(r.rest[0]) {
		r.rest, r.at = r.rest[1:], 0
	}
	return n, nil
}
