package llmhttp

import (
	"context"
	"net/http"

	"dappco.re/go/core/go-ratelimit/internal/notice"
)

// newFlight returns the first try of a call that is counted under a name.
func (t *Transport) newFlight(ctx context.Context, call *Call, name string, a Adapter, w *way) *flight {
	f := &flight{transport: t, adapter: a, call: call, signedUntil: signatureEnd(call.Request)}
	f.ctx.Context, f.ctx.ID = ctx, notice.NextCallID()
	f.charges = chargesOf(ctx)
	if w == nil {
		f.countAt(nil, name)
	} else {
		f.routed = &routed{way: w, bare: name}
		f.countAt(w.first(), w.route.countAs(w.first(), name))
	}
	return f
}

// send sends a call, more than once with Retry. It closes the body of send.
func (t *Transport) send(send *http.Request, call *Call, name string, a Adapter, w *way) (*http.Response, error) {
	f := t.newFlight(call.Request.Context(), call, name, a, w)
	if t.AddStreamUsage && call.Stream && !call.StreamUsage && !call.large && !call.invalid &&
		(call.Operation == chatCompletions || call.Operation == completions) {
		if asking, ok := withStreamUsage(send, call.BodySize); ok {
			send, f.hidesUsage = asking, true
		}
	}
	var resp *http.Response
	ended := false
	defer func() {
		if !ended { // OnEvent, Base or Estimate panics
			f.abandon()
			closeAnswer(resp)
		}
	}()
	err := t.admit(f)
	if err != nil {
		closeBody(send)
		resp, err = t.refuse(f, err)
		ended = true
		return resp, err
	}
	if call.counted != 0 { // its body was read once more
		if fresh, err := withFreshBody(send); err == nil {
			send = fresh
		}
	}
	for {
		resp, err = f.roundTrip(send)
		next, again := t.reroute(f, send, resp, err)
		if next == nil {
			next, again = t.retry(f, send, resp, err)
		}
		if next == nil {
			ended = true
			return resp, err
		}
		f, send = next, again
	}
}
