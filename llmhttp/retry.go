package llmhttp

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/notice"
)

// Retry configures the retries of failed calls. A call is sent again if it exceeded a limit (429),
// if the provider is overloaded (503, 529) or fails (another 5xx, 408), or if the connection broke;
// and only if its body can be sent again and the caller received nothing of the answer.
//
// A retry waits as long as the provider asks, else half a second, one second, two, up to 16. To
// that it adds up to a quarter, at most a second, so that calls do not return together. Then it
// waits for its place in the quota. A retry is not made if the context would end first.
type Retry struct {
	// Max bounds the retries per call. Zero or less means none.
	Max int
	// MaxDelay bounds the delay that the provider may ask for. A refusal that asks for more is
	// returned to the caller. Zero or less means a minute.
	MaxDelay time.Duration
}

const defaultMaxDelay = time.Minute

// retry decides whether a call is sent again, and waits until then. It returns the next try, which
// is admitted, and its request. If there is none, it returns nil, and leaves the response of the
// last try alone.
func (t *Transport) retry(
	f *flight, sent *http.Request, resp *http.Response, err error,
) (*flight, *http.Request) {
	ctx := f.call.Request.Context()
	if f.retries() >= t.Retry.Max || ctx.Err() != nil || !replayable(sent) ||
		errors.As(err, new(*RedirectError)) {
		return nil, nil
	}
	e, delay, ok := t.retryDelay(f, resp, err)
	if !ok {
		return nil, nil
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < delay || f.outlivesSignature(delay) {
		return nil, nil
	}
	again, ok := replay(sent)
	if !ok {
		return nil, nil
	}
	next := f.again()
	t.report(next, e)
	f.finish(false) // the next try may wait for the slot of this one
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		closeBody(again)
		return nil, nil
	case <-timer.C:
	}
	if t.admit(next) != nil {
		closeBody(again)
		return nil, nil
	}
	if resp != nil && resp.Body != nil {
		resp.Body.Close()
	}
	return next, again
}

// again returns the next try of a call.
func (f *flight) again() *flight {
	next := &flight{
		transport: f.transport, adapter: f.adapter, call: f.call, name: f.name, model: f.model,
		ctx:       notice.CallContext{Context: f.ctx.Context, ID: f.ctx.ID},
		countedAs: f.countedAs, charges: f.charges,
		attempt: f.attempt + 1, hidesUsage: f.hidesUsage, signedUntil: f.signedUntil, began: time.Now(),
		waited: f.waited + time.Since(f.sent),
	}
	if f.routed != nil {
		next.routed = f.routed.again()
	}
	return next
}

// classify is Classify for the answer of the flight.
func (f *flight) classify(resp *http.Response) *Problem {
	var body []byte
	if resp.Body != nil && resp.Body != http.NoBody {
		body, resp.Body = reread(resp.Body)
	}
	return classify(resp.StatusCode, resp.Header, body, f.host(), time.Now())
}

// retryDelay returns the delay before the next try and the event that announces it. It returns
// false if a retry is useless, or would be later than MaxDelay allows.
func (t *Transport) retryDelay(
	f *flight, resp *http.Response, err error,
) (e Event, delay time.Duration, ok bool) {
	e = Event{Kind: EventRetry, Err: quiet(err)}
	delay = time.Second << min(f.retries(), 5) / 2
	if err == nil {
		if !retryable(f.status) || resp.Header.Get("X-Should-Retry") == "false" {
			return e, 0, false
		}
		p := f.classify(resp)
		switch p.Kind {
		case RateLimited, Overloaded, Failed, Rejected:
		default:
			return e, 0, false
		}
		e.Status, e.Problem = f.status, p
		longest := t.Retry.MaxDelay
		if longest <= 0 {
			longest = defaultMaxDelay
		}
		if p.RetryAfter > longest {
			return e, 0, false
		}
		delay = max(delay, p.RetryAfter)
	}
	return e, delay + rand.N(min(delay/4, maxJitter)+1), true
}

// retryable reports whether a call with this status may succeed the next time.
func retryable(status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusRequestTimeout || status >= 500
}

// replayable reports whether the body of a request can be sent again.
func replayable(sent *http.Request) bool {
	return sent.Body == nil || sent.Body == http.NoBody || sent.GetBody != nil
}

// replay returns the request with a new copy of its body; false if it cannot be had.
func replay(sent *http.Request) (*http.Request, bool) {
	req := sent.WithContext(sent.Context())
	if sent.GetBody != nil {
		body, err := sent.GetBody()
		if err != nil {
			return nil, false
		}
		req.Body = body
	}
	return req, true
}
