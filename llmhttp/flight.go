package llmhttp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"dappco.re/go/core/go-ratelimit"
)

// flight is one try of a call, from its admission until it is settled.
type flight struct {
	transport   *Transport
	adapter     Adapter
	call        *Call
	name        string // under which the model is counted
	attempt     int
	hides       bool // the chunk with the usage is not for the caller
	reservation *ratelimit.Reservation
	charged     ratelimit.Usage
	began       time.Time            // of a retry, when the try before had failed; zero else
	counted     ratelimit.ModelStats // when it was sent, it included

	sent         time.Time
	model        *model
	older, newer *flight // of the model, while it has no answer; guarded by models.mu

	trace httptrace.ClientTrace
	left  atomic.Bool // a part of the request was sent

	body io.ReadCloser // of the answer

	mu      sync.Mutex
	stage   stage
	written bool         // the whole request was
	dated   bool         // the charge is where the provider counts it at the latest
	arrival setting      // when the charge is dated
	idle    setting      // when it is looked whether the answer is read
	unhook  func() bool  // from the end of the request's context
	inRead  atomic.Int32 // how many Reads of the body are on
	reads   int          // that have ended
	readWas int          // when that was last looked at
	watch   *stream
	usage   Usage
	status  int
	header  http.Header // of an answer that is a problem
	head    []byte      // the beginning of its body
	problem *Problem    // as it is known until now
	until   time.Time   // until when the model pauses for it
}

type stage byte

const (
	flying  stage = iota // there is no answer yet
	reading              // the headers are there
	settled
)

// roundTrip sends the request and makes ready to watch the answer. It settles the flight
// where there is nothing to watch.
func (f *flight) roundTrip(send *http.Request) (*http.Response, error) {
	t := f.transport
	base := t.roundTripper()
	f.sent = time.Now()
	t.models.depart(f)
	f.arrival.flight = f
	t.arrivals.set(&f.arrival)
	f.trace.WroteHeaders, f.trace.WroteRequest = f.wroteHeaders, f.wrote
	req := send.WithContext(httptrace.WithClientTrace(send.Context(), &f.trace))
	if _, known := base.(*http.Transport); !known {
		// http.Transport tells what it writes, and leaves headers alone. It would send the
		// headers of a body that it does not know in a packet of their own, which takes
		// half as long as the call.
		req.Header = send.Header.Clone()
		if send.Body != nil && send.Body != http.NoBody {
			req.Body = &sentBody{send.Body, f}
		}
	}
	returned := false
	defer func() {
		if !returned { // Base panicked
			f.land()
			f.finish(false)
		}
	}()
	resp, err := base.RoundTrip(req)
	returned = true
	f.land()
	if err == nil && resp == nil {
		err = errors.New("llmhttp: Base returned neither a response nor an error")
	}
	if err != nil {
		f.fail(err)
		return nil, err
	}
	resp.Request = f.call.Request
	f.answer(resp)
	return resp, nil
}

// land notes that there is an answer or will be none.
func (f *flight) land() {
	f.transport.models.land(f)
	f.arrive()
}

// sentBody notes that a request was begun to be sent.
type sentBody struct {
	io.ReadCloser
	flight *flight
}

func (b *sentBody) Read(p []byte) (int, error) {
	b.flight.left.Store(true)
	return b.ReadCloser.Read(p)
}

func (f *flight) wroteHeaders() { f.left.Store(true) }

// wrote is told when the request was written, more than once where http.Transport found
// a connection dead and took another.
func (f *flight) wrote(info httptrace.WroteRequestInfo) {
	f.left.Store(true)
	f.mu.Lock()
	defer f.mu.Unlock()
	if info.Err == nil && f.stage == flying {
		f.written, f.dated = true, false
		f.transport.arrivals.set(&f.arrival)
	}
}

// date moves the charge to now while there is no answer.
func (f *flight) date() {
	f.mu.Lock()
	flies := f.stage == flying
	f.dated = f.dated || flies
	f.mu.Unlock()
	if flies {
		f.reservation.Arrived(time.Now())
	}
}

