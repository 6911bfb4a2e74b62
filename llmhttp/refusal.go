package llmhttp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"time"

	"dappco.re/go/core/go-ratelimit"
)

// refuse returns the result of RoundTrip for a call that was not admitted.
func (t *Transport) refuse(f *flight, err error) (*http.Response, error) {
	t.report(f, Event{Kind: EventRefused, Err: err})
	var limit *ratelimit.LimitError
	if t.RefuseWithError || !errors.As(err, &limit) {
		return nil, err
	}
	return refusal(f.call.Request, limit, f.adapter.Refusal(refusalMessage(limit))), nil
}

// refusedHeader marks a response that the Transport made itself. Its value is the code of the
// decision.
const refusedHeader = "X-Go-Ratelimit-Refused"

// causeHeader is the cause of the cooldown that refuses the call. Other refusals have none.
const causeHeader = "X-Go-Ratelimit-Cause"

// refusalMessage returns the text of a refusal as users see it.
func refusalMessage(limit *ratelimit.LimitError) string {
	d := &limit.Decision
	message := fmt.Sprintf("go-ratelimit: the call was not sent: model %q: %s", limit.Model, d.Reason)
	if d.RetryAfter > 0 && !d.Never {
		message += fmt.Sprintf(", free in %v", d.RetryAfter.Round(time.Millisecond))
	}
	return message
}

// refusal returns a response that SDKs take for one of the provider.
func refusal(req *http.Request, limit *ratelimit.LimitError, body []byte) *http.Response {
	h := http.Header{
		"Content-Type":   {"application/json"},
		"Content-Length": {strconv.Itoa(len(body))},
		// OpenAI's and Anthropic's SDKs check it before they retry.
		"X-Should-Retry": {"false"},
		refusedHeader:    {string(limit.Decision.Code)},
	}
	if cause := limit.Decision.Cause; cause != "" {
		h.Set(causeHeader, string(cause))
	}
	if d := limit.Decision.RetryAfter; d > 0 && !limit.Decision.Never {
		h.Set("Retry-After", strconv.FormatInt(int64(math.Ceil(d.Seconds())), 10))
		h.Set("Retry-After-Ms", strconv.FormatInt(int64((d+time.Millisecond-1)/time.Millisecond), 10))
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
