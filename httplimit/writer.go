package httplimit

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
)

// watched is a response writer that notes what becomes of the response. The next handler gets it
// by writer.
type watched struct {
	under    http.ResponseWriter
	request  context.Context // of the request
	status   int             // that was sent; 0 before
	failed   bool            // status is 400 or more, and was sent while the client was there
	hijacked bool
	reads    bool // the body is read for its usage
	reader   usageReader
}

// writer returns the writer for the next handler. It has those of the optional interfaces that the
// writer under it has.
func (w *watched) writer() http.ResponseWriter {
	_, flushes := w.under.(http.Flusher)
	_, hijacks := w.under.(http.Hijacker)
	_, pushes := w.under.(http.Pusher)
	switch f, h, p := (flusher{w}), (hijacker{w}), (pusher{w}); {
	case flushes && hijacks && pushes:
		return struct {
			*watched
			flusher
			hijacker
			pusher
		}{w, f, h, p}
	case flushes && hijacks: // HTTP/1
		return struct {
			*watched
			flusher
			hijacker
		}{w, f, h}
	case flushes && pushes: // HTTP/2
		return struct {
			*watched
			flusher
			pusher
		}{w, f, p}
	case hijacks && pushes:
		return struct {
			*watched
			hijacker
			pusher
		}{w, h, p}
	case flushes:
		return struct {
			*watched
			flusher
		}{w, f}
	case hijacks:
		return struct {
			*watched
			hijacker
		}{w, h}
	case pushes:
		return struct {
			*watched
			pusher
		}{w, p}
	}
	return w
}

// Unwrap returns the writer under this one, for http.ResponseController.
func (w *watched) Unwrap() http.ResponseWriter { return w.under }

// Header returns the header of the response.
func (w *watched) Header() http.Header { return w.under.Header() }

// WriteHeader sends the status.
func (w *watched) WriteHeader(status int) {
	if status >= 200 || status == http.StatusSwitchingProtocols {
		w.begin(status)
	}
	w.under.WriteHeader(status)
}

// begin notes the final status, of which the first one counts.
func (w *watched) begin(status int) {
	if w.status != 0 {
		return
	}
	w.status = status
	w.failed = status >= 400 && w.request.Err() == nil
	if w.reads = mayReportUsage(w.under.Header()); w.reads {
		w.reader.open()
	}
}

// Write writes a piece of the body, and reads the usage in it.
func (w *watched) Write(p []byte) (int, error) {
	w.begin(http.StatusOK)
	n, err := w.under.Write(p)
	if w.reads {
		w.reader.feed(p) // also what the client did not get
	}
	return n, err
}

// WriteString writes a piece of the body.
func (w *watched) WriteString(s string) (int, error) {
	w.begin(http.StatusOK)
	if !w.reads {
		return io.WriteString(w.under, s)
	}
	return w.Write([]byte(s))
}

// ReadFrom writes all that src has. A body in which no usage can be is left to the writer under
// this one, which may hand it to the operating system as a whole.
func (w *watched) ReadFrom(src io.Reader) (int64, error) {
	if w.reads || w.status == 0 && mayReportUsage(w.under.Header()) {
		src = io.TeeReader(src, passing{w})
	}
	n, err := io.Copy(w.under, src)
	if n > 0 {
		w.begin(http.StatusOK)
	}
	return n, err
}

// passing reads the usage in what passes to a writer.
type passing struct{ to *watched }

// Write reads the usage in a piece of the body.
func (p passing) Write(piece []byte) (int, error) {
	p.to.begin(http.StatusOK)
	p.to.reader.feed(piece)
	return len(piece), nil
}

// flusher, hijacker and pusher are the optional methods of a watched writer.
type (
	flusher  struct{ w *watched }
	hijacker struct{ w *watched }
	pusher   struct{ w *watched }
)

// Flush sends what was written.
func (f flusher) Flush() { f.FlushError() }

// FlushError sends what was written, and returns the error of that.
func (f flusher) FlushError() error {
	f.w.begin(http.StatusOK)
	return http.NewResponseController(f.w.under).Flush()
}

// Hijack lets the handler take the connection over.
func (h hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffer, err := h.w.under.(http.Hijacker).Hijack()
	h.w.hijacked = h.w.hijacked || err == nil
	return conn, buffer, err
}

// Push pushes a resource over HTTP/2.
func (p pusher) Push(target string, options *http.PushOptions) error {
	return p.w.under.(http.Pusher).Push(target, options)
}
