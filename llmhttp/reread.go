package llmhttp

import (
	"io"
	"sync"
)

const (
	// maxErrorBody bounds the bytes that are read of an error's body.
	maxErrorBody = 64 << 10

	// maxEmptyReads bounds the Reads in a row that return nothing.
	maxEmptyReads = 100
)

// rereadBody is a body whose beginning was read and can be read again.
type rereadBody struct {
	body io.ReadCloser

	mu   sync.Mutex // a body may be closed while it is read
	head []byte     // to be read again
	err  error      // that ended the first reading; nil if body has more
}

// reread reads the beginning of a body. It returns the beginning, and the body with the beginning
// still in front.
func reread(body io.ReadCloser) (head []byte, again *rereadBody) {
	again = &rereadBody{body: body}
	again.err = again.fill()
	return again.head, again
}

// fill reads the beginning of the body, and returns the error that ended it early.
func (b *rereadBody) fill() error {
	buf := make([]byte, 0, 4<<10)
	defer func() { b.head = buf }()
	for empty := 0; len(buf) < maxErrorBody && empty < maxEmptyReads; empty++ {
		if len(buf) == cap(buf) {
			buf = append(make([]byte, 0, 2*cap(buf)), buf...)
		}
		n, err := b.body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if err != nil {
			return err
		}
		if n > 0 {
			empty = 0
		}
	}
	return nil
}

// Read reads the beginning again, and then the rest of the body.
func (b *rereadBody) Read(to []byte) (int, error) {
	b.mu.Lock()
	if len(b.head) > 0 {
		defer b.mu.Unlock()
		n := copy(to, b.head)
		b.head = b.head[n:]
		return n, nil
	}
	err := b.err
	b.mu.Unlock()
	if err != nil {
		return 0, err
	}
	return b.body.Read(to)
}

// Close closes the body. Reads after that go to the body alone.
func (b *rereadBody) Close() error {
	b.mu.Lock()
	b.head, b.err = nil, nil
	b.mu.Unlock()
	return b.body.Close()
}
