package llmhttp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// The upgrade is sent as it is, but for extensions; other upgrades as they are.
func TestSocketUpgrade(t *testing.T) {
	var sent *http.Request
	tr := &llmhttp.Transport{Limiter: newLimiter(t, ratelimit.ModelQuota{MaxRPM: 1})}
	tr.Base = base(func(req *http.Request) (*http.Response, error) {
		sent = req
		return response(req, 403, "{}"), nil
	})
	for _, test := range []struct {
		path    string
		changed bool
	}{
		{"/v1/responses", true}, {"/v1/responses/", true}, {"/openai/v1/responses?api-version=preview", true}, {"/responses", true},
		{"/v1/responses/resp_1", false}, {"/v1/realtime?model=m", false}, {"/chat/socket", false}, {"/xresponses", false},
	} {
		req := upgrade(t, "http://llm.test"+test.path)
		before := req.Header.Clone()
		resp, err := tr.RoundTrip(req)
		if err != nil || resp.StatusCode != 403 || resp.Request != req {
			t.Fatalf("%s: %+v, %v", test.path, resp, err)
		}
		if !reflect.DeepEqual(req.Header, before) {
			t.Errorf("%s: the caller's headers were changed: %v", test.path, req.Header)
		}
		if test.changed {
			delete(before, "Sec-Websocket-Extensions")
		} else if sent != req {
			t.Errorf("%s: Base got another request", test.path)
		}
		if !reflect.DeepEqual(sent.Header, before) {
			t.Errorf("%s: sent %v", test.path, sent.Header)
		}
	}
	failure := errors.New("no network")
	tr = &llmhttp.Transport{Limiter: tr.Limiter, Base: base(func(*http.Request) (*http.Response, error) { return nil, failure })}
	if _, err := tr.RoundTrip(upgrade(t, socketURL)); err != failure {
		t.Errorf("got %v", err)
	}
	body := io.NopCloser(strings.NewReader(""))
	tr = &llmhttp.Transport{Limiter: tr.Limiter, Base: base(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 101, Body: body}, nil
	})}
	if resp, err := tr.RoundTrip(upgrade(t, socketURL)); err != nil || resp.Body != body {
		t.Errorf("a body without Write: %v", err)
	}
}

// With NoWebSocket no WebSocket to a model is opened, and other requests pass.
func TestNoWebSocket(t *testing.T) {
	sent := 0
	tr := &llmhttp.Transport{Limiter: newLimiter(t, ratelimit.ModelQuota{MaxRPM: 1}), NoWebSocket: true}
	tr.Base = base(func(req *http.Request) (*http.Response, error) {
		sent++
		return response(req, 200, "{}"), nil
	})
	for _, path := range []string{
		"/v1/responses", "/v1/realtime?model=m", "/v1/realtime/translations", "/v1/live/sessions", "/v1/live/sessions/s_1/attach",
		"/v1/live/sessions/s_1/fork", "/openai/realtime", "/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent?key=k",
		"/ws/google.ai.generativelanguage.v1alpha.GenerativeService.BidiGenerateContentConstrained",
		"/ws/google.ai.generativelanguage.v1alpha.GenerativeService.BidiGenerateMusic",
		"/ws/google.cloud.aiplatform.v1.LlmBidiService/BidiGenerateContent",
	} {
		req := upgrade(t, "http://llm.test"+path)
		closed := false
		req.Body = &closer{strings.NewReader(""), &closed}
		resp, err := tr.RoundTrip(req)
		if err != nil || resp.StatusCode != http.StatusUpgradeRequired || resp.Header.Get("Upgrade") == "" || resp.Request != req || !closed {
			t.Fatalf("%s: %+v, %v", path, resp, err)
		}
		if body := readAll(t, resp); !strings.Contains(body, "NoWebSocket") || int64(len(body)) != resp.ContentLength {
			t.Errorf("%s: %s", path, body)
		}
		if p := llmhttp.Classify(resp); p == nil || p.Kind != llmhttp.Rejected {
			t.Errorf("%s: classified as %v", path, p)
		}
	}
	if sent != 0 {
		t.Errorf("%d requests were sent", sent)
	}
	for i, path := range []string{"/chat", "/v1/responses/resp_1", "/ws/google.ai.generativelanguage..GenerativeService.BidiGenerateContent"} {
		if resp, err := tr.RoundTrip(upgrade(t, "http://llm.test"+path)); err != nil || resp.StatusCode != 200 || sent != i+1 {
			t.Errorf("%s: %v, %v", path, resp, err)
		}
	}
	resp, err := post(t, tr, socketURL, `{"model":"m"}`)
	if err != nil || resp.StatusCode != 200 {
		t.Errorf("a call over HTTP: %v, %v", resp, err)
	}
}

// answering serves a WebSocket that answers each create with a response of 3 and 4 tokens.
func answering(t testing.TB) *httptest.Server {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Sec-WebSocket-Extensions") != "" {
			t.Error("an extension was asked for")
		}
		w.Header().Set("Upgrade", "websocket")
		w.Header().Set("Connection", "Upgrade")
		w.WriteHeader(http.StatusSwitchingProtocols)
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		for i := 0; ; i++ {
			f, err := readFrame(buffered)
			if err != nil || f.code == 8 {
				return
			}
			conn.Write(wsBytes(true, 1, false, []byte(completed("", fmt.Sprint("r", i), 3, 4))))
		}
	}))
	t.Cleanup(server.Close)
	return server
}

