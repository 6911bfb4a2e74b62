package llmhttp_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"runtime"
	"strings"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// settlesDown reports whether no call is in flight any more, at the latest when what is garbage is collected.
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

// A panic in OnEvent keeps neither a slot nor a lock.
func TestOnEventPanics(t *testing.T) {
	for _, kind := range []llmhttp.EventKind{llmhttp.EventAdmitted, llmhttp.EventAnswered, llmhttp.EventProblem, llmhttp.EventSettled} {
		t.Run(string(kind), func(t *testing.T) {
			rl := newLimiter(t, ratelimit.ModelQuota{MaxInFlight: 1})
			panicked := false
			tr := &llmhttp.Transport{Limiter: rl, Base: reply(400, `{}`), OnEvent: func(e llmhttp.Event) {
				if e.Kind == kind && !panicked {
					panicked = true
					panic("of OnEvent")
				}
			}}
			func() {
				defer func() { recover() }()
				if resp, err := post(t, tr, chatURL, `{"model":"m"}`); err == nil {
					readAll(t, resp)
				}
			}()
			if !panicked || !settlesDown(rl) {
				t.Errorf("panicked: %t; %+v", panicked, rl.Stats("m"))
			}
			runtime.KeepAlive(tr)
		})
	}
}

// A Base that changes its request, as many wrappers do, does not change the caller's.
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

// As http.Transport, it returns an error for a request without a URL, and closes the body.
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

// A body that fails is not sent as if it were whole, and one that can be sent is.
func TestOddRequestBodies(t *testing.T) {
	rl := newLimiter(t, ratelimit.ModelQuota{})
	sent := ""
	tr := &llmhttp.Transport{Limiter: rl, Base: base(func(req *http.Request) (*http.Response, error) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		sent = string(body)
		return response(req, 200, "{}"), nil
	})}
	const text = `{"model":"m"}`
	t.Run("it ends with an error that wraps io.EOF", func(t *testing.T) {
		cut := io.MultiReader(strings.NewReader(text), &failing{fmt.Errorf("connection lost: %w", io.EOF)})
		req, _ := http.NewRequestWithContext(t.Context(), "POST", chatURL, cut)
		if _, err := tr.RoundTrip(req); err == nil {
			t.Errorf("%q was sent as if it were whole", sent)
		}
	})
	t.Run("GetBody fails", func(t *testing.T) {
		sent = ""
		req, _ := http.NewRequestWithContext(t.Context(), "POST", chatURL, strings.NewReader(text))
		req.GetBody = func() (io.ReadCloser, error) { return nil, errors.New("only once") }
		if _, err := tr.RoundTrip(req); err != nil || sent != text {
			t.Errorf("sent %q, %v", sent, err)
		}
	})
}

type failing struct{ err error }

func (f *failing) Read([]byte) (int, error) { return 0, f.err }
