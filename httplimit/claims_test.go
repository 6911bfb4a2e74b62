// Claims: what the documents promise, each tried from outside.

package httplimit_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/httplimit"
	"dappco.re/go/core/go-ratelimit/keyed"
)

func claimTokens(lim *keyed.Limiter, limit int, estimate int) httplimit.Options {
	return httplimit.Options{
		Limiter: lim,
		Key:     func(*http.Request) string { return "t" },
		Limits:  all(keyed.Request{Namespace: "tokens", Limit: limit, Window: time.Hour}),
		Cost:    func(*http.Request, keyed.Request) int { return estimate },
		Settle:  map[string]httplimit.Settle{"tokens": httplimit.Tokens},
	}
}

func TestClaimUsageBombs(t *testing.T) {
	const estimate = 100
	for _, tt := range []struct {
		body string
		want int
	}{
		{`{"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}`, 7},
		{`{"usage":{"prompt_tokens":-3,"completion_tokens":4}}`, estimate},
		{`{"usage":{"prompt_tokens":1e308,"completion_tokens":4}}`, estimate},
		{`{"usage":{"prompt_tokens":9223372036854775807,"completion_tokens":9223372036854775807}}`, estimate},
		{`{"usage":{"prompt_tokens":99999999999999999999999999,"completion_tokens":4}}`, estimate},
		{`{"usage":{"prompt_tokens":1.5,"completion_tokens":4}}`, estimate},
		{`{"usage":{"prompt_tokens":"3","completion_tokens":4}}`, estimate},
		{`{"usage":{"prompt_tokens":{"a":1},"completion_tokens":4}}`, -1},
		{`{"usage":null}`, estimate},
		{`{"usage":{}}`, estimate},
		{`{"usage":[]}`, estimate},
		{`null`, estimate},
		{``, estimate},
		{`{`, estimate},
		{`{"choices":[{"message":{"content":"{\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":1}}"}}],"usage":{"prompt_tokens":3,"completion_tokens":4}}`, 7},
		{`{"choices":[{"usage":{"prompt_tokens":1,"completion_tokens":1}}],"usage":{"prompt_tokens":3,"completion_tokens":4}}`, 7},
		{`{"usage":{"prompt_tokens":3,"completion_tokens":4},"choices":[{"usage":{"prompt_tokens":1,"completion_tokens":1}}]}`, 7},
		{`{"usage":{"prompt_tokens":3,"completion_tokens":4,"x":{"prompt_tokens":1,"completion_tokens":1}}}`, 7},
		{`{"usage":{"prompt_tokens":3,"prompt_tokens":5,"completion_tokens":4}}`, 9},
		{strings.Repeat(`{"a":`, 20000) + `1` + strings.Repeat(`}`, 20000), estimate},
		{`{"` + strings.Repeat("k", 1<<20) + `":1,"usage":{"prompt_tokens":3,"completion_tokens":4}}`, 7},
	} {
		for _, contentType := range []string{"application/json", ""} {
			lim := newLimiter(t)
			h := httplimit.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if contentType != "" {
					w.Header().Set("Content-Type", contentType)
				}
				io.WriteString(w, tt.body)
			}), claimTokens(lim, 1000, estimate))
			w := get(h, "t")
			if w.Body.String() != tt.body {
				t.Error("body changed")
			}
			got := used(t, lim, "t", keyed.Request{Namespace: "tokens", Limit: 1000, Window: time.Hour})
			if tt.want >= 0 && got != tt.want || got < 0 {
				t.Errorf("%.100s: %d, want %d", tt.body, got, tt.want)
			}
		}
	}
}

func TestClaimSSESplit(t *testing.T) {
	stream := "\ufeff: comment\r\n\r\ndata: {\"id\":\"1\",\"choices\":[{\"delta\":{\"content\":\"\\\"usage\\\":{\"}}],\"usage\":null}\r\n\r\nevent: x\rdata: {\"choices\":[],\rdata: \"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4,\"prompt_tokens_details\":{\"cached_tokens\":1}}}\r\rdata: [DONE]\n\n"
	for size := 1; size <= len(stream); size++ {
		lim := newLimiter(t)
		h := httplimit.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
			for i := 0; i < len(stream); i += size {
				io.WriteString(w, stream[i:min(i+size, len(stream))])
				if i%7 == 0 {
					http.NewResponseController(w).Flush()
				}
			}
		}), claimTokens(lim, 1000, 100))
		w := get(h, "t")
		if w.Body.String() != stream {
			t.Fatal("changed")
		}
		if got := used(t, lim, "t", keyed.Request{Namespace: "tokens", Limit: 1000, Window: time.Hour}); got != 7 {
			t.Fatalf("size %d: %d", size, got)
		}
	}
}

