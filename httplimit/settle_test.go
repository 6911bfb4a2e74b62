package httplimit_test

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/httplimit"
	"dappco.re/go/core/go-ratelimit/keyed"
)

const (
	completion = `{"choices":[{"message":{"content":"hi"}}],"usage":{"prompt_tokens":20,"completion_tokens":5,"total_tokens":25}}`
	chunks     = "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}],\"usage\":null}\n\n" +
		"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":20,\"completion_tokens\":5}}\n\ndata: [DONE]\n\n"
	estimate = 100 // that the tests hold
)

// answer is a next handler that answers a body with a status and a Content-Type.
func answer(status int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if contentType != "" {
			w.Header().Set("Content-Type", contentType)
		}
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

// What is charged of an estimate of 100, by what becomes of the call.
func TestSettlement(t *testing.T) {
	const none = ""
	const js = "application/json"
	gone := func(next http.HandlerFunc) http.HandlerFunc { // the client leaves first
		return func(w http.ResponseWriter, r *http.Request) {
			r.Context().Value(cancelKey{}).(context.CancelFunc)()
			next(w, r)
		}
	}
	goesLater := func(next http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			next(w, r)
			r.Context().Value(cancelKey{}).(context.CancelFunc)()
		}
	}
	panicking := func(next http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			next(w, r)
			panic(http.ErrAbortHandler)
		}
	}
	nothing := func(http.ResponseWriter, *http.Request) {}
	reports := func(units ...int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			for _, n := range units {
				if !httplimit.Report(r.Context(), "tokens", n) {
					panic("Report returned false")
				}
			}
			answer(200, js, completion)(w, r)
		}
	}
	for _, test := range []struct {
		name string
		next http.HandlerFunc
		want int
	}{
		{"JSON", answer(200, js, completion), 25},
		{"JSON of an unknown type", answer(200, none, completion), 25},
		{"JSON with a charset", answer(200, "Application/JSON; charset=utf-8", completion), 25},
		{"events", answer(200, "text/event-stream", chunks), 25},
		{"events of an unknown type", answer(200, none, chunks), 25},
		{"another type", answer(200, "text/plain", completion), estimate},
		{"no usage", answer(200, js, `{"choices":[]}`), estimate},
		{"nothing", nothing, estimate},
		{"no content", answer(204, none, ""), estimate},
		{"a redirect", answer(302, none, ""), estimate},
		{"refused above", answer(429, js, `{"error":{}}`), 0},
		{"failed above", answer(500, js, `{"error":{}}`), 0},
		{"failed after it used something", answer(500, js, completion), 25},
		{"an informational response first", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(103)
			answer(400, js, "{}")(w, r)
		}, 0},
		{"the first status counts", func(w http.ResponseWriter, r *http.Request) {
			answer(200, js, "{}")(w, r)
			w.WriteHeader(500)
		}, estimate},
		{"a panic before the response", panicking(nothing), 0},
		{"a panic within the response", panicking(answer(200, "text/event-stream", "data: {}\n\n")), estimate},
		{"a panic behind the usage", panicking(answer(200, "text/event-stream", chunks)), 25},
		{"a panic after a failure", panicking(answer(503, js, "{}")), 0},
		{"the client has left", gone(answer(502, js, "{}")), estimate},
		{"the client has left before a panic", gone(panicking(nothing)), estimate},
		{"the client has left after a failure", goesLater(answer(502, js, "{}")), 0},
		{"the client has left behind the usage", goesLater(answer(200, js, completion)), 25},
		{"reported", reports(7), 7},
		{"reported twice", reports(7, 8), 15},
		{"reported nothing", reports(0), 0},
		{"reported less than nothing", reports(-7, 3), 3},
		{"reported too much", reports(math.MaxInt, 5, 100), math.MaxInt32},
	} {
		t.Run(test.name, func(t *testing.T) {
			lim := newLimiter(t)
			requests, tokens := perMinute("requests", 10), perMinute("tokens", math.MaxInt32)
			tokens.Cost = estimate
			var during int
			h := httplimit.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				during = used(t, lim, "a", tokens)
				test.next(w, r)
			}), httplimit.Options{
				Limiter: lim, Key: tenant, Limits: all(requests, tokens),
				Settle: map[string]httplimit.Settle{"tokens": httplimit.Tokens},
			})
			serveWithCancel(t, h)
			if n := used(t, lim, "a", requests); n != 1 {
				t.Errorf("%d requests charged", n)
			}
			if n := used(t, lim, "a", tokens); during != estimate || n != test.want {
				t.Errorf("%d held, %d charged, want %d", during, n, test.want)
			}
		})
	}
}

