package httplimit_test

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"dappco.re/go/core/go-ratelimit/httplimit"
	"dappco.re/go/core/go-ratelimit/keyed"
	"dappco.re/go/core/go-ratelimit/limit"
)

func ExamplePerKey() {
	api := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	mux := http.NewServeMux()
	perKey := httplimit.PerKey(2, time.Hour, tenantOf) // for both routes together
	mux.Handle("/v1/chat/", perKey(api))
	mux.Handle("/v1/files/", perKey(api))
	for range 3 {
		fmt.Println(call(mux, "sk-1").StatusCode)
	}
	// Output:
	// 200
	// 200
	// 429
}

// buckets is a limiter of another kind: a token bucket for each key.
type buckets struct{ of *limit.Keyed[string] }

func (b buckets) TakeAll(_ context.Context, requests ...keyed.Request) ([]limit.Decision, error) {
	if len(requests) != 1 {
		return nil, fmt.Errorf("there are %d limits, want 1", len(requests))
	}
	d, err := b.of.Take(requests[0].Key, int(requests[0].Cost))
	return []limit.Decision{d}, err
}

// Any limiter can stand behind a Handler.
func ExampleLimiter() {
	of, err := limit.NewKeyed(100_000, time.Hour, func(string) (limit.Limiter, error) {
		return limit.NewGCRA(limit.PerMinute(60), 2)
	})
	if err != nil {
		panic(err)
	}
	limited := httplimit.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), httplimit.Options{
		Limiter: buckets{of},
		Key:     tenantOf,
		Limits: func(string) []keyed.Request { // what the fields of the answer tell
			return []keyed.Request{{Namespace: "requests", Limit: 60, Window: time.Minute}}
		},
	})
	for range 3 {
		fmt.Println(call(limited, "sk-1").StatusCode)
	}
	// Output:
	// 200
	// 200
	// 429
}
