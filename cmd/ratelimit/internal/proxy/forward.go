package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
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
	if errors.Is(context.Cause(req.Context()), errNoRoom) {
		return x.noRoom(req)
	}
	var uncounted *llmhttp.UncountedError
	var network *net.OpError
	switch {
	case req.Context().Err() != nil:
		return nil
	case errors.As(err, &uncounted):
		return (&fault{http.StatusForbidden, "--strict: " + uncounted.Error()}).response(req)
	case errors.As(err, &network) && network.Timeout(), strings.Contains(err.Error(), "timeout awaiting response headers"):
		return (&fault{http.StatusGatewayTimeout, "the upstream does not answer"}).response(req)
	case errors.As(err, &network):
		return (&fault{http.StatusBadGateway, "the upstream cannot be reached: " + network.Error()}).response(req)
	}
	x.proxy.Log.Warn("no answer from the upstream", "upstream", x.upstream.URL.Host, "error", quoted.ReplaceAllString(err.Error(), "…"))
	return (&fault{http.StatusBadGateway, "the upstream gave no answer"}).response(req)
}

// quoted is where net/http tells what came from the upstream, which may have a key in it.
var quoted = regexp.MustCompile(`(?s)".*|malformed MIME.*`)

// noRoom returns the answer to a call for which there is no room to wait in.
func (x *exchange) noRoom(req *http.Request) *http.Response {
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
