package llmhttp_test

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// Over real connections the answer comes as it does without the Transport, and its usage is read.
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
					if resp.Request != req {
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

// A connection that was upgraded works both ways.
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

// endlessBody gives so many bytes of one letter.
func endlessBody(letter string, size int64) io.ReadCloser {
	return io.NopCloser(io.LimitReader(repeater(strings.Repeat(letter, 32<<10)), size))
}

type repeater string

func (r repeater) Read(p []byte) (int, error) { return copy(p, r), nil }

// The memory that an answer takes does not grow with it.
func TestMemoryOfLargeAnswers(t *testing.T) {
	const size = 256 << 20
	for _, test := range []struct {
		name, start, letter string
		status              int
		headers             []string
		retry               int
	}{
		{"a line of a stream", `data: {"choices":[{"delta":{"content":"`, "x", 200, []string{"Content-Type: text/event-stream"}, 0},
		{"lines of a stream", ``, "data: {\"choices\":[]}\n\n", 200, []string{"Content-Type: text/event-stream"}, 0},
		{"JSON", `{"a":"`, "x", 200, nil, 0},
		{"deep JSON", ``, "[", 200, nil, 0},
		{"an error", `{"error":{"message":"`, "x", 429, nil, 0},
		{"an error that may be repeated", `{"error":{"message":"`, "x", 500, nil, 1},
		{"zeros", "", "\x00", 200, nil, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			if testing.Short() {
				t.Skip("long")
			}
			rl := newLimiter(t, ratelimit.ModelQuota{MaxTPM: 1_000_000})
			first := true
			tr := &llmhttp.Transport{Limiter: rl, AddStreamUsage: true, Retry: llmhttp.Retry{Max: test.retry}, Base: base(func(req *http.Request) (*http.Response, error) {
				if !first {
					return response(req, 400, ""), nil
				}
				first = test.retry == 0
				resp := response(req, test.status, "", test.headers...)
				resp.Body = struct {
					io.Reader
					io.Closer
				}{io.MultiReader(strings.NewReader(test.start), endlessBody(test.letter, size)), io.NopCloser(nil)}
				return resp, nil
			})}
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			resp, err := post(t, tr, chatURL, `{"model":"m","stream":true}`)
			if err != nil {
				t.Fatal(err)
			}
			piece := make([]byte, 32<<10)
			for {
				if _, err := resp.Body.Read(piece); err != nil {
					break
				}
			}
			runtime.ReadMemStats(&after)
			resp.Body.Close()
			if grown := after.TotalAlloc - before.TotalAlloc; grown > 4<<20 {
				t.Errorf("allocated %d KiB", grown>>10)
			}
			if s := rl.Stats("m"); s.InFlight != 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// A body without GetBody is held once, up to MaxBody.
func TestMemoryOfRequests(t *testing.T) {
	rl := newLimiter(t, ratelimit.ModelQuota{MaxTPM: 1_000_000})
	var peak uint64
	tr := &llmhttp.Transport{Limiter: rl, Base: base(func(req *http.Request) (*http.Response, error) {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		peak = m.TotalAlloc
		io.Copy(io.Discard, req.Body)
		return response(req, 200, "{}"), nil
	})}
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	body := io.MultiReader(strings.NewReader(`{"model":"m","messages":"`), endlessBody("x", 200<<20), strings.NewReader(`"}`))
	req, _ := http.NewRequestWithContext(t.Context(), "POST", chatURL, body)
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	readAll(t, resp)
	t.Logf("allocated %d MiB", (peak-before.TotalAlloc)>>20)
	if peak-before.TotalAlloc > 100<<20 {
		t.Error("too much")
	}
}

// No key, prompt or reply is in what the Transport tells.
func TestCanaries(t *testing.T) {
	const canary = "canary4711"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		switch r.Header.Get("X-Case") {
		case "garbage":
			conn, _, _ := w.(http.Hijacker).Hijack()
			io.WriteString(conn, "the reply is "+canary+"\r\n\r\n")
			conn.Close()
		case "bad header":
			conn, _, _ := w.(http.Hijacker).Hijack()
			io.WriteString(conn, "HTTP/1.1 200 OK\r\n"+canary+" no header\r\n\r\n")
			conn.Close()
		case "error":
			w.WriteHeader(401)
			io.WriteString(w, `{"error":{"message":"Incorrect API key provided: `+canary+`","code":"invalid_api_key `+canary+`","type":"`+canary+` `+canary+`"}}`)
		case "overload":
			w.WriteHeader(529)
			io.WriteString(w, `{"error":{"message":"`+canary+`"}}`)
		default:
			io.WriteString(w, `{"choices":[{"message":{"content":"`+canary+`"}}],"usage":{"prompt_tokens":1,"completion_tokens":"`+canary+`"}}`)
		}
	}))
	defer server.Close()
	for _, test := range []string{"ok", "garbage", "bad header", "error", "overload", "refused", "bad key"} {
		t.Run(test, func(t *testing.T) {
			var told strings.Builder
			rl := newLimiter(t, ratelimit.ModelQuota{})
			tr := &llmhttp.Transport{Limiter: rl, OnEvent: func(e llmhttp.Event) { fmt.Fprintf(&told, "%+v %#v %v\n", e, e, e.Err) }}
			defer tr.CloseIdleConnections()
			if test == "refused" {
				tr.MaxWait = time.Second
				rl.SetQuota("m", ratelimit.ModelQuota{MaxRPM: 1})
				rl.RecordUsage("m", 1, 1)
			}
			req, _ := http.NewRequestWithContext(t.Context(), "POST", server.URL+"/v1/chat/completions?key="+canary, strings.NewReader(`{"model":"m","messages":[{"content":"`+canary+`"}]}`))
			req.Header.Set("Authorization", "Bearer "+canary)
			if test == "bad key" {
				req.Header.Set("Authorization", "Bearer "+canary+"\n")
			}
			req.Header.Set("X-Case", test)
			resp, err := tr.RoundTrip(req)
			if err == nil {
				if p := llmhttp.Classify(resp); p != nil {
					fmt.Fprintf(&told, "%+v %#v\n", p, *p)
				}
				readAll(t, resp)
			}
			if strings.Contains(told.String(), canary) {
				t.Errorf("told: %s", told.String())
			}
		})
	}
}

// It works the same on a database that is shared.
func TestSharedLimiter(t *testing.T) {
	open := func(path string) *ratelimit.RateLimiter {
		rl, err := ratelimit.NewWithConfig(ratelimit.Config{Backend: "sqlite", Shared: true, FilePath: path, Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 1000, MaxTPM: 1_000_000, MaxInFlight: 2}}})
		if err != nil {
			t.Fatal(err)
		}
		return rl
	}
	path := filepath.Join(t.TempDir(), "shared.db")
	one, two := open(path), open(path)
	defer two.Close()
	var flying, most int
	var mu sync.Mutex
	provider := base(func(req *http.Request) (*http.Response, error) {
		mu.Lock()
		flying++
		most = max(most, flying)
		mu.Unlock()
		time.Sleep(5 * time.Millisecond)
		mu.Lock()
		flying--
		mu.Unlock()
		return response(req, 200, `{"usage":{"prompt_tokens":11,"completion_tokens":7}}`, "X-Ratelimit-Remaining-Requests: 900", "X-Ratelimit-Limit-Requests: 1000"), nil
	})
	var wg sync.WaitGroup
	for _, rl := range []*ratelimit.RateLimiter{one, two} {
		tr := &llmhttp.Transport{Limiter: rl, Base: provider}
		for range 4 {
			wg.Go(func() {
				for range 5 {
					resp, err := post(t, tr, chatURL, `{"model":"m"}`)
					if err != nil {
						t.Error(err)
						return
					}
					readAll(t, resp)
				}
			})
		}
	}
	wg.Wait()
	if s := two.Stats("m"); s.RPM != 40 || s.ITPM != 440 || s.OTPM != 280 || s.InFlight != 0 || most > 2 {
		t.Errorf("charged %+v, %d at once", s, most)
	}
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	for _, asError := range []bool{false, true} {
		tr := &llmhttp.Transport{Limiter: one, Base: provider, RefuseWithError: asError}
		closed := false
		req, _ := http.NewRequestWithContext(t.Context(), "POST", chatURL, &closer{strings.NewReader(`{"model":"m"}`), &closed})
		resp, err := tr.RoundTrip(req)
		if !closed || !errors.Is(err, ratelimit.ErrClosed) {
			t.Errorf("after Close: %v, %v, body closed: %t", resp, err, closed)
		}
	}
}

