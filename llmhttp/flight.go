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
	"dappco.re/go/core/go-ratelimit/internal/notice"
)

// flight is one try of a call, from its admission until it is settled.
type flight struct {
	transport    *Transport
	adapter      Adapter
	call         *Call
	ctx          notice.CallContext // that the limiter's events get, with the ID of the call
	name         string             // that the limiter is asked for
	countedAs    string             // the name under which it counts that; empty without OnEvent
	routed       *routed            // nil without a Route
	attempt      int                // tries before this one
	hidesUsage   bool               // the caller did not ask for the chunk with the usage
	signedUntil  time.Time          // when the signature of the request is too old; zero without one
	reservation  *ratelimit.Reservation
	together     ratelimit.Reservations // all of the try, the model's first; nil without charges
	charges      []ratelimit.Request    // beside the model's, see WithCharge
	estimated    ratelimit.Usage        // before it was cut to the quota
	charged      ratelimit.Usage
	billedOutput int                  // what the call may cost beyond charged: ratelimit.Request.BilledOutput
	uncorrected  int                  // the estimate of the prompt before correction; 0 where that is not of its text
	began        time.Time            // of a retry, when the previous try failed; else zero
	waited       time.Duration        // for its place, and while earlier tries were under way
	counted      ratelimit.ModelStats // at the time of sending, this call included

	sent         time.Time
	model        *model
	older, newer *flight // of the model, while there is no answer; guarded by models.mu

	trace httptrace.ClientTrace
	left  atomic.Bool // a part of the request was sent

	body io.ReadCloser // of the answer

	mu          sync.Mutex // guards the fields below
	stage       stage
	written     bool        // the whole request was written
	dated       bool        // the charge has the latest date at which the provider counts it
	arrival     timeout     // dates the charge
	idle        timeout     // checks whether the answer is still read
	stopContext func() bool // cancels the callback at the end of the request's context
	reads       int         // Reads of the body that have ended
	lastReads   int         // reads at the last check
	stream      *stream
	unread      bool // the answer is in a coding that cannot be read
	usage       Usage
	status      int
	header      http.Header // of an answer that is a problem
	errorBody   []byte      // the beginning of its body
	problem     *Problem    // as far as it is known
	fault       *Problem    // that the stream of the answer reported
	pausedUntil time.Time   // the end of the model's pause because of it

	activeReads atomic.Int32 // Reads of the body that are running
}

type stage byte

const (
	waiting  stage = iota // for an answer
	answered              // the headers have arrived
	settled
)

// roundTrip sends the request and prepares to watch the answer. It settles the flight if there is
// nothing to watch.
func (f *flight) roundTrip(send *http.Request) (*http.Response, error) {
	t := f.transport
	base := t.roundTripper()
	f.sent = time.Now()
	t.models.depart(f)
	f.arrival.flight = f
	t.arrivals.start(&f.arrival)
	f.trace.WroteHeaders, f.trace.WroteRequest = f.wroteHeaders, f.wroteRequest
	req := withReadableEncodings(send).WithContext(httptrace.WithClientTrace(send.Context(), &f.trace))
	if f.routed != nil {
		f.routed.way.address(req, f.routed.backend)
	}
	if _, known := base.(*http.Transport); !known {
		// An http.Transport traces its writing and leaves headers alone, so it gets the body as it
		// is: with one of an unknown type it would send the headers in a packet of their own,
		// which takes half as long as the whole call.
		req.Header = req.Header.Clone()
		if send.Body != nil && send.Body != http.NoBody {
			req.Body = &sentBody{send.Body, f}
		}
	}
	returned := false
	defer func() {
		if !returned { // Base panicked
			f.land(false)
			f.finish(false)
		}
	}()
	resp, err := base.RoundTrip(req)
	returned = true
	handed := false
	defer func() {
		if !handed { // OnEvent panicked
			closeAnswer(resp)
		}
	}()
	f.land(resp != nil)
	if err == nil && resp == nil {
		err = errors.New("llmhttp: Base returned neither a response nor an error")
	}
	if err != nil {
		handed = true
		f.fail(err)
		return nil, err
	}
	resp.Request = f.call.Request
	if f.routed != nil {
		f.routed.way.redirected(resp, req.URL, f.routed.backend)
	}
	f.answer(resp)
	handed = true
	return resp, nil
}

// sentBody records that sending a request has begun.
type sentBody struct {
	io.ReadCloser
	flight *flight
}

// Read reads the body, and counts the request as sent.
func (b *sentBody) Read(p []byte) (int, error) {
	b.flight.left.Store(true)
	return b.ReadCloser.Read(p)
}

