package httplimit_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/httplimit"
	"dappco.re/go/core/go-ratelimit/keyed"
)

func TestRequestsBeyondTheLimitAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		atMinute()
		time.Sleep(20*time.Second - time.Millisecond)
		served := 0
		h := httplimit.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ }), httplimit.Options{
			Key: tenant, Limits: all(perMinute("requests", 3)),
		})
		for i := range 3 {
			if w := get(h, "a"); w.Code != 200 || w.Header().Get("Retry-After") != "" {
				t.Errorf("request %d: %d %v", i, w.Code, w.Header())
			}
		}
		w := get(h, "a")
		if w.Code != 429 || served != 3 {
			t.Fatalf("%d after %d served", w.Code, served)
		}
		// The cell ends in 40.001 s, and fades from then on.
		if got := w.Header().Get("Retry-After"); got != "41" {
			t.Errorf("Retry-After %q", got)
		}
		message, kind, code := errorOf(t, w)
		want := "Rate limit of requests reached: the limit is 3 per minute, 0 left. Try again in 41 s."
		if message != want || kind != "rate_limit_error" || code != "rate_limit_exceeded" {
			t.Errorf("%q, %s, %s", message, kind, code)
		}
		if w := get(h, "b"); w.Code != 200 {
			t.Errorf("another tenant: %d", w.Code)
		}
		time.Sleep(41 * time.Second)
		if w := get(h, "a"); w.Code != 200 {
			t.Errorf("after Retry-After: %d", w.Code)
		}
	})
}

func TestAllLimitsAreTakenOrNone(t *testing.T) {
	for _, settle := range []map[string]httplimit.Settle{nil, {"tokens": nil}} {
		synctest.Test(t, func(t *testing.T) {
			atMinute()
			lim := newLimiter(t)
			requests, tokens := perMinute("requests", 10), perMinute("tokens", 100)
			tokens.Cost = 60
			h := httplimit.Handler(ok, httplimit.Options{
				Limiter: lim, Key: tenant, Limits: all(requests, tokens), Settle: settle,
			})
			for i, want := range []int{200, 429, 429} {
				if w := get(h, "a"); w.Code != want {
					t.Errorf("settle %v: request %d: %d, want %d", settle != nil, i, w.Code, want)
				}
			}
			if r, n := used(t, lim, "a", requests), used(t, lim, "a", tokens); r != 1 || n != 60 {
				t.Errorf("settle %v: charged %d requests, %d tokens", settle != nil, r, n)
			}
		})
	}
}

// A tenant cannot read from a refusal whose key it has guessed.
func TestTheKeyIsNeverEchoed(t *testing.T) {
	const secret = "sk-secret"
	for name, options := range map[string]httplimit.Options{
		"over the limit": {Limits: all(perMinute("requests", 1))},
		"too large":      {Limits: all(keyed.Request{Namespace: "tokens", Limit: 1, Window: time.Minute, Cost: 2})},
		"invalid":        {Limits: all(keyed.Request{Namespace: "tokens"})},
		"in flight":      {InFlight: func(string) int { return 1 }},
	} {
		var h http.Handler
		depth := 0
		options.Key, options.Legacy = tenant, true
		h = httplimit.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if depth++; depth < 3 {
				h.ServeHTTP(w, r)
			}
		}), options)
		w := get(h, secret)
		if text := w.Body.String(); w.Code < 400 || !strings.Contains(text, "error") || strings.Contains(text, secret) {
			t.Errorf("%s: %d %s", name, w.Code, text)
		}
		for field, values := range w.Header() {
			if strings.Contains(strings.Join(values, " "), secret) {
				t.Errorf("%s: %s: %q", name, field, values)
			}
		}
	}
}

