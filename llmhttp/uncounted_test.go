// Calls that nothing counts: who is told, how they are refused, and what passes in silence.

package llmhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// denier is a limiter with a policy for what it does not know, and what was told of it.
type denier struct {
	*ratelimit.RateLimiter
	listener
	mu   sync.Mutex
	errs []*llmhttp.UncountedError
}

func newDenier(t *testing.T, policy ratelimit.UnknownPolicy) *denier {
	d := new(denier)
	d.RateLimiter = newLimiterWith(t, ratelimit.Config{
		Unknown: policy, Quotas: map[string]ratelimit.ModelQuota{"*": {MaxRPM: 1000}}, Events: &d.listener,
		OnError: func(err error) {
			is := new(llmhttp.UncountedError)
			if !errors.As(err, &is) {
				t.Errorf("%v", err)
			}
			d.mu.Lock()
			defer d.mu.Unlock()
			d.errs = append(d.errs, is)
		},
	})
	t.Cleanup(func() { d.Close() })
	return d
}

// reported returns what OnError was told so far.
func (d *denier) reported() []*llmhttp.UncountedError {
	synctest.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	errs := d.errs
	d.errs = nil
	return errs
}

type callerKey struct{}

func TestUncountedIsToldOncePerPath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDenier(t, ratelimit.UnknownAllow)
		clients := []*llmhttp.Transport{{Limiter: d.RateLimiter, Base: reply(200, "{}")}, {Limiter: d.RateLimiter, Base: reply(200, "{}")}}
		ctx := context.WithValue(t.Context(), callerKey{}, "caller")
		for i := range 300 {
			url := fmt.Sprintf("http://user:secret@llm.test/v1/new/%d?key=secret", i%150)
			req, _ := http.NewRequestWithContext(ctx, "POST", url, strings.NewReader(`{"prompt":"secret","model":"m\n`+strings.Repeat("x", 300)+`"}`))
			resp, err := clients[i%2].RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			readAll(t, resp)
		}
		paths := make(map[string]int)
		for _, e := range d.take() {
			paths[e.Path]++
			if e.Kind != ratelimit.EventUncounted || len(e.Model) > 256 || !strings.HasPrefix(e.Model, "m\ufffdxx") || e.ctx.Value(callerKey{}) != "caller" {
				t.Fatalf("%+v", e)
			}
			if text := fmt.Sprintf("%+v", e.Event); strings.Contains(text, "secret") {
				t.Fatal(text)
			}
		}
		if len(paths) != 101 || paths["others"] != 100 || paths["/v1/new/7"] != 2 {
			t.Errorf("%d paths: %v", len(paths), paths)
		}
		reported := d.reported()
		told := make(map[string]int)
		for _, err := range reported {
			told[err.Path]++
			if err.Reason == "" || len(err.Model) > 256 || strings.Contains(err.Error(), "secret") {
				t.Errorf("%+v", err)
			}
		}
		if len(reported) != 101 || len(told) != 101 || told["others"] != 1 {
			t.Errorf("%d reports of %d paths", len(reported), len(told))
		}
		long := "/v1/" + strings.Repeat("y", 300)
		resp, _ := post(t, clients[0], "http://llm.test"+long, `{"model":"m"}`)
		readAll(t, resp)
		if e := d.take(); len(e) != 1 || e[0].Path != "others" {
			t.Errorf("%+v", e)
		}
	})
}

