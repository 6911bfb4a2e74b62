package llmhttp

import (
	"net/http"
	"time"
)

// reroute decides whether a call that a backend has refused is sent to another one, and waits until
// there is room, but no longer than the first one asks for: that is as good then. It returns the
// next try as retry does.
func (t *Transport) reroute(
	f *flight, sent *http.Request, resp *http.Response, err error,
) (*flight, *http.Request) {
	if f.routed == nil || f.routed.way.only != nil || err != nil || !mayBeRefusal(f.status) ||
		f.call.Request.Context().Err() != nil || !replayable(sent) {
		return nil, nil
	}
	next := f.again()
	if len(next.routed.tried) == len(f.routed.way.route.backends) {
		return nil, nil
	}
	p := f.classify(resp)
	switch p.Kind {
	case RateLimited, DailyQuota, Exhausted, Overloaded:
	default:
		return nil, nil
	}
	again, ok := replay(sent)
	if !ok {
		return nil, nil
	}
	next.routed.rerouted++
	t.report(next, Event{Kind: EventRetry, Status: f.status, Problem: p})
	f.finish(false) // the answer is not for the caller
	if p.Kind == RateLimited || p.Kind == Overloaded {
		pause := time.Until(t.Limiter.Stats(f.name).CooldownUntil)
		next.routed.maxWait = max(p.RetryAfter, pause, firstPause)
	}
	if t.admit(next) != nil {
		closeBody(again)
		return nil, nil
	}
	if resp.Body != nil {
		resp.Body.Close()
	}
	return next, again
}

// mayBeRefusal reports whether an answer with a status may be a refusal for the quota, the credit
// or the overload of a backend. Some providers say with 400 or 403 that there is no credit.
func mayBeRefusal(status int) bool {
	switch status {
	case http.StatusBadRequest, http.StatusPaymentRequired, http.StatusForbidden, http.StatusTooManyRequests:
		return true
	}
	return status >= 500
}
