package llmhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"dappco.re/go/core/go-ratelimit"
)

// newLimiter returns a limiter with a quota for the model "m".
func newLimiter(t testing.TB, q ratelimit.ModelQuota) *ratelimit.RateLimiter {
	t.Helper()
	return newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": q}})
}

func newLimiterWith(t testing.TB, cfg ratelimit.Config) *ratelimit.RateLimiter {
	t.Helper()
	cfg.FilePath = filepath.Join(t.TempDir(), "state.yaml")
	if cfg.OnError == nil {
		cfg.OnError = func(error) {} // nil writes to the log
	}
	rl, err := ratelimit.NewWithConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return rl
}

// base is a provider without a network.
type base func(*http.Request) (*http.Response, error)

func (b base) RoundTrip(req *http.Request) (*http.Response, error) { return b(req) }

// reply returns a base that answers all requests with a status, headers ("Name: value") and a body.
func reply(status int, body string, headers ...string) base {
	return func(req *http.Request) (*http.Response, error) {
		if req.Body != nil {
			io.Copy(io.Discard, req.Body)
			req.Body.Close()
		}
		return response(req, status, body, headers...), nil
	}
}

func response(req *http.Request, status int, body string, headers ...string) *http.Response {
	h := http.Header{}
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		h.Add(name, value)
	}
	return &http.Response{
		StatusCode: status, Status: fmt.Sprint(status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: h, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)), Request: req,
	}
}

const chatURL = "http://llm.test/v1/chat/completions"

func post(t testing.TB, rt http.RoundTripper, url, body string) (*http.Response, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return rt.RoundTrip(req)
}

func readAll(t testing.TB, resp *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// exchange makes a call and reads its answer. It may run in any goroutine.
func exchange(t testing.TB, rt http.RoundTripper, url, body string) {
	t.Helper()
	resp, err := post(t, rt, url, body)
	if err == nil {
		_, err = io.ReadAll(resp.Body)
		err = errors.Join(err, resp.Body.Close())
	}
	if err != nil {
		t.Error(err)
	}
}

func sse(events ...string) string { return "data: " + strings.Join(events, "\n\ndata: ") + "\n\n" }

type closer struct {
	io.Reader
	closed *bool
}

func (c *closer) Close() error { *c.closed = true; return nil }

type failing struct{ err error }

func (f *failing) Read([]byte) (int, error) { return 0, f.err }

// endlessBody returns a body of size bytes that repeats a text.
func endlessBody(letter string, size int64) io.ReadCloser {
	return io.NopCloser(io.LimitReader(repeater(strings.Repeat(letter, 32<<10)), size))
}

type repeater string

func (r repeater) Read(p []byte) (int, error) { return copy(p, r), nil }

// pipeListener serves connections of net.Pipe, which work in a bubble.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error { l.once.Do(func() { close(l.done) }); return nil }

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{} }

func (l *pipeListener) dial(context.Context, string, string) (net.Conn, error) {
	a, b := net.Pipe()
	select {
	case l.conns <- b:
		return a, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}