func TestDecisions(t *testing.T) {
	closed := newLimiter(t)
	if err := closed.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	big := keyed.Request{Namespace: "tokens", Limit: 10, Window: time.Minute, Cost: 11}
	for _, test := range []struct {
		name    string
		key     string
		options httplimit.Options
		reason  httplimit.Reason
		status  int
		retry   time.Duration
		never   bool
		err     error
		code    string // of the error; empty if it is null
		words   string // in the message
	}{
		{name: "fits", key: "a", options: httplimit.Options{Limits: all(perMinute("requests", 1))}, status: 200},
		{name: "no limits", key: "a", options: httplimit.Options{Limits: all()}, status: 200},
		{name: "no key", options: httplimit.Options{Limits: all()}, reason: httplimit.NoKey, status: 401, words: "API key"},
		{
			name: "too large", key: "a", options: httplimit.Options{Limits: all(perMinute("requests", 1), big)},
			reason: httplimit.OverLimit, status: 429, never: true, code: "rate_limit_exceeded",
			words: "too large for the rate limit of tokens: it needs 11, and the limit is 10 per minute",
		},
		{
			name: "invalid", key: "a", options: httplimit.Options{Limits: all(perMinute("requests", 0))},
			reason: httplimit.Failed, status: 500, err: keyed.ErrInvalid, words: "cannot be checked",
		},
		{
			name: "invalid on hold", key: "a",
			options: httplimit.Options{Limits: all(perMinute("requests", 0)), Settle: map[string]httplimit.Settle{"requests": nil}},
			reason:  httplimit.Failed, status: 500, err: keyed.ErrInvalid, words: "cannot be checked",
		},
		{
			name: "closed", key: "a", options: httplimit.Options{Limiter: closed, Limits: all(perMinute("requests", 1))},
			reason: httplimit.Failed, status: 500, err: keyed.ErrClosed, words: "cannot be checked",
		},
		{name: "no limit in flight", key: "a", options: httplimit.Options{InFlight: func(string) int { return 0 }}, status: 200},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, shadow := range []bool{false, true} {
				var decisions []httplimit.Decision
				served := false
				o := test.options
				o.Key, o.Shadow = tenant, shadow
				o.OnDecision = func(d httplimit.Decision) { decisions = append(decisions, d) }
				h := httplimit.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served = true }), o)
				w := get(h, test.key)
				fits := test.reason == ""
				status := test.status
				if shadow {
					status = 200
				}
				if w.Code != status || served != (fits || shadow) {
					t.Errorf("shadow %v: %d, served %v", shadow, w.Code, served)
				}
				if len(decisions) != 1 {
					t.Fatalf("shadow %v: %d decisions", shadow, len(decisions))
				}
				d := decisions[0]
				if d.Key != test.key || d.OK != fits || d.Reason != test.reason || d.Shadow != (shadow && !fits) ||
					d.RetryAfter != test.retry || d.Never() != test.never || !errors.Is(d.Err, test.err) {
					t.Errorf("shadow %v: decision %+v", shadow, d)
				}
				if fits || shadow {
					continue
				}
				message, _, code := errorOf(t, w)
				if d.Status != test.status || code != test.code || !strings.Contains(message, test.words) {
					t.Errorf("%d %q, code %q", d.Status, message, code)
				}
				if got := w.Header().Get("X-Should-Retry"); (got == "false") != test.never {
					t.Errorf("X-Should-Retry %q", got)
				}
				if got := w.Header().Get("Retry-After"); got != "" {
					t.Errorf("Retry-After %q", got)
				}
			}
		})
	}
}

func TestCosts(t *testing.T) {
	five := perMinute("tokens", 100)
	five.Cost = 5
	byNamespace := func(_ *http.Request, l keyed.Request) int {
		return map[string]int{"requests": 2, "tokens": 7, "credit": -3}[l.Namespace]
	}
	for _, test := range []struct {
		name  string
		limit keyed.Request
		cost  func(*http.Request, keyed.Request) int
		want  int
	}{
		{"of the limit", five, nil, 5},
		{"one", perMinute("requests", 100), nil, 1},
		{"of a function", perMinute("requests", 100), byNamespace, 2},
		{"of a function, not of the limit", five, byNamespace, 7},
		{"free", perMinute("other", 100), byNamespace, 0},
		{"negative is nothing", perMinute("credit", 100), byNamespace, 0},
	} {
		for _, settle := range []map[string]httplimit.Settle{nil, {test.limit.Namespace: nil}} {
			lim := newLimiter(t)
			h := httplimit.Handler(ok, httplimit.Options{
				Limiter: lim, Key: tenant, Limits: all(test.limit), Cost: test.cost, Settle: settle,
			})
			if w := get(h, "a"); w.Code != 200 {
				t.Errorf("%s: %d", test.name, w.Code)
			}
			if got := used(t, lim, "a", test.limit); got != test.want {
				t.Errorf("%s, settle %v: charged %d, want %d", test.name, settle != nil, got, test.want)
			}
		}
	}
}

