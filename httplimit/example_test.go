package httplimit_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit/httplimit"
	"dappco.re/go/core/go-ratelimit/keyed"
)

// tenants are the API keys of the examples.
var tenants = map[string]string{"sk-1": "acme", "sk-2": "globex"}

// tenantOf returns whose API key a request has; nothing for an unknown one.
func tenantOf(r *http.Request) string {
	return tenants[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
}

// call makes a request with an API key.
func call(h http.Handler, apiKey string) *http.Response {
	r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(`{"model":"m"}`))
	r.Header.Set("Authorization", "Bearer "+apiKey)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func ExampleHandler() {
	api := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") })
	limited := httplimit.Handler(api, httplimit.Options{
		Key: tenantOf,
		Limits: func(tenant string) []keyed.Request {
			return []keyed.Request{{Namespace: "requests", Limit: 2, Window: time.Hour}}
		},
	})
	for range 3 {
		resp := call(limited, "sk-1")
		fmt.Println(resp.StatusCode, resp.Header.Get("RateLimit-Policy"))
	}
	fmt.Println(call(limited, "sk-2").StatusCode, "for another tenant")
	fmt.Println(call(limited, "stolen").StatusCode, "without a tenant")
	// Output:
	// 200 "requests";q=2;w=3600
	// 200 "requests";q=2;w=3600
	// 429 "requests";q=2;w=3600
	// 200 for another tenant
	// 401 without a tenant
}

// Tokens are known when the response has ended: an estimate is held meanwhile.
func ExampleTokens() {
	model := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"choices":[],"usage":{"prompt_tokens":20,"completion_tokens":80}}`)
	})
	limited := httplimit.Handler(model, httplimit.Options{
		Key: tenantOf,
		Limits: func(string) []keyed.Request {
			return []keyed.Request{
				{Namespace: "requests", Limit: 60, Window: time.Hour},
				{Namespace: "tokens", Limit: 1000, Window: time.Hour},
			}
		},
		Cost: func(r *http.Request, limit keyed.Request) int {
			if limit.Namespace == "tokens" {
				return int(r.ContentLength)/4 + 500 // the prompt, and the longest answer
			}
			return 1
		},
		Settle: map[string]httplimit.Settle{"tokens": httplimit.Tokens},
		OnDecision: func(d httplimit.Decision) {
			fmt.Println(d.Key, d.Limits[1].Cost, "held,", d.Decisions[1].Remaining, "left")
		},
	})
	call(limited, "sk-1")
	call(limited, "sk-1")
	// Output:
	// acme 503 held, 497 left
	// acme 503 held, 397 left
}

// A function in Settle turns what a response states into units of its own, such as money.
func ExampleSettle() {
	model := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"usage":{"prompt_tokens":1000,"completion_tokens":200}}`)
	})
	limiter, err := keyed.New(keyed.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	budget := keyed.Request{Namespace: "microdollars", Limit: 5_000_000, Window: 24 * time.Hour, Cost: 100_000}
	limited := httplimit.Handler(model, httplimit.Options{
		Limiter: limiter,
		Key:     tenantOf,
		Limits:  func(string) []keyed.Request { return []keyed.Request{budget} },
		Settle: map[string]httplimit.Settle{
			"microdollars": func(r httplimit.Response) (int, bool) {
				return r.Usage.Prompt*3 + r.Usage.Output*15, r.Usage.Known
			},
		},
	})
	call(limited, "sk-1")

	budget.Key = "acme"
	d, err := limiter.Peek(context.Background(), budget)
	fmt.Println(5_000_000-d.Remaining, err)
	// Output:
	// 6000 <nil>
}

// A handler that knows better what a request has used reports it.
func ExampleReport() {
	agent := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, tokens := range []int{120, 80} { // of two calls to a model
			httplimit.Report(r.Context(), "tokens", tokens)
		}
		io.WriteString(w, "done")
	})
	limited := httplimit.Handler(agent, httplimit.Options{
		Key: tenantOf,
		Limits: func(string) []keyed.Request {
			return []keyed.Request{{Namespace: "tokens", Limit: 1000, Window: time.Hour, Cost: 600}}
		},
		Settle:     map[string]httplimit.Settle{"tokens": nil},
		OnDecision: func(d httplimit.Decision) { fmt.Println(d.Decisions[0].Remaining, "left") },
	})
	call(limited, "sk-1")
	call(limited, "sk-1")
	// Output:
	// 400 left
	// 200 left
}

// Shadow mode tells what the limits would do, and refuses nothing.
func ExampleOptions_shadow() {
	api := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") })
	limited := httplimit.Handler(api, httplimit.Options{
		Key: tenantOf,
		Limits: func(string) []keyed.Request {
			return []keyed.Request{{Namespace: "requests", Limit: 1, Window: time.Hour}}
		},
		Shadow: true,
		OnDecision: func(d httplimit.Decision) {
			if !d.OK {
				fmt.Printf("would refuse %s with %d: %s\n", d.Key, d.Status, d.Reason)
			}
		},
	})
	fmt.Println(call(limited, "sk-1").StatusCode)
	fmt.Println(call(limited, "sk-1").StatusCode)
	// Output:
	// 200
	// would refuse acme with 429: limit
	// 200
}

// InFlight bounds the requests that are served at the same time, for models of one's own, which
// have slots instead of quotas.
func ExampleOptions_inFlight() {
	var limited http.Handler
	limited = httplimit.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		resp := call(limited, "sk-1") // while this one is served
		fmt.Println(resp.StatusCode, resp.Header.Get("RateLimit"), resp.Header.Get("Retry-After"))
	}), httplimit.Options{
		Key:      tenantOf,
		InFlight: func(string) int { return 1 },
	})
	fmt.Println(call(limited, "sk-1").StatusCode)
	// Output:
	// 429 "in-flight";r=0;t=1 1
	// 200
}

// Refuse answers in the words of the service.
func ExampleOptions_refuse() {
	limited := httplimit.Handler(http.NotFoundHandler(), httplimit.Options{
		Key: tenantOf,
		Limits: func(string) []keyed.Request {
			return []keyed.Request{{Namespace: "requests", Limit: 10, Window: time.Hour, Cost: 11}}
		},
		Refuse: func(w http.ResponseWriter, _ *http.Request, d httplimit.Decision) {
			http.Error(w, fmt.Sprintf("no: %s, never %v", d.Reason, d.Never()), d.Status)
		},
	})
	resp := call(limited, "sk-1")
	text, _ := io.ReadAll(resp.Body)
	fmt.Printf("%d %s", resp.StatusCode, text)
	// Output:
	// 429 no: limit, never true
}