type claimDiscard struct{ h http.Header }

func (d claimDiscard) Header() http.Header         { return d.h }
func (d claimDiscard) Write(p []byte) (int, error) { return len(p), nil }
func (d claimDiscard) WriteHeader(int)             {}

func TestClaimBigBodies(t *testing.T) {
	for _, contentType := range []string{"application/json", "text/event-stream", ""} {
		for _, fill := range []string{"a", "\n", "{", "[", "\"", "data: x\n", "data:", "1", `{"usage":`, "data: {\"usage\":\n"} {
			lim := newLimiter(t)
			h := httplimit.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", contentType)
				chunk := bytes.Repeat([]byte(fill), 1<<16/len(fill))
				for range 32 {
					w.Write(chunk)
				}
			}), claimTokens(lim, 1000, 100))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := time.Now()
			r := httptest.NewRequest("GET", "/", nil)
			h.ServeHTTP(claimDiscard{http.Header{}}, r)
			took := time.Since(start)
			runtime.ReadMemStats(&after)
			if n := after.TotalAlloc - before.TotalAlloc; n > 2<<20 || took > 8*time.Second {
				t.Errorf("%q %q: %d bytes allocated for 2 MB, %v", contentType, fill, n, took)
			}
		}
	}
}

func TestClaimPanic(t *testing.T) {
	lim := newLimiter(t)
	o := claimTokens(lim, 1000, 100)
	o.InFlight = func(string) int { return 1 }
	for i, next := range []http.HandlerFunc{
		func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) },
		func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("x")); panic("boom") },
		func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(500); panic("boom") },
		func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(99) },
		func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(1000) },
	} {
		h := httplimit.Handler(next, o)
		if panics(func() { get(h, "t") }) == nil {
			t.Error(i, "panic swallowed")
		}
		if w := get(httplimit.Handler(ok, o), "t"); w.Code != 200 {
			t.Error(i, w.Code)
		}
	}
}

func TestClaimInjection(t *testing.T) {
	for _, ns := range []string{"a\r\nSet-Cookie: x=1", "a\"b", "a\\b", "é", "a;b=c", "a, b", "\x00", strings.Repeat("x", 100000)} {
		lim := newLimiter(t)
		var settle map[string]httplimit.Settle
		for _, s := range []bool{false, true} {
			if s {
				settle = map[string]httplimit.Settle{ns: nil}
			}
			h := httplimit.Handler(ok, httplimit.Options{Limiter: lim, Legacy: true, Settle: settle,
				Key:    func(*http.Request) string { return "k\r\nEvil: 1" },
				Limits: all(keyed.Request{Namespace: ns, Limit: 1, Window: 400 * 24 * time.Hour})})
			srv := httptest.NewServer(h)
			for range 2 {
				resp, err := http.Get(srv.URL)
				if err != nil {
					t.Errorf("%.20q: %v", ns, err)
					continue
				}
				body, _ := io.ReadAll(resp.Body)
				resp.Body.Close()
				if resp.Header.Get("Set-Cookie") != "" || resp.Header.Get("Evil") != "" || strings.Contains(string(body), "Evil") {
					t.Errorf("%v %s", resp.Header, body)
				}
				if resp.StatusCode == 429 && (resp.Header.Get("Retry-After") == "" || resp.Header.Get("RateLimit") == "") {
					t.Error(resp.Header)
				}
			}
			srv.Close()
		}
	}
}

