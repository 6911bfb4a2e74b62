package llmhttp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// Base gets the identical request if it is no call to a model.
func TestPassThrough(t *testing.T) {
	rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"*": {MaxRPM: 1}}})
	var got *http.Request
	tr := &llmhttp.Transport{Limiter: rl, Base: base(func(req *http.Request) (*http.Response, error) {
		got = req
		return response(req, 200, `{"usage":{"prompt_tokens":1,"completion_tokens":1}}`), nil
	})}
	for _, test := range []struct{ name, method, path, body string }{
		{"another path", "POST", "/v1/files", `{"model":"m"}`},
		{"another method", "GET", "/v1/chat/completions", ``},
		{"a stored response", "GET", "/v1/responses/resp_1", ``},
		{"a cancel", "POST", "/v1/responses/resp_1/cancel", ``},
		{"batches", "POST", "/v1/messages/batches", `{"requests":[]}`},
		{"count_tokens", "POST", "/v1/messages/count_tokens", `{"model":"m"}`},
		{"countTokens", "POST", "/v1beta/models/m:countTokens", `{}`},
		{"a list of models", "GET", "/v1beta/models", ``},
		{"another method of a model", "POST", "/v1beta/models/m:predictLongRunning", `{}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			req := httptest.NewRequest(test.method, "http://llm.test"+test.path, strings.NewReader(test.body))
			for range 3 {
				if _, err := tr.RoundTrip(req); err != nil {
					t.Fatal(err)
				}
				if got != req {
					t.Error("Base got another request")
				}
			}
		})
	}
	for _, body := range []string{`{"messages":[]}`, `not JSON`, ``, `{"model":""}`, `{"model":7}`} {
		resp, err := post(t, tr, "http://llm.test/v1/threads/t/messages", body)
		if err != nil {
			t.Fatalf("%q: %v", body, err)
		}
		readAll(t, resp)
	}
	if all := rl.AllStats(); len(all) != 0 {
		t.Errorf("something was charged: %v", all)
	}
}

// A call that was never sent costs nothing. A call that was sent and failed costs its estimate.
func TestFailedCalls(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	hangsUp := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, _, _ := w.(http.Hijacker).Hijack()
		conn.Close()
	}))
	defer hangsUp.Close()
	stub := errors.New("no network")
	for _, test := range []struct {
		name, url string
		base      http.RoundTripper
		requests  int
	}{
		{"nobody listens", gone.URL, nil, 0},
		{"the connection breaks after the request", hangsUp.URL, nil, 1},
		{"a Base that fails before it reads the body", "http://llm.test", base(func(*http.Request) (*http.Response, error) { return nil, stub }), 0},
		{"and after", "http://llm.test", base(func(req *http.Request) (*http.Response, error) { io.ReadAll(req.Body); return nil, stub }), 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			rl := newLimiter(t, ratelimit.ModelQuota{MaxTPM: 100_000})
			tr := &llmhttp.Transport{Limiter: rl, Base: test.base}
			defer tr.CloseIdleConnections()
			if _, err := post(t, tr, test.url+"/v1/chat/completions", `{"model":"m"}`); err == nil {
				t.Fatal("no error")
			}
			s := rl.Stats("m")
			if s.RPM != test.requests || (s.TPM > 0) != (test.requests > 0) || s.InFlight != 0 {
				t.Errorf("charged %+v", s)
			}
		})
	}
}

// settlesDown reports whether all calls are settled, at the latest when garbage-collected
// reservations are.
func settlesDown(rl *ratelimit.RateLimiter) bool {
	for range 100 {
		if rl.Stats("m").InFlight == 0 {
			return true
		}
		runtime.GC()
		time.Sleep(10 * time.Millisecond)
	}
	return false
}

// A Base that breaks its contract breaks neither the program nor the quota.
func TestBaseMisbehaves(t *testing.T) {
	for _, test := range []struct {
		name string
		base base
		want string // of the error, the panic or the body
	}{
		{"neither response nor error", func(*http.Request) (*http.Response, error) { return nil, nil }, "error"},
		{"both", func(req *http.Request) (*http.Response, error) { return response(req, 200, "{}"), errors.New("error") }, "error"},
		{"no body", func(req *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200}, nil
		}, ""},
		{"a panic", func(req *http.Request) (*http.Response, error) { panic("of Base") }, "panic"},
		{"it reads and closes the body, and tells that it was written, later", func(req *http.Request) (*http.Response, error) {
			trace := httptrace.ContextClientTrace(req.Context())
			go func() {
				io.Copy(io.Discard, req.Body)
				req.Body.Close()
				trace.WroteHeaders()
				trace.WroteRequest(httptrace.WroteRequestInfo{})
			}()
			return response(req, 200, "{}"), nil
		}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			rl := newLimiter(t, ratelimit.ModelQuota{MaxInFlight: 1})
			tr := &llmhttp.Transport{Limiter: rl, Base: test.base}
			func() {
				defer func() {
					if r := recover(); (r != nil) != (test.want == "panic") {
						t.Errorf("panic: %v", r)
					}
				}()
				resp, err := post(t, tr, chatURL, `{"model":"m"}`)
				if (err != nil) != (test.want == "error") {
					t.Errorf("got %v, %v", resp, err)
				}
				if err == nil && resp.Body != nil {
					readAll(t, resp)
				}
			}()
			if !settlesDown(rl) {
				t.Error("the slot is not free again")
			}
			runtime.KeepAlive(tr)
		})
	}
}

// A Base that changes its request, as many wrappers do, does not change the caller's request.
func TestRequestIsCloned(t *testing.T) {
	rl := newLimiter(t, ratelimit.ModelQuota{})
	tr := &llmhttp.Transport{Limiter: rl, Base: base(func(req *http.Request) (*http.Response, error) {
		req.Header.Set("Authorization", "Bearer other")
		req.Header.Set("X-New", "1")
		return response(req, 200, "{}"), nil
	})}
	for _, withGetBody := range []bool{true, false} {
		var body io.Reader = strings.NewReader(`{"model":"m"}`)
		if !withGetBody {
			body = io.MultiReader(body)
		}
		req, _ := http.NewRequestWithContext(t.Context(), "POST", chatURL, body)
		req.Header.Set("Authorization", "Bearer mine")
		before := fmt.Sprint(req.Header)
		resp, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		readAll(t, resp)
		if after := fmt.Sprint(req.Header); after != before {
			t.Errorf("GetBody %t: the caller's headers are %s now, were %s", withGetBody, after, before)
		}
	}
}

// Like http.Transport, it returns an error for a request without a URL, and closes the body.
func TestRequestWithoutURL(t *testing.T) {
	rl := newLimiter(t, ratelimit.ModelQuota{})
	for _, other := range []http.RoundTripper{http.DefaultTransport, &llmhttp.Transport{Limiter: rl}} {
		closed := false
		func() {
			defer func() {
				if r := recover(); r != nil {
					t.Errorf("%T: panic: %v", other, r)
				}
			}()
			if _, err := other.RoundTrip(&http.Request{Method: "POST", Body: &closer{strings.NewReader("{}"), &closed}}); err == nil || !closed {
				t.Errorf("%T: %v, closed: %t", other, err, closed)
			}
		}()
	}
}

// The body of a 101 is a connection.
func TestSwitchingProtocols(t *testing.T) {
	type connection struct {
		io.Reader
		io.Writer
		io.Closer
	}
	rl := newLimiter(t, ratelimit.ModelQuota{MaxTPM: 100_000})
	conn := &connection{strings.NewReader("hello"), new(bytes.Buffer), io.NopCloser(nil)}
	tr := &llmhttp.Transport{Limiter: rl, Base: base(func(req *http.Request) (*http.Response, error) {
		resp := response(req, 101, "")
		resp.Body = conn
		return resp, nil
	})}
	resp, err := post(t, tr, "http://llm.test/v1/responses", `{"model":"m"}`)
	if err != nil {
		t.Fatal(err)
	}
	if resp.Body != io.ReadCloser(conn) {
		t.Errorf("the body is a %T now", resp.Body)
	}
	if s := rl.Stats("m"); s.RPM != 1 || s.TPM == 0 || s.InFlight != 0 {
		t.Errorf("charged %+v", s)
	}
}

// counter is a handler of the limiter's events that counts them.
type counter struct{ atomic.Int64 }

func (c *counter) HandleEvent(context.Context, *ratelimit.Event) { c.Add(1) }

// BenchmarkTransport measures a call without a network, bare, through a Transport, with a handler
// of the limiter's events, and through a Route with three keys. internal/bench measures the same
// over loopback.
func BenchmarkTransport(b *testing.B) {
	header := http.Header{
		"Content-Type":                   {"application/json"},
		"X-Ratelimit-Limit-Requests":     {"5000"},
		"X-Ratelimit-Remaining-Requests": {"4999"},
		"X-Ratelimit-Reset-Requests":     {"12ms"},
		"X-Ratelimit-Limit-Tokens":       {"4000000"},
		"X-Ratelimit-Remaining-Tokens":   {"3999900"},
		"X-Ratelimit-Reset-Tokens":       {"1ms"},
	}
	answer := `{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"` +
		strings.Repeat("word ", 40) + `"},"finish_reason":"stop"}],"usage":{"prompt_tokens":25,"completion_tokens":40,"total_tokens":65}}`
	bare := base(func(req *http.Request) (*http.Response, error) {
		io.Copy(io.Discard, req.Body)
		return &http.Response{StatusCode: 200, Header: header, Body: io.NopCloser(strings.NewReader(answer))}, nil
	})
	body := `{"model":"m","max_tokens":100,"messages":[{"role":"user","content":"` + strings.Repeat("x", 100) + `"}]}`
	wide := ratelimit.ModelQuota{MaxRPM: 100_000_000, MaxTPM: 2_000_000_000}
	for _, test := range []struct {
		name string
		rt   http.RoundTripper
	}{
		{"bare", bare},
		{"ours", &llmhttp.Transport{Limiter: newLimiter(b, wide), Base: bare}},
		{"observed", &llmhttp.Transport{Limiter: newLimiterWith(b, ratelimit.Config{Events: new(counter), Quotas: map[string]ratelimit.ModelQuota{"m": wide}}), Base: bare}},
		{"routed", &llmhttp.Route{Backends: keyed("a", "b", "c"), Transport: llmhttp.Transport{
			Limiter: newLimiterWith(b, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"*": wide}}), Base: bare,
		}}},
	} {
		b.Run(test.name, func(b *testing.B) {
			b.ReportAllocs()
			piece := make([]byte, 4096)
			for b.Loop() {
				req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, chatURL, strings.NewReader(body))
				if err != nil {
					b.Fatal(err)
				}
				resp, err := test.rt.RoundTrip(req)
				if err != nil {
					b.Fatal(err)
				}
				for err == nil {
					_, err = resp.Body.Read(piece)
				}
				resp.Body.Close()
			}
		})
	}
}
