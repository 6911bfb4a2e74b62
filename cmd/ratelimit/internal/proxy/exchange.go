package proxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/pieces"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// exchange is one request and its answer.
type exchange struct {
	proxy    *Proxy
	upstream *Upstream
	writer   *writer
	rest     string // the path at the upstream, as it was sent
	key      string // that the upstream gets, for the name of its account; empty for none
	room     place
	why      string // the proxy itself answered, for the log
	body     heldBody
	stop     context.CancelCauseFunc

	// What the Transport found out, on another goroutine with a heartbeat.
	model atomic.Pointer[string] // the counted name; nil for a request that is no call
	beats atomic.Bool            // comments may be sent while the call waits
}

type exchangeKey struct{}

// exchangeOf returns the exchange that a context belongs to; nil for none.
func exchangeOf(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return x
}

// beating are the adapters whose streams are server-sent events and whose clients pass over
// comments. Those of Gemini fail on them.
var beating = map[string]bool{"openai": true, "anthropic": true, "mistral": true, "cohere": true}

// nameOf is llmhttp.Transport.Model: it names what a call is counted under.
func nameOf(call *llmhttp.Call) string {
	x := exchangeOf(call.Request.Context())
	if x == nil || call.Model == "" {
		return call.Model
	}
	name := x.proxy.counted(x, call.Model)
	x.beats.Store(call.Stream && beating[call.Adapter])
	x.model.Store(&name)
	return name
}

// HandleEvent is ratelimit.Config.Events: it learns which calls stand in line.
func (p *Proxy) HandleEvent(ctx context.Context, e *ratelimit.Event) {
	if e.Kind == ratelimit.EventQuotaChanged && e.By == "process" {
		p.tellQuota(e)
		return
	}
	if e.Kind != ratelimit.EventQueued {
		return
	}
	if x := exchangeOf(ctx); x != nil && !x.room.enter(e.Decision) {
		x.stop(errNoRoom)
	}
}

// read reads the body of a request as a whole: so a client that goes away is noticed while the call
// waits, and the call can be sent again.
func (x *exchange) read(r *http.Request) (pieces.List, *fault, error) {
	if r.ContentLength > maxBody {
		return nil, tooLarge, nil
	}
	var body pieces.List
	size := int64(0)
	buf := pieces.Buffers.Get().(*[pieces.Size]byte)
	defer pieces.Buffers.Put(buf)
	for {
		x.writer.readWithin(x.proxy.IdleTimeout)
		n, err := io.ReadFull(r.Body, buf[:])
		if size += int64(n); size > maxBody {
			return nil, tooLarge, nil
		}
		if !x.room.hold(n) {
			return nil, nil, errNoRoom
		}
		body.Add(buf[:n])
		switch err {
		case nil:
		case io.EOF, io.ErrUnexpectedEOF:
			if err == io.ErrUnexpectedEOF && r.ContentLength > 0 && size < r.ContentLength {
				return nil, nil, err
			}
			x.writer.readWithin(0)
			return body, nil, nil
		default:
			return nil, nil, err
		}
	}
}

const maxBody = 32 << 20

var tooLarge = &fault{http.StatusRequestEntityTooLarge, "the body has more than 32 MiB"}

// isFraming are the trailers that no request may have.
var isFraming = map[string]bool{"Content-Length": true, "Transfer-Encoding": true, "Trailer": true}

// heldBody is a body that was read. It is there until the answer begins, which a stream may outlive
// by far.
type heldBody struct{ list atomic.Pointer[pieces.List] }

// open is http.Request.GetBody.
func (h *heldBody) open() (io.ReadCloser, error) {
	list := h.list.Load()
	if list == nil {
		return nil, errAnswered
	}
	return io.NopCloser(&bodyReader{from: list.Reader()}), nil
}

var errAnswered = errors.New("the body was given up when the answer began")

// bodyReader reads a body, and holds nothing of it behind its end.
type bodyReader struct {
	held *heldBody
	from io.Reader // nil before the first Read, if it is to hold nothing until then
}

// Read reads from the body.
func (b *bodyReader) Read(to []byte) (int, error) {
	if b.from == nil {
		list := b.held.list.Load()
		if list == nil {
			return 0, errAnswered
		}
		b.from = list.Reader()
	}
	n, err := b.from.Read(to)
	if err == io.EOF {
		b.from = http.NoBody
	}
	return n, err
}

// withHeld returns a request with a body that was read.
func (x *exchange) withHeld(r *http.Request, body pieces.List) *http.Request {
	size := int64(0)
	for _, piece := range body {
		size += int64(len(piece))
	}
	for name := range r.Trailer {
		if isFraming[name] || strings.HasPrefix(name, ownHeader) {
			delete(r.Trailer, name)
		}
	}
	r.ContentLength, r.TransferEncoding = size, nil
	if len(r.Trailer) > 0 {
		r.ContentLength = -1 // trailers go behind chunks
	}
	if size == 0 && len(r.Trailer) == 0 {
		r.Body, r.GetBody = http.NoBody, nil
		return r
	}
	x.body.list.Store(&body)
	r.GetBody, r.Body = x.body.open, io.NopCloser(&bodyReader{held: &x.body}) // the first of which is sent for calls
	return r
}

// refuse answers a request in place of its upstream.
func (x *exchange) refuse(r *http.Request, why *fault) {
	closeBehind(x.writer, r)
	x.writer.readWithin(x.proxy.IdleTimeout) // what the server reads then
	write(x.writer, x.fault(r, why.status, why.text))
}

// line tells the log of a request that is over.
func (x *exchange) line(r *http.Request, began time.Time) {
	attributes := []any{"method", r.Method, "path", clipped(r.URL.Path), "status", x.writer.status, "took", time.Since(began).Round(time.Millisecond)}
	if model := x.model.Load(); model != nil {
		attributes = append(attributes, "model", *model)
	}
	if x.why != "" {
		attributes = append(attributes, "refused", x.why)
	}
	x.proxy.Log.Info("call", attributes...)
}

// maxLogged is how much of a path is logged, in bytes.
const maxLogged = 200

func clipped(path string) string {
	if len(path) > maxLogged {
		return strings.ToValidUTF8(path[:maxLogged], "") + "…"
	}
	return path
}
