package llmhttp

import (
	"io"
	"sync"
)

const (
	// mostErrorBody is how many bytes of the body of an error are read.
	mostErrorBody = 64 << 10

	// mostEmptyReads is how often a body may read nothing, one time after the other.
	mostEmptyReads = 100
)

// rereadBody is a body the beginning of which was read and is there again.
type rereadBody struct {
	body io.ReadCloser

	mu   sync.Mutex // as a body may be closed while it is read
	head []byte     // what is still to be read again
	err  error      // what ended that; nil when body has more
}

// reread reads the beginning of a body and returns it, and the body with it still in front.
func reread(body io.ReadCloser) (head []byte, again *rereadBody) {
	again = &rereadBody{body: body}
	again.err = again.fill()
	return again.head, again
}

// fill reads the beginning of the body.
func (b *rereadBody) fill() error {
	buf := make([]byte, 0, 4<<10)
	defer func() { b.head = buf }()
	for empty := 0; len(buf) < mostErrorBody && empty < mostEmptyReads; empty++ {
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

// Read reads what was read before, and then the rest of the body.
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

// Close closes the body. What is read after that is for the body to say.
func (b *rereadBody) Close() error {
	b.mu.Lock()
	b.head, b.err = nil, nil
	b.mu.Unlock()
	return b.body.Close()
}
