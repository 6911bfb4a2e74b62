package llmhttp_test

import (
	"bufio"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// Over real connections an answer arrives as it does without the Transport, and its usage is read.
func TestOverTheWire(t *testing.T) {
	const usage = `{"choices":[],"usage":{"prompt_tokens":11,"completion_tokens":7}}`
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		answer := sse(`{"choices":[{"delta":{"content":"`+strings.Repeat("Hello ", 2000)+`"}}]}`, usage, "[DONE]")
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Trailer", "X-Digest")
		w.Header().Set("Date", "Mon, 02 Jan 2006 15:04:05 GMT")
		var out io.Writer = w
		if r.Header.Get("X-Zip") != "" && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			defer z.Close()
			out = z
		}
		for len(answer) > 0 {
			n := min(len(answer), 1000)
			io.WriteString(out, answer[:n])
			w.(http.Flusher).Flush()
			answer = answer[n:]
		}
		w.Header().Set("X-Digest", "abc")
	})
	for _, h2 := range []bool{false, true} {
		server := httptest.NewUnstartedServer(handler)
		server.EnableHTTP2 = h2
		server.StartTLS()
		defer server.Close()
		for _, zip := range []string{"", "1"} {
			t.Run(fmt.Sprintf("HTTP/2 %t, gzip %q", h2, zip), func(t *testing.T) {
				rl := newLimiter(t, ratelimit.ModelQuota{MaxTPM: 1_000_000, MaxInFlight: 1})
				var got [2]string
				plain := server.Client().Transport
				for i, rt := range []http.RoundTripper{plain, &llmhttp.Transport{Limiter: rl, Base: plain}} {
					req, _ := http.NewRequestWithContext(t.Context(), "POST", server.URL+"/v1/chat/completions", strings.NewReader(`{"model":"m","stream":true}`))
					req.Header.Set("X-Zip", zip)
					resp, err := rt.RoundTrip(req)
					if err != nil {
						t.Fatal(err)
					}
					body := readAll(t, resp)
					if resp.Request != req && rt != plain {
						t.Errorf("%T: Response.Request is another", rt)
					}
					got[i] = fmt.Sprint(resp.Status, resp.Proto, resp.Header, resp.ContentLength, resp.TransferEncoding, resp.Uncompressed, resp.Trailer, resp.TLS != nil, body)
				}
				if got[0] != got[1] {
					t.Errorf("through it comes\n%.500s\nwithout it\n%.500s", got[1], got[0])
				}
				if s := rl.Stats("m"); s.ITPM != 11 || s.OTPM != 7 || s.InFlight != 0 || s.RPM != 1 {
					t.Errorf("charged %+v", s)
				}
			})
		}
	}
}

// An upgraded connection works in both directions.
func TestUpgrade(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		conn, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		io.WriteString(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		rw.Flush()
		for {
			line, err := rw.ReadString('\n')
			if err != nil {
				return
			}
			io.WriteString(rw, "echo "+line)
			rw.Flush()
		}
	}))
	defer server.Close()
	for _, path := range []string{"/v1/responses", "/v1/realtime"} {
		rl := newLimiter(t, ratelimit.ModelQuota{MaxInFlight: 1})
		tr := &llmhttp.Transport{Limiter: rl, AddStreamUsage: true, Retry: llmhttp.Retry{Max: 2}}
		defer tr.CloseIdleConnections()
		req, _ := http.NewRequestWithContext(t.Context(), "POST", server.URL+path, strings.NewReader(`{"model":"m","stream":true}`))
		req.Header.Set("Connection", "Upgrade")
		req.Header.Set("Upgrade", "echo")
		resp, err := (&http.Client{Transport: tr}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		conn, ok := resp.Body.(io.ReadWriteCloser)
		if !ok || resp.StatusCode != 101 {
			t.Fatalf("%s: %d with a %T", path, resp.StatusCode, resp.Body)
		}
		lines := bufio.NewReader(conn)
		for i := range 3 {
			fmt.Fprintf(conn, "%d\n", i)
			if line, err := lines.ReadString('\n'); line != fmt.Sprintf("echo %d\n", i) {
				t.Errorf("%s: got %q, %v", path, line, err)
			}
		}
		conn.Close()
		if s := rl.Stats("m"); s.InFlight != 0 {
			t.Errorf("%s: %+v", path, s)
		}
	}
}

