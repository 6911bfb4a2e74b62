package llmhttp_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/fakeprovider"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// A redirect of a backend to itself is followed there, with its key. To another origin it is
// refused; with AllowRedirects it is followed without the key.
func TestRouteRedirects(t *testing.T) {
	const key, prompt = "sk-canary-4711", "canary prompt 0815"
	var mu sync.Mutex
	var reached []string
	note := func(server string, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		reached = append(reached, fmt.Sprintf("%s %s %s key:%t prompt:%t", server, r.Method, r.URL.Path,
			strings.Contains(fmt.Sprint(r.URL, r.Header), key), bytes.Contains(body, []byte(prompt))))
	}
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { note("other", r) }))
	defer other.Close()
	idle := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { note("idle", r) }))
	defer idle.Close()
	var to string
	var code int
	own := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		note("own", r)
		if r.URL.Path == "/team/v1/chat/completions" {
			w.Header().Set("Location", to)
			w.WriteHeader(code)
		}
	}))
	defer own.Close()
	under := http.DefaultTransport.(*http.Transport).Clone()
	defer under.CloseIdleConnections()
	for _, test := range []struct {
		name, to string
		code     int
		allow    bool
		from     string // Route.BaseURL
		want     string // the last that was reached; empty for a refusal
		calls    int    // that are counted at the backend
	}{
		{"a path", "/moved/v1/chat/completions", 307, false, "http://api.test/v1", "own POST /moved/v1/chat/completions key:true prompt:true", 2},
		{"permanent", "/moved/v1/chat/completions", 308, false, "http://api.test/v1", "own POST /moved/v1/chat/completions key:true prompt:true", 2},
		{"relative", "../elsewhere", 307, false, "http://api.test/v1", "own POST /team/v1/elsewhere key:true prompt:true", 1},
		{"absolute", own.URL + "/moved", 302, false, "http://api.test/v1", "own GET /moved key:true prompt:false", 1},
		{"a loop", own.URL + "/team/v1/chat/completions", 307, false, "http://api.test/v1", "", 10},
		{"to another", other.URL + "/v1/chat/completions?key=" + key, 307, false, "http://api.test/v1", "", 1},
		{"to the name that the program uses", "http://api.test/v1/chat/completions", 307, false, "http://api.test/v1", "", 1},
		{"to the other backend", idle.URL + "/v1/chat/completions", 307, false, "http://api.test/v1", "", 1},
		{"to another scheme", strings.Replace(own.URL, "http:", "https:", 1), 307, false, "http://api.test/v1", "", 1},
		{"allowed", other.URL + "/v1/chat/completions", 307, true, "http://api.test/v1", "other POST /v1/chat/completions key:false prompt:true", 1},
		{"allowed, to the other backend", idle.URL + "/v1/chat/completions", 307, true, "http://api.test/v1", "idle POST /v1/chat/completions key:false prompt:true", 1},
		{"the same base URL", "/moved/v1/chat/completions", 307, false, own.URL + "/team/v1", "own POST /moved/v1/chat/completions key:true prompt:true", 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			to, code, reached = test.to, test.code, nil
			var events strings.Builder
			rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"a/m": {MaxRPM: 100}, "b/m": {MaxRPM: 10}}})
			route := &llmhttp.Route{
				BaseURL: test.from,
				Backends: []llmhttp.Backend{
					{Name: "a", BaseURL: own.URL + "/team/v1", Header: http.Header{"X-Api-Key": {key}}},
					{Name: "b", BaseURL: idle.URL, Header: http.Header{"X-Api-Key": {"sk-another"}}},
				},
				Transport: llmhttp.Transport{
					Base: under, Limiter: rl, AllowRedirects: test.allow,
					OnEvent: func(e llmhttp.Event) { fmt.Fprintf(&events, "%+v %v\n", e, e.Err) },
				},
			}
			req, _ := http.NewRequest("POST", test.from+"/chat/completions", strings.NewReader(`{"model":"m","messages":[{"content":"`+prompt+`"}]}`))
			req.Header.Set("Authorization", "Bearer sdk")
			resp, err := (&http.Client{Transport: route}).Do(req)
			if err == nil {
				resp.Body.Close()
				if strings.Contains(fmt.Sprintf("%+v %+v", resp.Request, resp.Request.Header), key) {
					t.Error("Response.Request tells the key")
				}
			}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case test.want != "" && (err != nil || reached[len(reached)-1] != test.want):
				t.Errorf("got %v, %v; want %s", err, reached, test.want)
			case test.want == "" && (err == nil || strings.Contains(err.Error(), "sk-") && !strings.Contains(test.to, key) || strings.Contains(fmt.Sprint(reached), "other") || strings.Contains(fmt.Sprint(reached), "idle")):
				t.Errorf("got %v, %v", err, reached)
			case test.want == "" && test.name != "a loop" && !errors.As(err, new(*llmhttp.RedirectError)):
				t.Errorf("got %v", err)
			}
			if strings.Contains(events.String(), key) || strings.Contains(events.String(), prompt) {
				t.Errorf("the events tell: %s", events.String())
			}
			if s := rl.Stats("a/m"); s.RPM != test.calls || s.InFlight != 0 {
				t.Errorf("%d calls are counted, want %d", s.RPM, test.calls)
			}
		})
	}
}