func TestClaimLimitsOdd(t *testing.T) {
	one := keyed.Request{Namespace: "requests", Limit: 2, Window: time.Minute}
	for name, limits := range map[string][]keyed.Request{
		"nil": nil, "empty": {}, "duplicates": {one, one}, "huge": {{Namespace: "x", Limit: math.MaxInt, Window: time.Hour, Cost: math.MaxInt}},
		"bad": {{Namespace: "", Limit: 0, Window: 0}}, "many": func() (l []keyed.Request) {
			for i := range 500 {
				l = append(l, keyed.Request{Namespace: fmt.Sprint(i % 250), Limit: 9, Window: time.Duration(1+i) * time.Second})
			}
			return l
		}(),
	} {
		for _, shadow := range []bool{false, true} {
			h := httplimit.Handler(ok, httplimit.Options{Limiter: newLimiter(t), Legacy: true, Shadow: shadow, Key: tenant, Limits: func(string) []keyed.Request { return limits }})
			for range 3 {
				w := get(h, "t")
				t.Log(name, shadow, w.Code, w.Header().Get("Retry-After"), fmt.Sprintf("%.120s", w.Header().Get("RateLimit")))
				if shadow && w.Code != 200 {
					t.Error(name, w.Code)
				}
			}
		}
	}
}

func TestClaimProtocols(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		lim := newLimiter(t)
		mux := http.NewServeMux()
		mux.HandleFunc("/304", func(w http.ResponseWriter, r *http.Request) { w.Header().Set("ETag", `"x"`); w.WriteHeader(304) })
		mux.HandleFunc("/204", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(204) })
		mux.HandleFunc("/twice", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(201)
			w.WriteHeader(500)
			w.Write([]byte("x"))
		})
		mux.HandleFunc("/trailer", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Trailer", "X-T")
			w.Write([]byte("x"))
			w.Header().Set("X-T", "1")
			w.Header().Set(http.TrailerPrefix+"X-U", "2")
		})
		mux.HandleFunc("/early", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Link", "</a>")
			w.WriteHeader(103)
			w.Write([]byte("x"))
		})
		mux.HandleFunc("/head", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "5")
			w.Write([]byte("hello"))
		})
		mux.HandleFunc("/deadline", func(w http.ResponseWriter, r *http.Request) {
			c := http.NewResponseController(w)
			if err := c.SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Error(err)
			}
			if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Error(err)
			}
			if err := c.EnableFullDuplex(); err != nil && !h2 {
				t.Error(err)
			}
			if err := c.Flush(); err != nil && r.Method == "GET" { // net/http: HEAD over HTTP/2 ends with the flush
				t.Error(err)
			}
		})
		srv := httptest.NewUnstartedServer(httplimit.Handler(mux, claimTokens(lim, 100000, 10)))
		srv.EnableHTTP2 = h2
		srv.StartTLS()
		c := srv.Client()
		for _, m := range []string{"GET", "HEAD"} {
			for path, want := range map[string]int{"/304": 304, "/204": 204, "/twice": 201, "/trailer": 200, "/early": 200, "/head": 200, "/deadline": 200} {
				req, _ := http.NewRequest(m, srv.URL+path, nil)
				resp, err := c.Do(req)
				if err != nil {
					t.Errorf("%v %s %s: %v", h2, m, path, err)
					continue
				}
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				if resp.StatusCode != want || resp.Header.Get("RateLimit") == "" {
					t.Errorf("%v %s %s: %d %v", h2, m, path, resp.StatusCode, resp.Header)
				}
				if path == "/trailer" && m == "GET" && (resp.Trailer.Get("X-T") != "1" || resp.Trailer.Get("X-U") != "2") {
					t.Error(h2, resp.Trailer)
				}
			}
		}
		srv.Close()
	}
}

// A handler's own goroutine reports while the response is settled, and InFlight is exact.
func TestClaimConcurrentReport(t *testing.T) {
	lim := newLimiter(t)
	o := claimTokens(lim, min(1<<40, math.MaxInt), 10)
	o.InFlight = func(string) int { return 4 }
	h := httplimit.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		go httplimit.Report(ctx, "tokens", 5)
		httplimit.Report(ctx, "tokens", math.MaxInt)
		httplimit.Report(ctx, "tokens", math.MinInt)
		httplimit.Report(context.WithoutCancel(ctx), "other", 1)
	}), o)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() { get(h, "t") })
	}
	wg.Wait()
}
