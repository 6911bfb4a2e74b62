package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// forwarder sends requests through the Transports of their upstreams, and turns failures into
// answers that the SDKs understand. It is the http.RoundTripper of the reverse proxy.
type forwarder struct{ proxy *Proxy }

// RoundTrip sends a request when there is room.
func (f forwarder) RoundTrip(req *http.Request) (*http.Response, error) {
	x := exchangeOf(req.Context())
	resp, err := f.send(req, x)
	x.room.leave()
	x.body.list.Store(nil)
	if err != nil {
		if resp = x.answerTo(req, err); resp == nil {
			return nil, err
		}
	}
	makePrivate(resp.Header) // also of an upgrade, which the writer does not see
	if x.writer.hasBegun() {
		return inStream(resp), nil
	}
	return resp, nil
}

// send sends a request, and keeps the client's connection busy while a streamed call waits.
func (f forwarder) send(req *http.Request, x *exchange) (*http.Response, error) {
	every := f.proxy.Heartbeat
	if every <= 0 || req.Method != http.MethodPost {
		return x.upstream.transport.RoundTrip(req)
	}
	type result struct {
		resp *http.Response
		err  error
	}
	done := make(chan result, 1)
	go func() {
		resp, err := x.upstream.transport.RoundTrip(req)
		done <- result{resp, err}
	}()
	beats := time.NewTicker(every)
	defer beats.Stop()
	for {
		select {
		case r := <-done:
			return r.resp, r.err
		case <-beats.C:
			if x.beats.Load() && x.room.isWaiting() && x.writer.beat() != nil {
				x.stop(context.Canceled) // nobody reads
			}
		}
	}
}

// answerTo returns the answer to a request that failed; nil where nobody is there to read it.
func (x *exchange) answerTo(req *http.Request, err error) *http.Response {
	switch cause := context.Cause(req.Context()); {
	case errors.Is(cause, errNoRoom):
		return x.noRoom(req)
	case errors.Is(cause, errStops):
		resp := x.fault(req, http.StatusServiceUnavailable, "it stops, and the call with it")
		resp.Header.Set("Retry-After", "1")
		return resp
	case cause != nil:
		return nil
	}
	var limit *ratelimit.LimitError
	var uncounted *llmhttp.UncountedError
	var network *net.OpError
	switch {
	case errors.As(err, &uncounted):
		return x.fault(req, http.StatusForbidden, "--strict: nothing can count this call: "+uncounted.Reason)
	case errors.As(err, &limit) && limit.Decision.Code == ratelimit.DecisionUnknownModel:
		return x.fault(req, http.StatusForbidden, fmt.Sprintf("--strict: no quota limits the model %q", limit.Model))
	case errors.As(err, &limit):
		x.why = string(limit.Decision.Code)
		return llmhttp.Refusal(req, limit)
	case errors.As(err, &network) && network.Timeout(), strings.Contains(err.Error(), "timeout awaiting response headers"):
		return x.fault(req, http.StatusGatewayTimeout, "the upstream does not answer")
	case errors.As(err, &network):
		return x.fault(req, http.StatusBadGateway, "the upstream cannot be reached: "+network.Error())
	}
	x.proxy.Log.Warn("no answer from the upstream", "upstream", x.upstream.URL.Host, "error", quoted.ReplaceAllString(err.Error(), "…"))
	return x.fault(req, http.StatusBadGateway, "the upstream gave no answer")
}

// fault returns an answer of the proxy itself.
func (x *exchange) fault(req *http.Request, status int, text string) *http.Response {
	x.why = text
	return (&fault{status, text}).response(req)
}

// quoted is where net/http tells what came from the upstream, which may have a key in it.
var quoted = regexp.MustCompile(`(?s)".*|malformed MIME.*`)

// noRoom returns the answer to a call for which there is no room to wait in.
func (x *exchange) noRoom(req *http.Request) *http.Response {
	x.why = "queue_full"
	limit := &ratelimit.LimitError{Err: ratelimit.ErrQueueFull}
	if model := x.model.Load(); model != nil {
		limit.Model = *model
	}
	if x.room.refused != nil {
		limit.Decision = *x.room.refused
	}
	if limit.Decision.RetryAfter <= 0 {
		limit.Decision.RetryAfter = time.Second
	}
	return llmhttp.Refusal(req, limit)
}

// maxError is how much of an error is read that goes into a stream, in bytes.
const maxError = 1 << 20

// inStream returns an answer for a client that has the head of a stream already: the stream, or an
// event with the error.
func inStream(resp *http.Response) *http.Response {
	if resp.StatusCode == http.StatusOK && strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return resp
	}
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxError))
	resp.Body.Close()
	data := new(bytes.Buffer)
	if json.Compact(data, body) != nil {
		text, _ := json.Marshal(string(body))
		data.Reset()
		data.WriteString(`{"type":"error","error":{"type":"api_error","message":` + string(text) + `}}`)
	}
	event := "event: error\ndata: " + data.String() + "\n\n"
	return &http.Response{
		StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: resp.Request,
		Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(strings.NewReader(event)), ContentLength: int64(len(event)),
	}
}