// Closed while calls wait: they end at once.
func TestLimiterIsClosed(t *testing.T) {
	rl := newLimiter(t, ratelimit.ModelQuota{MaxInFlight: 1})
	tr := &llmhttp.Transport{Limiter: rl, Base: reply(200, "{}")}
	held, _ := rl.Reserve("m", 0, 0)
	errs := make(chan error, 3)
	for range 3 {
		go func() {
			_, err := post(t, tr, chatURL, `{"model":"m"}`)
			errs <- err
		}()
	}
	for rl.Stats("m").Waiting < 3 {
		time.Sleep(time.Millisecond)
	}
	rl.Close()
	for range 3 {
		select {
		case err := <-errs:
			if !errors.Is(err, ratelimit.ErrClosed) {
				t.Error(err)
			}
		case <-time.After(5 * time.Second):
			t.Fatal("it still waits")
		}
	}
	held.Cancel()
}

// OnEvent may use the limiter and the Transport itself.
func TestOnEventCallsBack(t *testing.T) {
	rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 1000})
	var tr *llmhttp.Transport
	depth := 0
	tr = &llmhttp.Transport{Limiter: rl, Base: reply(200, `{"usage":{"prompt_tokens":11,"completion_tokens":7}}`), OnEvent: func(e llmhttp.Event) {
		rl.Stats(e.Model)
		rl.Decide(e.Model, 1)
		rl.Cooldown("other", time.Now().Add(time.Second))
		rl.Observe(e.Model, ratelimit.ProviderLimits{RPM: ratelimit.ProviderLimit{Remaining: 500, HasRemaining: true}})
		tr.Anomalies()
		if depth < 5 {
			depth++
			resp, err := post(t, tr, chatURL, `{"model":"m"}`)
			if err != nil {
				t.Error(err)
				return
			}
			readAll(t, resp)
		}
	}}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, "POST", chatURL, strings.NewReader(`{"model":"m"}`))
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	readAll(t, resp)
	if s := rl.Stats("m"); s.RPM != 6 || s.InFlight != 0 {
		t.Errorf("charged %+v", s)
	}
}
