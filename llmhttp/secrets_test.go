package llmhttp_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

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

// The error of a Base is not told to OnEvent with the address in it, where the key may be.
func TestEventsTellNoAddress(t *testing.T) {
	const key = "canary4711"
	broke := &url.Error{Op: "Post", URL: "https://llm.test/v1beta/models/m:generateContent?key=" + key, Err: errors.New("broken")}
	var told strings.Builder
	tr := &llmhttp.Transport{Limiter: newLimiter(t, ratelimit.ModelQuota{}), Retry: llmhttp.Retry{Max: 1}, Base: base(func(*http.Request) (*http.Response, error) { return nil, broke }), OnEvent: func(e llmhttp.Event) { fmt.Fprintf(&told, "%+v\n", e) }}
	if _, err := post(t, tr, "https://llm.test/v1beta/models/m:generateContent?key="+key, `{}`); !errors.Is(err, broke) {
		t.Error(err)
	}
	if strings.Contains(told.String(), key) {
		t.Errorf("told: %s", told.String())
	}
}
