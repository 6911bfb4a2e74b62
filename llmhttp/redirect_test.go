package llmhttp_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

func TestRedirects(t *testing.T) {
	var reached atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reached.Add(1)
		io.WriteString(w, `{"usage":{"prompt_tokens":1,"completion_tokens":1}}`)
	}))
	defer other.Close()
	var to string
	first := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/here/v1/messages" {
			io.WriteString(w, `{}`)
			return
		}
		http.Redirect(w, r, to, http.StatusTemporaryRedirect)
	}))
	defer first.Close()
	for _, path := range []string{"/v1/messages", "/v1/files"} {
		rl := newLimiter(t, ratelimit.ModelQuota{})
		tr := &llmhttp.Transport{Limiter: rl}
		client := &http.Client{Transport: tr}
		call := func() error {
			req, _ := http.NewRequest("POST", first.URL+path, strings.NewReader(`{"model":"m"}`))
			req.Header.Set("x-api-key", "sk-secret")
			resp, err := client.Do(req)
			if err == nil {
				readAll(t, resp)
			}
			return err
		}
		to = other.URL + "/v1/messages?key=sk-secret"
		err := call()
		var redirect *llmhttp.RedirectError
		if !errors.As(err, &redirect) || reached.Load() != 0 {
			t.Errorf("%s: redirected to another host: %v, and it was reached %d times", path, err, reached.Load())
		}
		if redirect != nil && strings.Contains(redirect.Error(), "secret") {
			t.Errorf("the error tells the key: %v", redirect)
		}
		to = "/here/v1/messages"
		if err := call(); err != nil {
			t.Errorf("%s: redirected on the same host: %v", path, err)
		}
		to = other.URL + "/v1/messages"
		tr.AllowRedirects = true
		if err := call(); err != nil || reached.Swap(0) != 1 {
			t.Errorf("%s: redirected with AllowRedirects: %v", path, err)
		}
		tr.CloseIdleConnections()
	}
}

// No kind of redirect passes the key or the prompt to another origin.
func TestRedirectsToOthers(t *testing.T) {
	const key, prompt = "sk-canary-4711", "canary prompt 0815"
	var mu sync.Mutex
	var leaked []string
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		leaked = append(leaked, fmt.Sprintf("%s %s %v %s", r.Method, r.URL, r.Header, body))
		mu.Unlock()
	}))
	defer other.Close()
	first := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var code int
		var hops int
		fmt.Sscan(r.Header.Get("X-Code"), &code)
		fmt.Sscan(r.URL.Query().Get("hops"), &hops)
		to := r.Header.Get("X-To")
		if hops > 0 {
			to = fmt.Sprintf("%s?hops=%d", r.URL.Path, hops-1)
		}
		w.Header().Set("Location", to)
		w.WriteHeader(code)
	}))
	defer first.Close()
	under := http.DefaultTransport.(*http.Transport).Clone()
	defer under.CloseIdleConnections()
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(first.URL, "http://"))
	for _, code := range []int{301, 302, 303, 307, 308} {
		for _, hops := range []int{0, 3} {
			for _, path := range []string{"/v1/chat/completions", "/v1/messages/count_tokens", "/v1/files"} {
				for name, to := range map[string]string{
					"another port":       other.URL + path,
					"another name":       "http://localhost:" + port + path,
					"another scheme":     "https://127.0.0.1:" + port + path,
					"no scheme":          strings.TrimPrefix(other.URL, "http:") + path,
					"with a user":        strings.Replace(other.URL, "http://", "http://"+key+"@", 1) + path + "?key=" + key,
					"capitals and dots":  "HTTP://LOCALHOST.:" + port + path,
					"a scheme of others": "ftp://127.0.0.1:" + port + path,
				} {
					t.Run(fmt.Sprintf("%d after %d to %s from %s", code, hops, name, path), func(t *testing.T) {
						var events strings.Builder
						tr := &llmhttp.Transport{Base: under, Limiter: newLimiter(t, ratelimit.ModelQuota{}), OnEvent: func(e llmhttp.Event) { fmt.Fprintf(&events, "%+v %v\n", e, e.Err) }}
						req, _ := http.NewRequest("POST", fmt.Sprintf("%s%s?hops=%d", first.URL, path, hops), strings.NewReader(`{"model":"m","messages":[{"content":"`+prompt+`"}]}`))
						req.Header.Set("X-Api-Key", key)
						req.Header.Set("Authorization", "Bearer "+key)
						req.Header.Set("X-Code", fmt.Sprint(code))
						req.Header.Set("X-To", to)
						resp, err := (&http.Client{Transport: tr}).Do(req)
						if err == nil {
							resp.Body.Close()
						}
						var redirect *llmhttp.RedirectError
						if !errors.As(err, &redirect) {
							t.Errorf("got %v", err)
						} else if strings.Contains(redirect.Error(), key) {
							t.Errorf("the error tells the key: %v", redirect)
						}
						if strings.Contains(events.String(), key) || strings.Contains(events.String(), prompt) {
							t.Errorf("the events tell: %s", events.String())
						}
					})
				}
			}
		}
	}
	if len(leaked) > 0 {
		t.Errorf("reached: %q", leaked)
	}
}

// Redirects of a Base that does not set Response.Request are recognized, too.
func TestRedirectWithoutRequest(t *testing.T) {
	for _, path := range []string{"/v1/chat/completions", "/v1/messages/count_tokens", "/v1/files"} {
		reached := ""
		tr := &llmhttp.Transport{Limiter: newLimiter(t, ratelimit.ModelQuota{}), Base: base(func(req *http.Request) (*http.Response, error) {
			if req.URL.Host != "llm.test" {
				reached = fmt.Sprint(req.URL.Host, req.Header)
				return response(req, 200, "{}"), nil
			}
			resp := response(req, 307, "", "Location: http://other.test"+path)
			resp.Request = nil
			return resp, nil
		})}
		req, _ := http.NewRequest("POST", "http://llm.test"+path, strings.NewReader(`{"model":"m"}`))
		req.Header.Set("X-Api-Key", "sk-canary")
		resp, err := (&http.Client{Transport: tr}).Do(req)
		if err == nil {
			resp.Body.Close()
		}
		if !errors.As(err, new(*llmhttp.RedirectError)) || reached != "" {
			t.Errorf("%s: %v; it reached %s", path, err, reached)
		}
	}
}