// A stream that another goroutine closes or cancels while it is read is settled once, and leaves no
// goroutine behind: the bubble would not end.
func TestEndedWhileRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newPipeListener()
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", "text/event-stream")
			for {
				text := strings.Repeat("x", rand.IntN(3000))
				if _, err := io.WriteString(w, sse(`{"choices":[{"delta":{"content":"`+text+`"}}]}`)); err != nil {
					return
				}
				w.(http.Flusher).Flush()
				time.Sleep(rand.N(time.Millisecond))
			}
		})}
		go server.Serve(l)
		rl := newLimiter(t, ratelimit.ModelQuota{MaxInFlight: 50})
		var admitted, settled atomic.Int64
		under := &http.Transport{DialContext: l.dial}
		tr := &llmhttp.Transport{Limiter: rl, Base: under, AddStreamUsage: true, OnEvent: func(e llmhttp.Event) {
			switch e.Kind {
			case llmhttp.EventAdmitted:
				admitted.Add(1)
			case llmhttp.EventSettled:
				settled.Add(1)
				if e.Settled.OutputTokens == 0 {
					t.Errorf("%+v", e)
				}
			}
		}}
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				for range 4 {
					ctx, cancel := context.WithCancel(t.Context())
					req, _ := http.NewRequestWithContext(ctx, "POST", chatURL, strings.NewReader(`{"model":"m","stream":true}`))
					resp, err := tr.RoundTrip(req)
					if err != nil {
						t.Error(err)
						cancel()
						return
					}
					end := cancel
					if i%2 == 0 {
						end = func() { resp.Body.Close() }
					}
					time.AfterFunc(rand.N(5*time.Millisecond), end)
					io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
					cancel()
				}
			})
		}
		wg.Wait()
		under.CloseIdleConnections()
		server.Close()
		time.Sleep(time.Second) // handlers write once more before they find their connection closed
		if a, s, rl := admitted.Load(), settled.Load(), rl.Stats("m"); a != 200 || s != 200 || rl.InFlight != 0 {
			t.Errorf("%d admitted, %d settled, %d in flight", a, s, rl.InFlight)
		}
	})
}

// Many calls of all kinds at once, which end in all ways, are settled once each and leave no slot
// and no goroutine behind.
func TestEverythingAtOnce(t *testing.T) {
	before := runtime.NumGoroutine()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		flush := w.(http.Flusher).Flush
		switch rand.IntN(8) {
		case 0:
			w.Header().Set("Retry-After", "0.001")
			w.WriteHeader(429)
			io.WriteString(w, `{"error":{"code":"rate_limit_exceeded"}}`)
		case 1:
			w.WriteHeader(500)
		case 2:
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				conn.Close()
			}
		case 3: // cut
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, sse(`{"choices":[{"delta":{"content":"x"}}]}`))
			flush()
			panic(http.ErrAbortHandler)
		case 4: // stalls
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, sse(`{"choices":[{"delta":{"content":"x"}}]}`))
			flush()
			select {
			case <-r.Context().Done():
			case <-time.After(50 * time.Millisecond):
			}
		default:
			w.Header().Set("X-Ratelimit-Remaining-Requests", fmt.Sprint(rand.IntN(1_000_000)))
			w.Header().Set("X-Ratelimit-Limit-Requests", "1000000")
			io.WriteString(w, `{"usage":{"prompt_tokens":3,"completion_tokens":2}}`)
		}
	}))
	rl := newLimiterWith(t, ratelimit.Config{
		LearnQuotas: true,
		Quotas:      map[string]ratelimit.ModelQuota{"m": {MaxInFlight: 8, MaxRPM: 1_000_000, MaxTPM: 1 << 30}, "n": {MaxInFlight: 4}},
	})
	var admitted, settled atomic.Int64
	tr := &llmhttp.Transport{Limiter: rl, AddStreamUsage: true, Retry: llmhttp.Retry{Max: 1, MaxDelay: time.Second}, OnEvent: func(e llmhttp.Event) {
		switch e.Kind {
		case llmhttp.EventAdmitted:
			admitted.Add(1)
		case llmhttp.EventSettled:
			settled.Add(1)
		}
	}}
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 25 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(100))*time.Millisecond)
				model := []string{"m", "n"}[rand.IntN(2)]
				req, _ := http.NewRequestWithContext(ctx, "POST", server.URL+"/v1/chat/completions", strings.NewReader(`{"model":"`+model+`","stream":true}`))
				resp, err := tr.RoundTrip(req)
				if err == nil {
					switch rand.IntN(3) {
					case 0:
						resp.Body.Close()
					case 1:
						go resp.Body.Close()
						io.Copy(io.Discard, resp.Body)
					default:
						io.Copy(io.Discard, resp.Body)
						resp.Body.Close()
					}
				}
				cancel()
			}
		})
	}
	wg.Wait()
	tr.CloseIdleConnections()
	server.Close()
	deadline := time.Now().Add(20 * time.Second)
	for settled.Load() != admitted.Load() || runtime.NumGoroutine() > before {
		if time.Now().After(deadline) {
			buf := make([]byte, 1<<20)
			t.Fatalf("%d admitted, %d settled, %d goroutines, %d before\n%s", admitted.Load(), settled.Load(), runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
		}
		time.Sleep(time.Millisecond)
	}
	for _, model := range []string{"m", "n"} {
		if s := rl.Stats(model); s.InFlight != 0 || s.Waiting != 0 {
			t.Errorf("left behind: %+v", s)
		}
	}
}