// A refusal has the form of the provider's, as far as that can be guessed.
func TestUncountedRefusal(t *testing.T) {
	for _, test := range []struct{ url, header, form string }{
		{"https://api.openai.com/v1/realtime/calls", "", `{"error":{"message":`},
		{"https://llm.test/v1/unheard-of", "", `{"error":{"message":`},
		{"https://api.anthropic.com/v1/complete", "", `{"type":"error","error":{"type":"rate_limit_error"`},
		{"https://llm.test/v1/complete", "Anthropic-Version: 2023-06-01", `{"type":"error","error":{"type":"rate_limit_error"`},
		{"https://generativelanguage.googleapis.com/v1beta/models/m:predictLongRunning", "", `{"error":{"code":429,`},
		{"https://llm.test/v1/projects/p/models/m:predictLongRunning", "", `{"error":{"code":429,`},
		{"http://localhost:11434/api/unheard-of", "", `{"error":"`},
		{"https://api.openai.com/v1/chat/completions", "X-Model: none", `{"error":{"message":`},
		{"https://api.anthropic.com/v1/messages", "X-Model: none", `{"type":"error","error":{"type":"rate_limit_error"`},
	} {
		for _, withError := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				d := newDenier(t, ratelimit.UnknownDeny)
				var told []llmhttp.Event
				tr := &llmhttp.Transport{
					Limiter: d.RateLimiter, RefuseWithError: withError, OnEvent: func(e llmhttp.Event) { told = append(told, e) },
					Base: base(func(*http.Request) (*http.Response, error) { t.Fatal("sent"); return nil, nil }),
				}
				body := `{"model":"m"}`
				req, _ := http.NewRequestWithContext(t.Context(), "POST", test.url, nil)
				if name, value, ok := strings.Cut(test.header, ": "); ok {
					if req.Header.Set(name, value); value == "none" {
						body = `{}`
					}
				}
				closed := &closeRecorder{Reader: strings.NewReader(body)}
				req.Body = closed
				resp, err := tr.RoundTrip(req)
				if !closed.closed {
					t.Error("the body was not closed")
				}
				if len(told) != 1 || told[0].Kind != llmhttp.EventRefused || told[0].ID == 0 || !errors.Is(told[0].Err, ratelimit.ErrNeverFits) {
					t.Errorf("%s: told %+v", test.url, told)
				}
				if withError {
					limit := new(ratelimit.LimitError)
					if uncounted := new(llmhttp.UncountedError); !errors.As(err, &uncounted) || strings.Contains(err.Error(), "acquire") {
						t.Errorf("%s: %v, want an UncountedError in it", test.url, err)
					}
					if !errors.As(err, &limit) || !errors.Is(err, ratelimit.ErrNeverFits) || limit.Decision.Code != ratelimit.DecisionUnknownModel {
						t.Errorf("%s: %v", test.url, err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				p := llmhttp.Classify(resp)
				if p == nil || p.Kind != llmhttp.NotSent || p.Code != string(ratelimit.DecisionUnknownModel) || !errors.Is(p, ratelimit.ErrNeverFits) || p.RetryAfter != 0 {
					t.Errorf("%s: %+v", test.url, p)
				}
				if resp.StatusCode != 429 || resp.Header.Get("X-Should-Retry") != "false" || resp.Request != req {
					t.Errorf("%s: %d %v", test.url, resp.StatusCode, resp.Header)
				}
				text := readAll(t, resp)
				if !strings.HasPrefix(text, test.form) {
					t.Errorf("%s: %s, want %s", test.url, text, test.form)
				}
				if p, ok := llmhttp.FromError(errors.New(text)); !ok || p.Kind != llmhttp.NotSent || p.Code != string(ratelimit.DecisionUnknownModel) || !errors.Is(p, ratelimit.ErrNeverFits) {
					t.Errorf("%s: from the text %+v", test.url, p)
				}
			})
		}
	}
}

type closeRecorder struct {
	io.Reader
	closed bool
}

func (c *closeRecorder) Close() error { c.closed = true; return nil }

