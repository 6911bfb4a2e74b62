package llmhttp

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"time"
)

// Retry says how often a failed call is sent again: one over a limit (429), to a provider
// that is overloaded (503, 529) or fails (another 5xx, 408), or whose connection broke. Only
// calls are whose body can be sent again, and of whose answer the caller got nothing.
//
// A try waits as long as the provider said, else half a second, a second, two, up to 16; up
// to a quarter longer, a second at most, so that calls do not come back together; and then
// for its place in the quota. It is not made when the deadline of the request's context comes before.
type Retry struct {
	// Max is how often a call is sent again. Zero or less is never.
	Max int
	// MaxDelay is how long the provider may make a call wait before it is sent again; a
	// refusal that asks for more is passed on. Zero or less is a minute.
	MaxDelay time.Duration
}

const defaultMaxDelay = time.Minute

// retry decides whether a call is sent once more, and waits until then. It returns the
// next try, which is admitted, and its request; nil if there is none, and then what there is
// of the last try is as it was.
func (t *Transport) retry(f *flight, sent *http.Request, resp *http.Response, err error) (*flight, *http.Request) {
	ctx := f.call.Request.Context()
	if f.attempt >= t.Retry.Max || ctx.Err() != nil || !hasReplay(sent) || errors.As(err, new(*RedirectError)) {
		return nil, nil
	}
	e := Event{Kind: EventRetry, Err: quiet(err)}
	delay, told := time.Second<<min(f.attempt, 5)/2, time.Duration(0)
	if err == nil {
		if !mayMend(f.status) || resp.Header.Get("X-Should-Retry") == "false" {
			return nil, nil
		}
		p := Classify(resp)
		switch p.Kind {
		case RateLimited, Overloaded, Failed, Rejected:
		default:
			return nil, nil
		}
		e.Status, e.Problem = f.status, p
		told = p.RetryAfter
	}
	most := t.Retry.MaxDelay
	if most <= 0 {
		most = defaultMaxDelay
	}
	if told > most {
		return nil, nil
	}
	delay = max(delay, told)
	delay += rand.N(min(delay/4, mostJitter) + 1)
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < delay {
		return nil, nil
	}
	again, ok := replay(sent)
	if !ok {
		return nil, nil
	}
	next := &flight{transport: t, adapter: f.adapter, call: f.call, name: f.name, model: f.model, attempt: f.attempt + 1, hides: f.hides, began: time.Now()}
	t.report(next, e)
	f.finish(false) // its slot may be the one that the next try waits for
	wait := time.NewTimer(delay)
	defer wait.Stop()
	select {
	case <-ctx.Done():
		closeBody(again)
		return nil, nil
	case <-wait.C:
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

// mayMend reports whether an answer with a status may be another one the next time.
func mayMend(status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusRequestTimeout || status >= 500
}

// hasReplay reports whether the body of a request can be sent again.
func hasReplay(sent *http.Request) bool {
	return sent.Body == nil || sent.Body == http.NoBody || sent.GetBody != nil
}

// replay returns the request with a fresh body.
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