func TestCostSeesTheRequestAndTheLimit(t *testing.T) {
	l := perMinute("tokens", 100)
	l.Cost = 3
	var got keyed.Request
	h := httplimit.Handler(ok, httplimit.Options{
		Key: tenant, Limits: all(l),
		Cost: func(r *http.Request, l keyed.Request) int {
			got = l
			return int(r.ContentLength)
		},
	})
	get(h, "a")
	if l.Key = "a"; got != l {
		t.Errorf("%+v, want %+v", got, l)
	}
}

// Limits may return the same slice for all keys.
func TestLimitsAreNotChanged(t *testing.T) {
	company := perMinute("requests", 2)
	company.Key = "company"
	limits := []keyed.Request{perMinute("requests", 10), company}
	before := append([]keyed.Request(nil), limits...)
	lim := newLimiter(t)
	h := httplimit.Handler(ok, httplimit.Options{Limiter: lim, Key: tenant, Limits: all(limits...)})
	for i, want := range []int{200, 200, 429} {
		if w := get(h, string(rune('a'+i))); w.Code != want {
			t.Errorf("request %d: %d, want %d", i, w.Code, want)
		}
	}
	if !reflect.DeepEqual(limits, before) {
		t.Errorf("%+v", limits)
	}
	if n := used(t, lim, "c", limits[0]); n != 0 {
		t.Errorf("the refused one was charged %d", n)
	}
}

func TestShadowCountsAsAnEnforcingHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		atMinute()
		lim := newLimiter(t)
		l := perMinute("requests", 2)
		passed := 0
		h := httplimit.Handler(ok, httplimit.Options{
			Limiter: lim, Key: tenant, Limits: all(l), Shadow: true, Legacy: true,
			OnDecision: func(d httplimit.Decision) {
				if d.OK {
					passed++
				}
			},
		})
		var w *httptest.ResponseRecorder
		for range 5 {
			if w = get(h, "a"); w.Code != 200 || w.Body.String() != "ok" || w.Header().Get("Retry-After") != "" {
				t.Errorf("%d %v", w.Code, w.Header())
			}
		}
		if got := w.Header().Get("RateLimit"); !strings.HasPrefix(got, `"requests";r=0;t=`) {
			t.Errorf("RateLimit %q", got)
		}
		if n := used(t, lim, "a", l); passed != 2 || n != 2 {
			t.Errorf("%d passed, %d charged", passed, n)
		}
	})
}

func TestRefuseAnswers(t *testing.T) {
	h := httplimit.Handler(ok, httplimit.Options{
		Key: tenant, Limits: all(perMinute("requests", 1)),
		Refuse: func(w http.ResponseWriter, _ *http.Request, d httplimit.Decision) {
			w.Header().Set("X-Reason", string(d.Reason))
			http.Error(w, "slow down", d.Status+50)
		},
	})
	get(h, "a")
	w := get(h, "a")
	if w.Code != 479 || w.Body.String() != "slow down\n" || w.Header().Get("X-Reason") != "limit" ||
		w.Header().Get("Retry-After") == "" || w.Header().Get("RateLimit") == "" {
		t.Errorf("%d %q %v", w.Code, w.Body, w.Header())
	}
}

// The decision is local when the client has left already, and an ended context leaves no hold open.
func TestEndedContext(t *testing.T) {
	lim := newLimiter(t)
	l := perMinute("tokens", 100)
	l.Cost = 10
	h := httplimit.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, r.Context().Err().Error(), http.StatusBadGateway)
	}), httplimit.Options{
		Limiter: lim, Key: tenant, Limits: all(l), Settle: map[string]httplimit.Settle{"tokens": httplimit.Tokens},
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
	r.Header.Set("Tenant", "a")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if n := used(t, lim, "a", l); w.Code != 502 || n != 10 {
		t.Errorf("%d, charged %d", w.Code, n)
	}
}

func TestHandlerPanicsWithoutWhatItNeeds(t *testing.T) {
	for want, do := range map[string]func(){
		"httplimit: next is nil":                                 func() { httplimit.Handler(nil, httplimit.Options{Key: tenant, Limits: all()}) },
		"httplimit: Options.Key is nil":                          func() { httplimit.Handler(ok, httplimit.Options{Limits: all()}) },
		"httplimit: Options.Limits and Options.InFlight are nil": func() { httplimit.Handler(ok, httplimit.Options{Key: tenant}) },
	} {
		if got := panics(do); got != want {
			t.Errorf("%v, want %s", got, want)
		}
	}
}
