package proxy

import (
	"bufio"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// writer is the way to a client: it adds no header to what the upstream answered, gives up on who
// does not read, and may begin the answer before the upstream does.
type writer struct {
	http.ResponseWriter
	control *http.ResponseController
	within  time.Duration // that a write may take

	mu      sync.Mutex // guards what a heartbeat shares with the answer
	status  int        // zero before the answer
	beating bool       // the answer began with comments
}

func newWriter(w http.ResponseWriter, within time.Duration) *writer {
	return &writer{ResponseWriter: w, control: http.NewResponseController(w), within: within}
}

// Unwrap is for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// readWithin bounds the next read of the request's body; zero removes the bound.
func (w *writer) readWithin(d time.Duration) {
	var at time.Time
	if d > 0 {
		at = time.Now().Add(d)
	}
	w.control.SetReadDeadline(at) //nolint:errcheck // a writer without one, as in a test
}

// writeWithin bounds the writes until the function that it returns is called. A bound that stayed
// would end a stream that pauses, though its client reads.
func (w *writer) writeWithin() (done func()) {
	w.bound()
	return func() { w.control.SetWriteDeadline(time.Time{}) } //nolint:errcheck // as above
}

// finish is for what the server writes behind the handler: the trailers, and the end.
func (w *writer) finish() {
	makePrivate(w.Header())
	w.bound()
}

func (w *writer) bound() {
	w.control.SetWriteDeadline(time.Now().Add(w.within)) //nolint:errcheck // as above
}

// WriteHeader writes the head of the answer. After a heartbeat that is written already.
func (w *writer) WriteHeader(status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.beating {
		return
	}
	makePrivate(w.Header())
	if status >= http.StatusOK || status == http.StatusSwitchingProtocols {
		w.status = status
		w.keepOut()
	}
	defer w.writeWithin()()
	w.ResponseWriter.WriteHeader(status)
}

// makePrivate removes what would let web pages of elsewhere read an answer.
func makePrivate(h http.Header) {
	for name := range h {
		if strings.HasPrefix(strings.TrimPrefix(name, http.TrailerPrefix), "Access-Control-") {
			delete(h, name)
		}
	}
}

// keepOut keeps what the server would add out of the answer.
func (w *writer) keepOut() {
	h := w.Header()
	for _, added := range [...]string{"Content-Type", "Date"} {
		if _, ok := h[added]; !ok {
			h[added] = nil
		}
	}
}

// Write writes a part of the answer.
func (w *writer) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	defer w.writeWithin()()
	return w.ResponseWriter.Write(b)
}

// FlushError sends what was written.
func (w *writer) FlushError() error {
	defer w.writeWithin()()
	return w.control.Flush()
}

// Hijack gives the connection to an upgrade.
func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, both, err := w.control.Hijack()
	if err != nil {
		return nil, nil, err
	}
	w.status = http.StatusSwitchingProtocols
	return upgraded{conn, w.within}, both, nil
}

// upgraded is a connection that gives up on who does not read.
type upgraded struct {
	net.Conn
	within time.Duration // that a write may take
}

// Write writes to the client.
func (u upgraded) Write(b []byte) (int, error) {
	if err := u.SetWriteDeadline(time.Now().Add(u.within)); err != nil {
		return 0, err
	}
	return u.Conn.Write(b)
}

// comment is an event of a stream that says nothing.
const comment = ": waiting for quota\n\n"

// beat writes a comment, and before the first one the head of a stream.
func (w *writer) beat() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.status != 0 && !w.beating {
		return nil
	}
	defer w.writeWithin()()
	if !w.beating {
		w.beating, w.status = true, http.StatusOK
		w.keepOut()
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Cache-Control", "no-cache")
		w.ResponseWriter.WriteHeader(http.StatusOK)
	}
	if _, err := w.ResponseWriter.Write([]byte(comment)); err != nil {
		return err
	}
	return w.control.Flush()
}

// hasBegun reports whether a heartbeat has begun the answer.
func (w *writer) hasBegun() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.beating
}
