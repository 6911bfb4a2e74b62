package main

import (
	"errors"
	"net/http"
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
)

// withFailsafe puts a breaker of failsafe-go around a Transport. It opens when half of at least
// 5 calls in a minute fail, and tries again after a pause.
//
// A retry policy of failsafe-go may stand in front of the breaker. It sends each try through
// the Transport, which admits it anew. Use either that or Transport.Retry: with both the tries
// multiply.
func withFailsafe(transport http.RoundTripper, pause time.Duration) http.RoundTripper {
	breaker := circuitbreaker.NewBuilder[*http.Response]().
		HandleIf(isFailure).
		WithFailureRateThreshold(0.5, 5, time.Minute).
		WithDelay(pause).
		Build()
	return failsafehttp.NewRoundTripper(transport, breaker)
}

func isFailsafeOpen(err error) bool { return errors.Is(err, circuitbreaker.ErrOpen) }