// What cannot be a path would be free of nothing, and nobody would see it.
func TestBadFreePaths(t *testing.T) {
	for _, bad := range []string{"", "/", "POST /v1/rerank", "https://example.com/v1/x", "/v1/x?y=z"} {
		tr := &llmhttp.Transport{Limiter: newLimiter(t, ratelimit.ModelQuota{MaxRPM: 1}), Free: []string{"/v1/x", bad}, Base: base(reply(200, "{}"))}
		closed := &closeRecorder{Reader: strings.NewReader("{}")}
		req, _ := http.NewRequestWithContext(t.Context(), "POST", "http://llm.test/v1/x", closed)
		if _, err := tr.RoundTrip(req); err == nil || !strings.Contains(err.Error(), "Transport.Free[1]") || !closed.closed {
			t.Errorf("%q: %v, body closed %t", bad, err, closed.closed)
		}
	}
}

// What the program takes out of the count on purpose is not told of.
func TestFreePaths(t *testing.T) {
	free := []string{"/v1/rerank", "score/", "/v1/models/{id}/run", "/part/{id}:do", "example.com/v1/x", "/all/{rest...}", "/one/*/end", "/v1/embeddings"}
	for _, test := range []struct {
		url, want string
	}{
		{"http://llm.test/v1/rerank", isFree},
		{"http://llm.test/base/v1/rerank/", isFree},
		{"http://llm.test/v1/rerank?key=k", isFree},
		{"http://llm.test/v1/xrerank", isTold},
		{"http://llm.test/v1/rerank/more", isTold},
		{"http://llm.test/x/score", isFree},
		{"http://llm.test/v1/models/a/run", isFree},
		{"http://llm.test/v1/models/a/b/run", isTold},
		{"http://llm.test/v1/models/run", isTold},
		{"http://llm.test/part/1:do", isFree},
		{"http://llm.test/part/1:undo", isTold},
		{"http://llm.test/part/:do", isTold},
		{"http://api.example.com:8080/v1/x", isFree},
		{"http://EXAMPLE.com/v1/x", isFree},
		{"http://notexample.com/v1/x", isTold},
		{"http://llm.test/base/all/a/b/c", isFree},
		{"http://llm.test/base/all", isTold},
		{"http://llm.test/one/two/end", isFree},
		{"http://llm.test/one/two/three/end", isTold},
		{"http://llm.test/v1/embeddings", isFree},
		{"http://llm.test/v1/completions", isCounted},
	} {
		synctest.Test(t, func(t *testing.T) {
			req, _ := http.NewRequestWithContext(t.Context(), "POST", test.url, strings.NewReader(`{"model":"m"}`))
			got, sent, err := outcome(t, ratelimit.UnknownAllow, req, func(tr *llmhttp.Transport) { tr.Free = free })
			if got != test.want || !sent || err != nil {
				t.Errorf("%s is %s, want %s: sent %t, %v", test.url, got, test.want, sent, err)
			}
		})
	}
}

// A Model that returns nothing takes a call out of the count, but only one that names a model; and
// it may name the model of a call that does not.
func TestModelDecides(t *testing.T) {
	for _, test := range []struct {
		body  string
		model func(*llmhttp.Call) string
		want  string
	}{
		{`{"model":"m"}`, func(*llmhttp.Call) string { return "" }, isFree},
		{`{}`, func(c *llmhttp.Call) string { return c.Model }, isTold},
		{`{}`, func(*llmhttp.Call) string { return "local" }, isCounted},
	} {
		synctest.Test(t, func(t *testing.T) {
			req, _ := http.NewRequestWithContext(t.Context(), "POST", chatURL, strings.NewReader(test.body))
			if got, _, _ := outcome(t, ratelimit.UnknownAllow, req, func(tr *llmhttp.Transport) { tr.Model = test.model }); got != test.want {
				t.Errorf("%s is %s, want %s", test.body, got, test.want)
			}
		})
	}
}

