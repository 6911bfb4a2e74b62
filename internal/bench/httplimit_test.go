package bench

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/httplimit"
	tenantlimit "dappco.re/go/core/go-ratelimit/keyed"
	"golang.org/x/time/rate"
)

// discard is a writer of a response that nobody reads.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header               { return d.header }
func (d *discard) WriteHeader(int)                   {}
func (d *discard) Write(p []byte) (int, error)       { return len(p), nil }
func (d *discard) WriteString(s string) (int, error) { return len(s), nil }

// serving returns a function that serves one request of one of many tenants.
func serving(h http.Handler, tenants int) func() {
	requests := make([]*http.Request, tenants)
	for i := range requests {
		requests[i] = httptest.NewRequest(http.MethodPost, "/v1/chat/completions", nil)
		requests[i].Header.Set("Tenant", fmt.Sprintf("tenant-%d", i))
	}
	w := &discard{make(http.Header)}
	i := 0
	return func() {
		clear(w.header)
		h.ServeHTTP(w, requests[i])
		if i++; i == tenants {
			i = 0
		}
	}
}

// BenchmarkHandler compares a handler behind httplimit.Handler with the handler alone, and with
// one behind the middleware that is written by hand over a map of x/time's limiters.
func BenchmarkHandler(b *testing.B) {
	const tenants = 1000
	answer := []byte(`{"choices":[{"message":{"content":"` + strings.Repeat("word ", 40) + `"}}],"usage":{"prompt_tokens":25,"completion_tokens":40}}`)
	next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = []string{"application/json"}
		w.Write(answer)
	})
	tenant := func(r *http.Request) string { return r.Header["Tenant"][0] }
	limits := func(limits ...tenantlimit.Request) func(string) []tenantlimit.Request {
		return func(string) []tenantlimit.Request { return limits }
	}
	requests := tenantlimit.Request{Namespace: "requests", Limit: 1 << 40, Window: time.Minute}
	tokens := tenantlimit.Request{Namespace: "tokens", Limit: 1 << 40, Window: time.Minute, Cost: 500}
	none := tenantlimit.Request{Namespace: "requests", Limit: 1, Window: 24 * time.Hour}
	refuse := func(w http.ResponseWriter, _ *http.Request, d httplimit.Decision) { w.WriteHeader(d.Status) }
	for _, way := range []struct {
		name    string
		options httplimit.Options
	}{
		{"requests", httplimit.Options{Limits: limits(requests)}},
		{"requests+tokens", httplimit.Options{Limits: limits(requests, tokens)}},
		{"settled", httplimit.Options{
			Limits: limits(requests, tokens), Settle: map[string]httplimit.Settle{"tokens": httplimit.Tokens},
		}},
		{"in-flight", httplimit.Options{InFlight: func(string) int { return 10 }}},
		{"refused", httplimit.Options{Limits: limits(none), Refuse: refuse}},
		{"refused-with-text", httplimit.Options{Limits: limits(none)}},
	} {
		b.Run(way.name, func(b *testing.B) {
			way.options.Key = tenant
			ours := serving(httplimit.Handler(next, way.options), tenants)
			for range tenants {
				ours()
			}
			compareWith(b, "bare", serving(next, tenants), ours)
			b.ReportMetric(testing.AllocsPerRun(1000, ours), "ours-allocs")
		})
	}
	b.Run("x-time-by-hand", func(b *testing.B) {
		limiters := make(map[string]*rate.Limiter)
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			key := tenant(r)
			lim := limiters[key]
			if lim == nil {
				lim = rate.NewLimiter(rate.Limit(1e12), 1<<30)
				limiters[key] = lim
			}
			if !lim.Allow() {
				http.Error(w, "slow down", http.StatusTooManyRequests)
				return
			}
			next.ServeHTTP(w, r)
		})
		ours := serving(h, tenants)
		for range tenants {
			ours()
		}
		compareWith(b, "bare", serving(next, tenants), ours)
	})
}

// BenchmarkHandlerStream is what reading the usage adds to a stream of a megabyte in events.
func BenchmarkHandlerStream(b *testing.B) {
	event := []byte(`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"content":"` +
		strings.Repeat("word ", 16) + `"},"finish_reason":null}],"usage":null}` + "\n\n")
	next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = []string{"text/event-stream"}
		for range (1 << 20) / len(event) {
			w.Write(event)
		}
		io.WriteString(w, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":25,\"completion_tokens\":40}}\n\ndata: [DONE]\n\n")
	})
	serve := serving(httplimit.Handler(next, httplimit.Options{
		Key: func(r *http.Request) string { return r.Header["Tenant"][0] },
		Limits: func(string) []tenantlimit.Request {
			return []tenantlimit.Request{{Namespace: "tokens", Limit: 1 << 40, Window: time.Minute, Cost: 500}}
		},
		Settle: map[string]httplimit.Settle{"tokens": httplimit.Tokens},
	}), 1)
	b.SetBytes(1 << 20)
	b.ReportAllocs()
	for b.Loop() {
		serve()
	}
}