type cancelKey struct{}

// serveWithCancel makes a request whose context has the function that cancels it. It survives a
// panic.
func serveWithCancel(t *testing.T, h http.Handler) *httptest.ResponseRecorder {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := httptest.NewRequestWithContext(context.WithValue(ctx, cancelKey{}, cancel), http.MethodPost, "/", nil)
	r.Header.Set("Tenant", "a")
	w := httptest.NewRecorder()
	if v := panics(func() { h.ServeHTTP(w, r) }); v != nil && v != http.ErrAbortHandler {
		t.Errorf("panic: %v", v)
	}
	return w
}

// Limits of several namespaces and windows are settled each by its function.
func TestSettleByNamespace(t *testing.T) {
	lim := newLimiter(t)
	minute, day := perMinute("tokens", 1000), perMinute("tokens", 5000)
	day.Window = 24 * time.Hour
	output, money := perMinute("output", 1000), perMinute("money", 1000)
	told := perMinute("told", 1000)
	limits := []keyed.Request{minute, perMinute("requests", 9), day, output, money, told}
	for i := range limits {
		if limits[i].Namespace != "requests" {
			limits[i].Cost = estimate
		}
	}
	var seen []httplimit.Response
	h := httplimit.Handler(answer(201, "application/json", completion), httplimit.Options{
		Limiter: lim, Key: tenant, Limits: all(limits...),
		Settle: map[string]httplimit.Settle{
			"tokens": httplimit.Tokens,
			"output": func(r httplimit.Response) (int, bool) { return r.Usage.Output, r.Usage.Known },
			"money": func(r httplimit.Response) (int, bool) {
				seen = append(seen, r)
				return r.Usage.Prompt*2 + r.Usage.Output*3, true
			},
			"told": nil, "unused": nil,
		},
	})
	get(h, "a")
	for i, want := range []int{25, 1, 25, 5, 55, estimate} {
		if n := used(t, lim, "a", limits[i]); n != want {
			t.Errorf("limit %d, %s: charged %d, want %d", i, limits[i].Namespace, n, want)
		}
	}
	if len(seen) != 1 {
		t.Fatalf("called %d times", len(seen))
	}
	r := seen[0]
	want := limits[4]
	want.Key = "a"
	if r.Limit != want || r.Status != 201 || r.Request == nil || r.Header.Get("Content-Type") != "application/json" ||
		r.Hijacked || r.Panicked || r.Usage != (httplimit.Usage{Prompt: 20, Output: 5, Known: true}) {
		t.Errorf("%+v", r)
	}
}

// A function that panics leaves nothing on hold.
func TestSettlePanics(t *testing.T) {
	broken := errors.New("broken")
	for name, options := range map[string]httplimit.Options{
		"Settle":     {Settle: map[string]httplimit.Settle{"tokens": func(httplimit.Response) (int, bool) { panic(broken) }}},
		"OnDecision": {Settle: map[string]httplimit.Settle{"tokens": nil}, OnDecision: func(httplimit.Decision) { panic(broken) }},
	} {
		lim := newLimiter(t)
		tokens, again := perMinute("tokens", 1000), perMinute("tokens", 2000)
		again.Window, tokens.Cost, again.Cost = time.Hour, estimate, estimate
		options.Limiter, options.Key, options.Limits = lim, tenant, all(tokens, again)
		options.InFlight = func(string) int { return 1 }
		h := httplimit.Handler(ok, options)
		for i := range 3 {
			if got := panics(func() { get(h, "a") }); got != broken {
				t.Errorf("%s: %v", name, got)
			}
			for _, l := range []keyed.Request{tokens, again} {
				if n := used(t, lim, "a", l); n != (i+1)*estimate {
					t.Errorf("%s: charged %d", name, n)
				}
			}
		}
	}
}