// A refusal over a real connection goes on to the next backend, and a stream comes from that as it
// is, with HTTP/1 and HTTP/2. The trace of the caller tells of both, and no connection is lost.
func TestRouteOverTheWire(t *testing.T) {
	const request = `{"model":"m","stream":true,"stream_options":{"include_usage":true}}`
	const usage = `{"choices":[],"usage":{"prompt_tokens":11,"completion_tokens":7}}`
	answer := sse(`{"choices":[{"delta":{"content":"`+strings.Repeat("Hello ", 2000)+`"}}]}`, usage, "[DONE]")
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, _ := io.ReadAll(r.Body); string(body) != request {
			t.Errorf("sent %q", body)
		}
		if r.Header.Get("Authorization") == "Bearer b" {
			w.Header().Set("Retry-After", "30")
			w.WriteHeader(429)
			io.WriteString(w, `{"error":{`)
			w.(http.Flusher).Flush() // the rest comes later, in a chunk of its own
			io.WriteString(w, `"message":"slow down"}}`)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for rest := answer; rest != ""; {
			n := min(len(rest), 1000)
			io.WriteString(w, rest[:n])
			w.(http.Flusher).Flush()
			rest = rest[n:]
		}
	})
	for _, h2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("HTTP/2 %t", h2), func(t *testing.T) {
			server := httptest.NewUnstartedServer(handler)
			server.EnableHTTP2 = h2
			var conns atomic.Int32
			server.StartTLS()
			defer server.Close()
			rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"*": {MaxTPM: 1_000_000, MaxInFlight: 1}}})
			route := &llmhttp.Route{Backends: keyed("a", "b"), Transport: llmhttp.Transport{Limiter: rl, Base: server.Client().Transport}}
			wrote := 0
			for range 3 {
				trace := &httptrace.ClientTrace{
					GotConn: func(info httptrace.GotConnInfo) {
						if !info.Reused {
							conns.Add(1)
						}
					},
					WroteRequest: func(httptrace.WroteRequestInfo) { wrote++ },
				}
				req, _ := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), "POST", server.URL+"/v1/chat/completions", strings.NewReader(request))
				resp, err := route.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				if body := readAll(t, resp); body != answer || resp.Request != req || (resp.ProtoMajor == 2) != h2 {
					t.Errorf("%s %d: %d bytes", resp.Proto, resp.StatusCode, len(body))
				}
			}
			if wrote != 4 || conns.Load() != 1 {
				t.Errorf("%d requests on %d connections", wrote, conns.Load())
			}
			a, b := rl.Stats("a/m"), rl.Stats("b/m")
			if a.RPM != 3 || a.ITPM != 33 || a.OTPM != 21 || a.InFlight != 0 || b.RPM != 1 || b.TPM != 0 || b.InFlight != 0 {
				t.Errorf("charged %+v and %+v", a, b)
			}
			route.CloseIdleConnections()
		})
	}
}

// Many callers use the quotas of three keys to the full, without a refusal.
func TestRouteUsesAllKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := map[string]int{"a": 60, "b": 30, "c": 30}
		servers := make(map[string]*fakeprovider.Server)
		network := fakeprovider.NewNetwork()
		quotas := make(map[string]ratelimit.ModelQuota)
		for key, limit := range limits {
			servers[key] = fakeprovider.New(fakeprovider.Options{Seed: 1, Jitter: 20 * time.Millisecond, Answer: func(c *fakeprovider.Call) fakeprovider.Answer {
				a := fakeprovider.DefaultAnswer(c)
				a.Delay, a.Spread = 100*time.Millisecond, time.Second
				return a
			}}, map[string]fakeprovider.Config{"m": {Limits: fakeprovider.Limits{fakeprovider.RPM: limit}}})
			quotas[key+"/m"] = ratelimit.ModelQuota{MaxRPM: limit}
		}
		stop := network.Serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			servers[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")].ServeHTTP(w, r)
		}))
		defer stop()
		under := network.Transport()
		defer under.CloseIdleConnections()
		rl := newLimiterWith(t, ratelimit.Config{Quotas: quotas})
		route := &llmhttp.Route{Backends: keyed("a", "b", "c"), Transport: llmhttp.Transport{Limiter: rl, Base: under}}
		client := &http.Client{Transport: route}
		var wg sync.WaitGroup
		began := time.Now()
		for i := range 50 {
			wg.Go(func() {
				for time.Since(began) < 5*time.Minute {
					resp, err := client.Post(chatURL, "application/json", strings.NewReader(fmt.Sprintf(`{"model":"m","max_tokens":10,"messages":[{"role":"user","content":"%d"}]}`, i)))
					if err != nil {
						t.Error(err)
						return
					}
					io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
			})
		}
		wg.Wait()
		for key, limit := range limits {
			sent := 0
			for _, arrival := range servers[key].Arrivals("m") {
				if arrival.Time.Sub(began) < 5*time.Minute {
					sent++
				}
			}
			if refused := servers[key].Stats("m").Refused; refused > 0 || sent < limit*5*98/100 {
				t.Errorf("%s: %d requests of %d, %d refused", key, sent, limit*5, refused)
			}
		}
	})
}
