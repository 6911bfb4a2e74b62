package redislimit_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"dappco.re/go/core/go-ratelimit/httplimit"
	"dappco.re/go/core/go-ratelimit/keyed"
	"dappco.re/go/core/go-ratelimit/limit"
	"dappco.re/go/core/go-ratelimit/redislimit"
)

// exact is an httplimit.Limiter that Redis decides for: a limiter for each namespace.
type exact struct {
	group    *redislimit.Group
	limiters map[string]redislimit.Limiter
}

func (e exact) TakeAll(ctx context.Context, requests ...keyed.Request) ([]limit.Decision, error) {
	charges := make([]redislimit.Charge, len(requests))
	for i, r := range requests {
		charges[i] = redislimit.Charge{Limiter: e.limiters[r.Namespace], Key: r.Key, N: max(r.Cost, 0)} // keyed.Free is -1
	}
	return e.group.TakeAll(ctx, charges...)
}

// A handler of httplimit whose limit is exact over all machines.
func ExampleGroup_handler() {
	client, _ := exampleClient()
	defer client.Close()
	perMinute, err := redislimit.NewFixedWindow(client, 2, time.Minute, redislimit.Options{})
	if err != nil {
		log.Fatal(err)
	}
	group, err := redislimit.NewGroup(client, redislimit.Options{})
	if err != nil {
		log.Fatal(err)
	}
	api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {})
	limited := httplimit.Handler(api, httplimit.Options{
		Limiter: exact{group, map[string]redislimit.Limiter{"requests": perMinute}},
		Key:     func(r *http.Request) string { return "acme" },
		Limits: func(string) []keyed.Request {
			return []keyed.Request{{Namespace: "requests", Limit: 2, Window: time.Minute}}
		},
	})
	for range 3 {
		w := httptest.NewRecorder()
		limited.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		fmt.Printf("%d %q\n", w.Code, w.Header().Get("Retry-After"))
	}
	// Output:
	// 200 ""
	// 200 ""
	// 429 "60"
}
