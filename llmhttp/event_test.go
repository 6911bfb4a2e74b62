package llmhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

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
			if !panicked || rl.Stats("m").InFlight != 0 {
				t.Errorf("panicked: %t; %+v", panicked, rl.Stats("m"))
			}
			runtime.KeepAlive(tr)
		})
	}
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
			exchange(t, tr, chatURL, `{"model":"m"}`)
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

// Events and problems contain no key, prompt or reply.
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
			var l listener
			rl := newLimiterWith(t, ratelimit.Config{Events: &l, Quotas: map[string]ratelimit.ModelQuota{"m": {}}})
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
			if l.tell(&told) == 0 {
				t.Error("the limiter told nothing")
			}
			if strings.Contains(told.String(), canary) {
				t.Errorf("told: %s", told.String())
			}
		})
	}
}

// An error of Base appears in events without its address, which may contain the key.
func TestEventsTellNoAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const key = "canary4711"
		broke := &url.Error{Op: "Post", URL: "https://llm.test/v1beta/models/m:generateContent?key=" + key, Err: errors.New("broken")}
		var told strings.Builder
		var l listener
		tr := &llmhttp.Transport{Limiter: newLimiterWith(t, ratelimit.Config{Events: &l}), Retry: llmhttp.Retry{Max: 1}, Base: base(func(*http.Request) (*http.Response, error) { return nil, broke }), OnEvent: func(e llmhttp.Event) { fmt.Fprintf(&told, "%+v\n", e) }}
		if _, err := post(t, tr, "https://llm.test/v1beta/models/m:generateContent?key="+key, `{}`); !errors.Is(err, broke) {
			t.Error(err)
		}
		if l.tell(&told) == 0 {
			t.Error("the limiter told nothing")
		}
		if strings.Contains(told.String(), key) {
			t.Errorf("told: %s", told.String())
		}
	})
}
