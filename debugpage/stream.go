package debugpage

import (
	"bytes"
	"context"
	"net/http"
	"sync/atomic"
	"time"
)

const (
	// maxStreams is the most viewers at a time.
	maxStreams = 64
	// writeTimeout ends the stream of a viewer that does not read.
	writeTimeout = 10 * time.Second
	// heartbeat is the longest time without news.
	heartbeat = 10 * time.Second
)

// streamCount counts the streams.
type streamCount struct{ n atomic.Int64 }

func (c *streamCount) enter() bool {
	if c.n.Add(1) > maxStreams {
		c.leave()
		return false
	}
	return true
}

func (c *streamCount) leave() { c.n.Add(-1) }

// serveStream sends news as server-sent events until the client leaves or the server shuts down.
func (h *handler) serveStream(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	if r.Method == http.MethodHead {
		header.Set("Content-Type", "text/event-stream")
		return
	}
	if !h.streams.enter() {
		header.Set("Retry-After", "10")
		http.Error(w, "too many viewers", http.StatusServiceUnavailable)
		return
	}
	defer h.streams.leave()
	header.Set("Content-Type", "text/event-stream")
	header.Set("X-Accel-Buffering", "no") // nginx would collect the events
	v := &viewer{handler: h, out: http.NewResponseController(w), w: w}
	// The server's deadlines are for requests and answers that end. Not every writer has them.
	v.out.SetReadDeadline(time.Time{})
	v.out.SetWriteDeadline(time.Time{})
	if v.out.Flush() != nil {
		http.Error(w, "the connection cannot be flushed, so the page is not live here", http.StatusNotImplemented)
		return
	}
	last := r.Header.Get("Last-Event-ID")
	if last == "" {
		last = r.URL.Query().Get("stream")
	}
	v.seen = h.seen(last)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	if server, ok := r.Context().Value(http.ServerContextKey).(*http.Server); ok {
		defer context.AfterFunc(h.shutdowns.of(server), cancel)()
	}
	v.follow(ctx)
}

// viewer is one stream.
type viewer struct {
	handler *handler
	out     *http.ResponseController
	w       http.ResponseWriter
	seen    uint64    // the version that the page has
	told    time.Time // when it last got news
}

// follow sends the news of each snapshot. A viewer that reads slowly skips some.
func (v *viewer) follow(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		s, err := v.handler.board.look(ctx)
		if err != nil {
			return
		}
		if (s.version != v.seen || time.Since(v.told) >= heartbeat) && v.send(s) != nil {
			return
		}
		timer.Reset(time.Until(s.due()))
	}
}

// send sends the news of a snapshot within writeTimeout.
func (v *viewer) send(s *snapshot) error {
	var event bytes.Buffer
	event.WriteString("id: " + v.handler.version(s) + "\ndata: ")
	event.Write(newsOf(s, v.seen))
	event.WriteString("\n\n")
	v.out.SetWriteDeadline(time.Now().Add(writeTimeout))
	if _, err := v.w.Write(event.Bytes()); err != nil {
		return err
	}
	if err := v.out.Flush(); err != nil {
		return err
	}
	v.out.SetWriteDeadline(time.Time{})
	v.seen, v.told = s.version, time.Now()
	return nil
}
