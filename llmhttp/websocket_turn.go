package llmhttp

import (
	"net/http"
	"time"

	"dappco.re/go/core/go-ratelimit/llmhttp/internal/headers"
)

// turn is a call that was sent.
type turn struct {
	*flight
	lane string
	id   string // of its response; empty until the server tells it
}

// depart records that the call is being sent.
func (f *flight) depart() {
	f.sent = time.Now()
	f.left.Store(true)
	f.transport.models.depart(f)
	f.arrival.flight = f
	f.transport.arrivals.start(&f.arrival)
}

// fails records that the server answered with an error. A response that has begun keeps its status.
func (t *turn) fails(status int, e *socketEvent) {
	h, now := e.headers, time.Now()
	if h == nil {
		h = make(http.Header)
	}
	if t.id == "" {
		t.begin(status)
		t.observe(headers.Limits(h, t.host(), now), now)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stage == answered {
		t.problem = classify(status, h, e.body, t.host(), now)
	}
}

// begin records the first event of the answer.
func (t *turn) begin(status int) {
	f, now := t.flight, time.Now()
	f.mu.Lock()
	if f.stage != waiting {
		f.mu.Unlock()
		return
	}
	f.stage, f.status = answered, status
	if status < 300 {
		f.stream = newStream(nil, f.value)
		f.stream.form = eventForm
	}
	f.transport.arrivals.stop(&f.arrival)
	f.mu.Unlock()
	f.transport.models.land(f)
	f.arrived(now)
	f.transport.report(f, Event{Kind: EventAnswered, Status: status})
	if status < 300 {
		f.transport.models.succeeded(f.model, now.Sub(f.sent))
	}
}

// end settles the turn. whole says that its response has ended.
func (t *turn) end(whole bool) {
	f := t.flight
	f.mu.Lock()
	waits := f.stage == waiting
	if waits {
		f.stage = answered
		f.transport.arrivals.stop(&f.arrival)
	}
	f.mu.Unlock()
	if waits {
		f.transport.models.land(f)
		f.arrived(time.Now())
	}
	f.finish(whole)
}
