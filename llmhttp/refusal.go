package llmhttp

import (
	"bytes"
	"errors"
	"io"
	"math"
	"net/http"
	"strconv"
	"time"

	"dappco.re/go/core/go-ratelimit"
)

// refuse is what RoundTrip returns for a call that was not admitted.
func (t *Transport) refuse(f *flight, err error) (*http.Response, error) {
	t.report(f, Event{Kind: EventRefused, Err: err})
	var limit *ratelimit.LimitError
	if t.RefuseWithError || !errors.As(err, &limit) {
		return nil, err
	}
	return refusal(f.call.Request, limit, f.adapter.Refusal(limit.Error())), nil
}

// refusal is a response that SDKs take for one of the provider.
func refusal(req *http.Request, limit *ratelimit.LimitError, body []byte) *http.Response {
	h := http.Header{
		"Content-Type":   {"application/json"},
		"Content-Length": {strconv.Itoa(len(body))},
		// OpenAI's and Anthropic's SDKs look for it before they try again.
		"X-Should-Retry": {"false"},
	}
	if d := limit.Decision.RetryAfter; d > 0 && !limit.Decision.Never {
		h.Set("Retry-After", strconv.FormatInt(int64(math.Ceil(d.Seconds())), 10))
		h.Set("Retry-After-Ms", strconv.FormatInt((int64(d)+int64(time.Millisecond)-1)/int64(time.Millisecond), 10))
	}
	return &http.Response{
		Status:        "429 " + http.StatusText(http.StatusTooManyRequests),
		StatusCode:    http.StatusTooManyRequests,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        h,
		Body:          io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)),
		Request:       req,
	}
}