// look settles the flight when nobody has read the answer since the last look.
func (f *flight) look() {
	f.mu.Lock()
	idle := f.reads == f.readWas && f.inRead.Load() == 0
	f.readWas = f.reads
	if !idle && f.stage == reading {
		f.transport.idles.set(&f.idle)
	}
	f.mu.Unlock()
	if idle {
		f.finish(false)
	}
}

// arrive dates the charge when there is an answer or will be none, if it came
// before the timer. A Base that does not tell when it wrote the request may have done so
// after it.
func (f *flight) arrive() {
	f.mu.Lock()
	f.transport.arrivals.clear(&f.arrival)
	f.stage = reading
	late := f.dated && f.written
	f.mu.Unlock()
	if !late && f.left.Load() {
		f.reservation.Arrived(time.Now())
	}
}

// fail settles a flight without an answer.
func (f *flight) fail(err error) {
	f.mu.Lock()
	f.stage = settled
	f.mu.Unlock()
	e := Event{Kind: EventSettled, Err: quiet(err)}
	if f.left.Load() {
		f.reservation.Commit(f.charged.PromptTokens, f.charged.OutputTokens)
		e.Settled, e.Source = f.charged, SourceEstimate
	} else {
		f.reservation.Cancel()
		e.Source = SourceUnsent
	}
	f.transport.report(f, e)
}

// answer looks at the headers of an answer and makes its body tell what it reads.
func (f *flight) answer(resp *http.Response) {
	t := f.transport
	f.status = resp.StatusCode
	t.report(f, Event{Kind: EventAnswered, Status: f.status})
	// What kind of problem it is says whether others should go on calling, so a body
	// that is all there, or nearly, is looked at first.
	small := f.status >= 400 && resp.Body != nil && 0 < resp.ContentLength && resp.ContentLength <= mostErrorBody
	f.listen(resp.Header, small)
	if resp.StatusCode == http.StatusSwitchingProtocols {
		f.finish(false) // its body is a connection, which is none of our business
		return
	}
	if f.status < 300 && !encoded(resp.Header) {
		f.watch = newStream(f.adapter.Marks(), f.tell)
	}
	hides := f.hides && f.watch != nil && !isJSON(resp.Header)
	if resp.Body == nil || resp.Body == http.NoBody {
		f.finish(true)
		return
	}
	f.mu.Lock()
	f.idle.flight = f
	t.idles.set(&f.idle)
	if ctx := f.call.Request.Context(); ctx.Done() != nil {
		f.unhook = context.AfterFunc(ctx, func() { f.finish(false) })
	}
	f.mu.Unlock()
	f.body = resp.Body
	resp.Body = (*watchedBody)(f)
	if small {
		_, resp.Body = reread(resp.Body) // which see looks at
	}
	if hides {
		resp.ContentLength = -1
		resp.Header.Del("Content-Length")
		resp.Body = newHidingBody(resp.Body)
	}
}

// encoded reports whether a body is compressed: http.Transport did not ask for that, the caller did.
func encoded(h http.Header) bool {
	e := h.Get("Content-Encoding")
	return e != "" && !strings.EqualFold(e, "identity")
}

func isJSON(h http.Header) bool {
	return strings.HasPrefix(strings.ToLower(h.Get("Content-Type")), "application/json")
}

func (f *flight) tell(v Value) {
	if v.Path != nil {
		f.adapter.Response(f.call, &f.usage, v)
	}
}

// watchedBody is the body of an answer whose flight looks on.
type watchedBody flight

func (b *watchedBody) Read(p []byte) (int, error) {
	b.inRead.Add(1)
	n, err := b.body.Read(p)
	b.inRead.Add(-1)
	(*flight)(b).see(p[:n], err)
	return n, err
}

func (b *watchedBody) Close() error {
	(*flight)(b).finish(false)
	return b.body.Close()
}

// see looks at what was read of the body.
func (f *flight) see(p []byte, err error) {
	f.mu.Lock()
	f.reads++
	if f.stage == reading {
		switch {
		case f.watch != nil:
			f.watch.feed(p)
		case f.header != nil:
			f.head = append(f.head, p[:min(len(p), mostErrorBody-len(f.head))]...)
		}
	}
	f.mu.Unlock()
	if err != nil {
		f.finish(err == io.EOF)
	}
}
