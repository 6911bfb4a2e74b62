package main

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/sony/gobreaker/v2"
)

// gobreakerTransport sends requests while a breaker is closed.
type gobreakerTransport struct {
	breaker *gobreaker.CircuitBreaker[*http.Response]
	base    http.RoundTripper
}

// withGobreaker puts a breaker around a Transport. It opens when half of at least 5
// calls in a minute fail, and tries again after a pause.
func withGobreaker(transport http.RoundTripper, pause time.Duration) http.RoundTripper {
	return &gobreakerTransport{base: transport, breaker: gobreaker.NewCircuitBreaker[*http.Response](gobreaker.Settings{
		Interval:     time.Minute,
		BucketPeriod: 5 * time.Second,
		Timeout:      pause,
		ReadyToTrip: func(c gobreaker.Counts) bool {
			return c.Requests >= 5 && 2*c.TotalFailures >= c.Requests
		},
		// A call that the limiter refused, or that was given up, is neither good nor bad.
		IsExcluded: func(err error) bool { return err != nil && !errors.As(err, new(failure)) },
	})}
}

// failure is an answer that counts as a failure.
type failure struct {
	resp *http.Response
	err  error
}

func (f failure) Error() string { return "the provider failed" }

func (t *gobreakerTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.breaker.Execute(func() (*http.Response, error) {
		resp, err := t.base.RoundTrip(req)
		if isFailure(resp, err) {
			return nil, failure{resp, err}
		}
		return resp, err
	})
	var f failure
	if errors.As(err, &f) {
		return f.resp, f.err
	}
	return resp, err
}

func isGobreakerOpen(err error) bool {
	return errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests)
}

func isGivenUp(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