func TestReportFindsNobody(t *testing.T) {
	var within, early context.Context
	h := httplimit.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		within = r.Context()
		if httplimit.Report(within, "money", 1) {
			t.Error("of a namespace that is not held")
		}
		if httplimit.Report(within, "requests", 1) {
			t.Error("of a namespace that was charged before")
		}
	}), httplimit.Options{
		Key: tenant, Limits: all(perMinute("requests", 9), perMinute("tokens", 9)), Settle: map[string]httplimit.Settle{"tokens": nil},
		OnDecision: func(d httplimit.Decision) { early = d.Request.Context() },
	})
	get(h, "a")
	for name, ctx := range map[string]context.Context{"no request": t.Context(), "before": early, "after": within} {
		if httplimit.Report(ctx, "tokens", 1) {
			t.Error(name)
		}
	}
}

// A report goes to the innermost Handler that holds a limit of the namespace.
func TestReportOfTwoHandlers(t *testing.T) {
	lim := newLimiter(t)
	user, company, money := perMinute("tokens", 1000), perMinute("tokens", 1000), perMinute("money", 1000)
	user.Key, company.Key, money.Key = "user", "company", "company"
	for _, l := range []*keyed.Request{&user, &company, &money} {
		l.Cost = estimate
	}
	settle := map[string]httplimit.Settle{"tokens": httplimit.Tokens, "money": nil}
	next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !httplimit.Report(r.Context(), "tokens", 3) || !httplimit.Report(r.Context(), "money", 4) {
			t.Error("not reported")
		}
		answer(200, "application/json", completion)(w, r)
	})
	inner := httplimit.Handler(next, httplimit.Options{Limiter: lim, Key: tenant, Limits: all(user), Settle: settle})
	outer := httplimit.Handler(inner, httplimit.Options{Limiter: lim, Key: tenant, Limits: all(company, money), Settle: settle})
	get(outer, "a")
	for _, c := range []struct {
		limit keyed.Request
		want  int
	}{{user, 3}, {company, 25}, {money, 4}} {
		if n := used(t, lim, c.limit.Key, c.limit); n != c.want {
			t.Errorf("%s of %s: %d, want %d", c.limit.Namespace, c.limit.Key, n, c.want)
		}
	}
}

// Reports, writes and late writers may come from several goroutines.
func TestReportAtOnce(t *testing.T) {
	lim := newLimiter(t)
	tokens := perMinute("tokens", math.MaxInt32)
	tokens.Cost = estimate
	var late sync.WaitGroup
	h := httplimit.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range 100 {
					httplimit.Report(r.Context(), "tokens", 2)
				}
			})
		}
		all.Wait()
		late.Go(func() { httplimit.Report(r.Context(), "tokens", 1000) })
		late.Wait()
	}), httplimit.Options{
		Limiter: lim, Key: tenant, Limits: all(tokens), Settle: map[string]httplimit.Settle{"tokens": nil},
	})
	get(h, "a")
	if n := used(t, lim, "a", tokens); n != 2600 {
		t.Errorf("charged %d", n)
	}
}

// The next handler reads the whole body of the request, and the client that of the response.
func TestBodiesPass(t *testing.T) {
	body := strings.Repeat("x", 10_000)
	lim := newLimiter(t)
	tokens := perMinute("tokens", 1000)
	tokens.Cost = estimate
	h := httplimit.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got, err := io.ReadAll(r.Body)
		if err != nil || string(got) != body {
			t.Errorf("body of %d bytes, %v", len(got), err)
		}
		answer(200, "application/json", completion)(w, r)
	}), httplimit.Options{
		Limiter: lim, Key: tenant, Limits: all(tokens), Settle: map[string]httplimit.Settle{"tokens": httplimit.Tokens},
	})
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	r.Header.Set("Tenant", "a")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Body.String() != completion {
		t.Errorf("%q", w.Body)
	}
}

// A request that only waits for the end of others is told so, and no time.
func TestRefusalByHeldUnits(t *testing.T) {
	var inner *httptest.ResponseRecorder
	var h http.Handler
	h = httplimit.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { inner = get(h, "a") }), httplimit.Options{
		Key: tenant, Limits: all(perMinute("tokens", 1)), Settle: map[string]httplimit.Settle{"tokens": nil},
	})
	get(h, "a")
	message, _, _ := errorOf(t, inner)
	want := "Rate limit of tokens reached: the limit is 1 per minute, 0 left. Try again when one of your requests has ended."
	if inner.Code != 429 || inner.Header().Get("Retry-After") != "1" || message != want {
		t.Errorf("%d %v %q", inner.Code, inner.Header(), message)
	}
}