// Connections that carry calls which cannot be counted are told when they are opened.
func TestUncountedConnections(t *testing.T) {
	for _, test := range []struct{ url, upgrade, want, model string }{
		{"https://api.openai.com/v1/realtime?model=gpt-realtime", "websocket", isTold, "gpt-realtime"},
		{"https://r.openai.azure.com/openai/v1/realtime?model=d", "WebSocket", isTold, "d"},
		{"https://generativelanguage.googleapis.com/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent", "websocket", isTold, ""},
		{"https://l-aiplatform.googleapis.com/ws/google.cloud.aiplatform.v1beta1.LlmBidiService/BidiGenerateContent", "websocket", isTold, ""},
		{"https://api.openai.com/v1/realtime?model=gpt-realtime", "", isFree, ""},
		{"https://llm.test/socket", "websocket", isFree, ""},
	} {
		for _, policy := range []ratelimit.UnknownPolicy{ratelimit.UnknownAllow, ratelimit.UnknownDeny} {
			synctest.Test(t, func(t *testing.T) {
				req, _ := http.NewRequestWithContext(t.Context(), "GET", test.url, nil)
				if test.upgrade != "" {
					req.Header.Set("Upgrade", test.upgrade)
				}
				got, sent, err := outcome(t, policy, req, nil)
				if got != test.want || sent == (policy == ratelimit.UnknownDeny && got == isTold) {
					t.Errorf("%s is %s, want %s: sent %t, %v", test.url, got, test.want, sent, err)
				}
			})
		}
	}
}

// A Route tells of what its backends get, and refuses it before one does.
func TestUncountedInRoute(t *testing.T) {
	for _, policy := range []ratelimit.UnknownPolicy{ratelimit.UnknownAllow, ratelimit.UnknownDeny} {
		synctest.Test(t, func(t *testing.T) {
			d := newDenier(t, policy)
			sent := 0
			r := &llmhttp.Route{
				Transport: llmhttp.Transport{Limiter: d.RateLimiter, Free: []string{"/v1/free"}, Base: base(func(req *http.Request) (*http.Response, error) {
					if sent++; req.Header.Get("Authorization") != "key" {
						t.Errorf("sent with %v", req.Header)
					}
					return reply(200, "{}")(req)
				})},
				Backends: []llmhttp.Backend{{Name: "a", Header: http.Header{"Authorization": {"key"}}}},
			}
			for _, path := range []string{"/v1/unheard-of", "/v1/realtime/calls", "/v1/free", "/v1/chat/completions"} {
				resp, err := post(t, r, "http://llm.test"+path, `{"messages":[]}`+"")
				if err != nil {
					t.Fatal(err)
				}
				readAll(t, resp)
			}
			want := map[ratelimit.UnknownPolicy]int{ratelimit.UnknownAllow: 4, ratelimit.UnknownDeny: 2}[policy]
			if sent != want {
				t.Errorf("%v: %d sent, want %d", policy, sent, want)
			}
			if e := d.take(); len(e) != 2 || e[0].Path != "/v1/realtime/calls" || e[1].Path != "/v1/chat/completions" {
				t.Errorf("%+v", e)
			}
		})
	}
}

// A request that passes without a count costs no allocation for being looked at.
func TestPassingAllocatesNothing(t *testing.T) {
	rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 1})
	resp := &http.Response{StatusCode: 200, Body: http.NoBody}
	tr := &llmhttp.Transport{Limiter: rl, Free: []string{"/v1/free"}, Base: base(func(req *http.Request) (*http.Response, error) {
		resp.Request = req
		return resp, nil
	})}
	for _, test := range []struct{ method, url string }{
		{"GET", "http://llm.test/v1/models"},
		{"POST", "http://llm.test/v1/files"},
		{"POST", "http://llm.test/v1/free"},
		{"POST", "http://llm.test/v1/messages/count_tokens"},
		{"POST", "http://llm.test/elsewhere"},
	} {
		req, _ := http.NewRequestWithContext(t.Context(), test.method, test.url, nil)
		req.Header.Set("Content-Type", "application/json")
		if n := testing.AllocsPerRun(100, func() { tr.RoundTrip(req) }); n >= 1 {
			t.Errorf("%s %s: %v allocations", test.method, test.url, n)
		}
	}
}