func (f *flight) wroteHeaders() { f.left.Store(true) }

// wroteRequest is called when the request was written: more than once if http.Transport found a
// connection dead and took another.
func (f *flight) wroteRequest(info httptrace.WroteRequestInfo) {
	f.left.Store(true)
	f.mu.Lock()
	defer f.mu.Unlock()
	if info.Err == nil && f.stage == waiting {
		f.written, f.dated = true, false
		f.transport.arrivals.start(&f.arrival)
	}
}

// dateCharge moves the charge to now while there is no answer. A call of which nothing was sent is
// left alone: it may give its request back, which others may wait for.
func (f *flight) dateCharge() {
	f.mu.Lock()
	waits := f.stage == waiting && f.left.Load()
	f.dated = f.dated || waits
	f.mu.Unlock()
	if waits {
		f.arrived(time.Now())
	}
}

// land records that the call was answered or failed. It dates the charge if that is to be earlier
// than by the timeout. A Base that does not trace the writing may have written the request after
// the timeout, so its charge is dated, too.
func (f *flight) land(wasAnswered bool) {
	f.transport.models.land(f)
	f.mu.Lock()
	f.transport.arrivals.stop(&f.arrival)
	f.stage = answered
	late := f.dated && f.written
	f.mu.Unlock()
	if !late && (wasAnswered || f.left.Load()) {
		f.arrived(time.Now())
	}
}

// checkIdle settles the flight if the answer was not read since the last check.
func (f *flight) checkIdle() {
	f.mu.Lock()
	idle := f.reads == f.lastReads && f.activeReads.Load() == 0
	f.lastReads = f.reads
	if !idle && f.stage == answered {
		f.transport.idles.start(&f.idle)
	}
	f.mu.Unlock()
	if idle {
		f.finish(false)
	}
}

// fail settles a flight without an answer.
func (f *flight) fail(err error) {
	f.mu.Lock()
	f.stage = settled
	f.mu.Unlock()
	f.unanswered(err)
	if f.routed != nil && f.ctx.Err() == nil {
		f.transport.models.setAside(f.routed.standing, time.Now())
	}
	e := Event{Kind: EventSettled, Err: quiet(err)}
	if f.left.Load() {
		f.commit(f.charged, f.estimatedBill())
		e.Settled, e.Source = f.charged, SourceEstimate
	} else {
		f.cancel()
		e.Source = SourceUnsent
	}
	f.transport.report(f, e)
}

// answer reads the headers of an answer and replaces its body by one that is watched.
func (f *flight) answer(resp *http.Response) {
	t := f.transport
	f.status = resp.StatusCode
	t.report(f, Event{Kind: EventAnswered, Status: f.status})
	// The kind of a problem decides whether other calls should be sent meanwhile, so the body is
	// read at once if it is short enough to be complete, or nearly.
	small := f.status >= 400 && resp.Body != nil &&
		0 < resp.ContentLength && resp.ContentLength <= maxErrorBody
	f.readHeaders(resp.Header, small)
	if resp.StatusCode == http.StatusSwitchingProtocols {
		f.finish(false) // its body is a connection, which is not to be read
		return
	}
	if resp.Body == nil || resp.Body == http.NoBody {
		f.finish(true)
		return
	}
	coding := codingOf(resp.Header)
	f.unread = coding == unreadable
	if f.status < 300 {
		f.readCounts(resp.Header)
	}
	if f.status < 300 && !f.unread {
		f.stream = newStream(f.adapter.Marks(), f.value)
		if isEventStream(resp.Header) {
			f.stream.frame(f.faulted, func() { f.succeeded(time.Now()) })
		}
		if coding == gzipped {
			f.stream.unzip()
		}
	}
	hides := f.hidesUsage && f.stream != nil && coding == plain && !isJSON(resp.Header)
	f.mu.Lock()
	f.idle.flight = f
	t.idles.start(&f.idle)
	if ctx := f.call.Request.Context(); ctx.Done() != nil {
		f.stopContext = context.AfterFunc(ctx, func() { f.finish(false) })
	}
	f.mu.Unlock()
	f.body = resp.Body
	resp.Body = (*watchedBody)(f)
	if small {
		_, resp.Body = reread(resp.Body) // which feeds the flight
	}
	if hides {
		resp.ContentLength = -1
		resp.Header.Del("Content-Length")
		resp.Body = newFilteredBody(resp.Body)
	}
}

func isJSON(h http.Header) bool {
	return strings.HasPrefix(strings.ToLower(h.Get("Content-Type")), "application/json")
}
