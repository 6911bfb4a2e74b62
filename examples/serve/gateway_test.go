package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/keyed"
)

// newTestGateway returns a gateway with a tenant of the key sk-1.
func newTestGateway(t *testing.T, upstream string, quota ratelimit.ModelQuota) *gateway {
	t.Helper()
	g, err := newGateway(t.Context(), settings{
		Upstream: upstream, APIKey: "sk-ours", Tenants: map[string]string{"sk-1": "one"},
		Quota: quota, RPM: 100, TPM: 100_000,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.close(t.Context()) })
	return g
}

// ask makes a call of the tenant.
func ask(g http.Handler, method, path string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(`{"model":"gpt-4o","max_tokens":300,"messages":[{"role":"user","content":"hi"}]}`))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer sk-1")
	w := httptest.NewRecorder()
	g.ServeHTTP(w, r)
	return w
}

// toServer sends all requests to one server, whatever their host.
type toServer struct{ *url.URL }

func (s toServer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Scheme, r.URL.Host = s.Scheme, s.Host
	return new(http.Transport).RoundTrip(r)
}

// TestChargeAtOpenAI has a provider that counts max_tokens against our quota. The tenant pays what
// the answer has used, nothing for an answer of status 500, and the estimate if nothing is stated.
func TestChargeAtOpenAI(t *testing.T) {
	status, body := 0, ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		io.WriteString(w, body)
	}))
	defer server.Close()
	to, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func(before http.RoundTripper) { http.DefaultTransport = before }(http.DefaultTransport)
	http.DefaultTransport = toServer{to}
	for _, test := range []struct {
		status int
		body   string
		want   int
	}{
		{200, `{"choices":[],"usage":{"prompt_tokens":20,"completion_tokens":5}}`, 25},
		{200, `{"choices":[]}`, 79/4 + maxAnswer},
		{500, `{"error":{"message":"The server had an error"}}`, 0},
	} {
		status, body = test.status, test.body
		g := newTestGateway(t, "https://api.openai.com", ratelimit.ModelQuota{MaxRPM: 100, MaxTPM: 100_000})
		if w := ask(g, "POST", "/v1/chat/completions"); w.Code != test.status {
			t.Errorf("%d: %d %s", test.status, w.Code, w.Body)
		}
		limit := keyed.Request{Namespace: "tokens", Key: "one", Limit: 100_000, Window: 60e9}
		left, err := g.tenants.Peek(t.Context(), limit)
		if err != nil {
			t.Fatal(err)
		}
		if used := limit.Limit - left.Remaining; used != test.want {
			t.Errorf("%d %s: the tenant was charged %d, want %d", test.status, test.body, used, test.want)
		}
		if stats := g.quota.Stats("gpt-4o"); test.want == 25 && stats.TPM < 300 {
			t.Errorf("the provider counts max_tokens, our quota has %d", stats.TPM)
		}
	}
}

// TestWhatTenantsMayCall has calls beyond the endpoints of the gateway.
func TestWhatTenantsMayCall(t *testing.T) {
	calls := 0
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls++ }))
	defer server.Close()
	g := newTestGateway(t, server.URL, ratelimit.ModelQuota{MaxRPM: 100, MaxTPM: 100_000})
	for _, test := range []struct {
		method, path string
		want         int
	}{
		{"POST", "/v1/chat/completions", 200},
		{"POST", "/v1/responses", 200},
		{"POST", "/v1/embeddings", 200},
		{"GET", "/v1/chat/completions", 405},
		{"POST", "/v1/files", 404},
		{"DELETE", "/v1/responses/resp_1", 404},
		{"GET", "/v1/organization/admin_api_keys", 404},
	} {
		if w := ask(g, test.method, test.path); w.Code != test.want {
			t.Errorf("%s %s: %d, want %d", test.method, test.path, w.Code, test.want)
		}
	}
	if calls != 3 {
		t.Errorf("the provider got %d calls, want 3", calls)
	}
}

// TestOurAccount has answers that tell something about our account, which tenants must not see.
func TestOurAccount(t *testing.T) {
	full, plenty := ratelimit.ModelQuota{MaxRPM: 1, MaxTPM: 100_000}, ratelimit.ModelQuota{MaxRPM: 100, MaxTPM: 100_000}
	for _, test := range []struct {
		name     string
		quota    ratelimit.ModelQuota
		before   int // calls
		provider int // status; 0 for a connection that ends
		want     int
		retry    bool
	}{
		{"an answer", plenty, 0, 200, 200, false},
		{"an error of the call", plenty, 0, 400, 400, false},
		{"our quota is full", full, 1, 200, 503, true},
		{"the provider refuses us", plenty, 0, 429, 503, true},
		{"our key is wrong", plenty, 0, 401, 503, true},
		{"no answer", plenty, 0, 0, 502, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if test.provider == 0 {
					panic(http.ErrAbortHandler)
				}
				w.Header().Set("X-Ratelimit-Limit-Tokens", "777")
				w.Header().Set("OpenAI-Organization", "org-777")
				w.Header().Set("Set-Cookie", "session=777")
				w.WriteHeader(test.provider)
				if test.want == 503 {
					io.WriteString(w, `{"error":{"message":"in organization org-777"}}`)
				}
			}))
			defer server.Close()
			g := newTestGateway(t, server.URL, test.quota)
			for range test.before {
				ask(g, "POST", "/v1/chat/completions")
			}
			w := ask(g, "POST", "/v1/chat/completions")
			if w.Code != test.want || (w.Header().Get("Retry-After") != "") != test.retry {
				t.Errorf("%d %v, want %d", w.Code, w.Header(), test.want)
			}
			answer := strings.ToLower(fmt.Sprint(w.Header(), w.Body))
			for _, word := range []string{"777", "go-ratelimit", "should-retry", "rpm", "tpm", "127.0.0.1"} {
				if strings.Contains(answer, word) {
					t.Errorf("the tenant is told %q: %s", word, answer)
				}
			}
		})
	}
}