// Over real connections, and through a gateway, the context of the opening does not bound the
// calls, and nothing is left when the body is closed.
func TestSocketOverHTTP(t *testing.T) {
	server := answering(t)
	rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 100})
	tr := &llmhttp.Transport{Limiter: rl}
	t.Cleanup(tr.CloseIdleConnections)
	to, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Transport: tr, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }}
	gateway := httptest.NewServer(proxy)
	t.Cleanup(gateway.Close)
	for i, via := range []struct {
		url string
		rt  http.RoundTripper
	}{{server.URL, tr}, {gateway.URL, http.DefaultTransport.(*http.Transport).Clone()}} {
		ctx, cancel := context.WithCancel(t.Context())
		resp, err := via.rt.RoundTrip(upgrade(t, via.url+"/v1/responses").WithContext(ctx))
		if err != nil || resp.StatusCode != 101 {
			t.Fatalf("%v, %v", resp, err)
		}
		cancel()
		conn := resp.Body.(io.ReadWriteCloser)
		for range 3 {
			if _, err := conn.Write(create("", "hello")); err != nil {
				t.Fatal(err)
			}
			if f, err := readFrame(conn); err != nil || !bytes.Contains(f.payload, []byte("response.completed")) {
				t.Fatalf("%s, %v", f.payload, err)
			}
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		if _, err := conn.Read(make([]byte, 1)); i == 0 && !errors.Is(err, net.ErrClosed) {
			t.Errorf("Read after Close: %v", err)
		}
		if s := rl.Stats("m"); s.RPM != 3*(i+1) || s.TPM != 21*(i+1) || s.InFlight != 0 {
			t.Errorf("charged %+v", s)
		}
	}
}

// A WebSocket of a Route goes to one backend, and its calls count there. WithCharge adds to each.
func TestSocketRoute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"*": {MaxRPM: 100}, "team": {MaxTPM: 1000}}})
		near, far := net.Pipe()
		var sent *http.Request
		route := &llmhttp.Route{
			Transport: llmhttp.Transport{Limiter: rl, Base: base(func(req *http.Request) (*http.Response, error) {
				sent = req
				return &http.Response{StatusCode: 101, Body: near}, nil
			})},
			Backends: []llmhttp.Backend{{Name: "eu", BaseURL: "http://eu.test/v1"}, {Name: "us", BaseURL: "http://us.test/v1"}},
			BaseURL:  "http://llm.test/v1",
		}
		ctx := llmhttp.WithCharge(t.Context(), ratelimit.Request{Model: "team"})
		resp, err := route.RoundTrip(upgrade(t, socketURL).WithContext(ctx))
		if err != nil {
			t.Fatal(err)
		}
		client, server := newPeer(resp.Body.(io.ReadWriteCloser)), newPeer(far)
		defer closes(client, server)
		for i := range 4 {
			client.write(t, create("", "hello"))
			if got := server.got(); len(got) != 1 || sent.URL.Host != "eu.test" {
				t.Fatalf("%s got %d messages", sent.URL, len(got))
			}
			server.tell(t, "%s", completed("", fmt.Sprint(i), 3, 4))
			client.got()
		}
		for model, requests := range map[string]int{"eu/m": 4, "us/m": 0, "m": 0, "team": 4} {
			if s := rl.Stats(model); s.RPM != requests || s.TPM != 7*requests || s.InFlight != 0 {
				t.Errorf("%s: charged %+v", model, s)
			}
		}
	})
}

// Many streams at once, of a server that answers in any order, are counted to the token, and end
// with the connection.
func TestSocketStress(t *testing.T) {
	for range 5 {
		synctest.Test(t, func(t *testing.T) {
			rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 30, MaxInFlight: 5})
			var log eventLog
			client, server := dial(t, &llmhttp.Transport{Limiter: rl, OnEvent: log.add})
			defer closes(client, server)
			var writes sync.Mutex // of the client
			var work sync.WaitGroup
			const streams, turns = 8, 12
			for i := range streams {
				work.Go(func() {
					for range turns {
						time.Sleep(rand.N(3 * time.Second))
						writes.Lock()
						client.write(t, create(fmt.Sprint("s", i), strings.Repeat("x", rand.IntN(2000))))
						writes.Unlock()
					}
				})
			}
			answered, tokens := 0, 0
			for answered < streams*turns {
				time.Sleep(rand.N(time.Second))
				for _, f := range server.got() {
					stream := string(f.payload[bytes.Index(f.payload, []byte(`"stream_id":"`))+13:][:2])
					answered++
					tokens += answered + 1
					server.tell(t, "%s", created(stream, fmt.Sprint("r", answered)))
					server.tell(t, "%s", completed(stream, fmt.Sprint("r", answered), answered, 1))
				}
			}
			work.Wait()
			client.got()
			settled := 0
			for _, e := range log.of(llmhttp.EventSettled) {
				settled += e.Settled.PromptTokens + e.Settled.OutputTokens
			}
			if settled != tokens || rl.Stats("m").InFlight != 0 {
				t.Errorf("settled %d tokens, the server counted %d; %+v", settled, tokens, rl.Stats("m"))
			}
		})
	}
}

// A call waits longer than the context of the opening lasts.
func TestSocketOutlivesOpening(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 1})
		near, far := net.Pipe()
		tr := &llmhttp.Transport{Limiter: rl, Margin: -1, Base: base(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 101, Body: near}, nil
		})}
		ctx, cancel := context.WithCancel(t.Context())
		resp, err := tr.RoundTrip(upgrade(t, socketURL).WithContext(ctx))
		if err != nil {
			t.Fatal(err)
		}
		client, server := newPeer(resp.Body.(io.ReadWriteCloser)), newPeer(far)
		defer closes(client, server)
		client.write(t, create("", "first"))
		client.write(t, create("", "waits"))
		cancel()
		if got := len(server.got()); got != 1 {
			t.Fatalf("the server got %d messages", got)
		}
		time.Sleep(time.Minute + 1)
		if got := len(server.got()); got != 1 {
			t.Errorf("the server got %d messages", got)
		}
	})
}
