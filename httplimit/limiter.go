package httplimit

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"dappco.re/go/core/go-ratelimit/keyed"
	"dappco.re/go/core/go-ratelimit/limit"
)

// Limiter decides the limits of a request: it charges all of requests or none. They pass if and
// only if every Decision is OK; there is one for each, in their order. An error answers the request
// with status 500. A *keyed.Limiter is a Limiter. Its methods must be safe for concurrent use, and
// must not keep or change the slice.
type Limiter interface {
	TakeAll(ctx context.Context, requests ...keyed.Request) ([]limit.Decision, error)
}

// Holder is a Limiter that can set units aside until it is known what to charge, which
// Options.Settle needs. HoldAll decides like TakeAll, and returns a Hold for each request if all
// pass: see keyed.NewHold. A *keyed.Limiter is a Holder.
type Holder interface {
	Limiter
	HoldAll(ctx context.Context, requests ...keyed.Request) ([]keyed.Hold, []limit.Decision, error)
}

// taker is a Limiter that decides one request without a slice.
type taker interface {
	Take(ctx context.Context, request keyed.Request) (limit.Decision, error)
}

// newLimiter returns a Limiter of this process alone, which has no goroutine.
func newLimiter() *keyed.Limiter {
	l, err := keyed.New(keyed.Options{})
	if err != nil {
		panic("httplimit: " + err.Error())
	}
	return l
}

// PerKey returns a middleware that serves up to n requests of each key in a window, and refuses the
// others as a [Handler] does. All handlers that it wraps count together. An empty key is refused
// with status 401. PerKey starts no goroutine. It panics for an n below 1, for a window that is not
// within 1 ms and 400 days, and if key is nil.
func PerKey(n int, window time.Duration, key func(*http.Request) string) func(http.Handler) http.Handler {
	limits := []keyed.Request{{Namespace: "requests", Limit: n, Window: window}}
	options := Options{Limiter: newLimiter(), Key: key, Limits: func(string) []keyed.Request { return limits }}
	options.validate()
	probe := limits[0]
	probe.Key = "any"
	if _, err := options.Limiter.(*keyed.Limiter).Peek(context.Background(), probe); err != nil {
		panic(fmt.Sprintf("httplimit: per key: %v", err))
	}
	return func(next http.Handler) http.Handler { return Handler(next, options) }
}
