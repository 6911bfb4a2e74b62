package httplimit_test

import (
	"compress/gzip"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/httplimit"
)

// A reverse proxy in front of a provider: what its responses state is charged, also if the provider
// compresses them, provided that the proxy does not pass the client's Accept-Encoding on.
func TestReverseProxy(t *testing.T) {
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/json":
			answer(200, "application/json", completion)(w, r)
		case "/stream":
			answer(200, "text/event-stream", chunks)(w, r)
		case "/zipped":
			w.Header().Set("Content-Type", "application/json")
			if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
				io.WriteString(w, completion)
				return
			}
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			io.WriteString(z, completion)
			z.Close()
		case "/refused":
			w.Header().Set("Retry-After", "17")
			answer(429, "application/json", `{"error":{}}`)(w, r)
		case "/broken":
			w.Header().Set("Content-Type", "text/event-stream")
			w.Header().Set("Content-Length", "1000")
			io.WriteString(w, "data: {}\n\n")
			http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
	}))
	defer provider.Close()
	target, err := url.Parse(provider.URL)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		path  string
		plain bool // the client's Accept-Encoding goes no further
		want  int
	}{
		{"/json", true, 25}, {"/stream", true, 25}, {"/zipped", true, 25}, {"/zipped", false, estimate},
		{"/refused", true, 0}, {"/broken", true, estimate},
	} {
		lim := newLimiter(t)
		tokens := perMinute("tokens", 1000)
		tokens.Cost = estimate
		proxy := &httputil.ReverseProxy{
			ErrorLog: log.New(io.Discard, "", 0),
			Rewrite: func(r *httputil.ProxyRequest) {
				r.SetURL(target)
				if test.plain {
					r.Out.Header.Del("Accept-Encoding")
				}
			},
		}
		h := httplimit.Handler(proxy, httplimit.Options{
			Limiter: lim, Key: func(*http.Request) string { return "a" }, Limits: all(tokens),
			Settle: map[string]httplimit.Settle{"tokens": httplimit.Tokens},
		})
		front := httptest.NewServer(h)
		r, err := http.NewRequest(http.MethodPost, front.URL+test.path, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept-Encoding", "gzip")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatalf("%s: %v", test.path, err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		front.Close() // which waits for the handler
		if n := used(t, lim, "a", tokens); n != test.want {
			t.Errorf("%s, plain %v: charged %d, want %d", test.path, test.plain, n, test.want)
		}
		if test.path == "/refused" && resp.Header.Get("Retry-After") != "17" {
			t.Errorf("%v", resp.Header)
		}
	}
}

// A handler that http.TimeoutHandler abandons is charged the estimate: it may still use something.
func TestTimeoutHandlerAround(t *testing.T) {
	lim := newLimiter(t)
	tokens := perMinute("tokens", 1000)
	tokens.Cost = estimate
	answered, ended := make(chan bool), make(chan bool)
	h := httplimit.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-answered // with the end of its context alone, either answer might be first
		http.Error(w, "late", http.StatusGatewayTimeout)
	}), httplimit.Options{
		Limiter: lim, Key: tenant, Limits: all(tokens), Settle: map[string]httplimit.Settle{"tokens": httplimit.Tokens},
	})
	around := http.TimeoutHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		h.ServeHTTP(w, r)
	}), time.Millisecond, "timeout")
	if w := get(around, "a"); w.Code != http.StatusServiceUnavailable {
		t.Errorf("%d", w.Code)
	}
	close(answered)
	<-ended
	if n := used(t, lim, "a", tokens); n != estimate {
		t.Errorf("charged %d", n)
	}
}
