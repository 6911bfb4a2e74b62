package main_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// dripping is a body of which a byte comes again and again.
type dripping struct{ ctx context.Context }

func (d dripping) Read(b []byte) (int, error) {
	select {
	case <-time.After(idle / 8): // slowly is what it is about
		return copy(b, "x"), nil
	case <-d.ctx.Done():
		return 0, d.ctx.Err()
	}
}

// Over HTTP/2 a client has no more of anything.
func TestHostileHTTP2(t *testing.T) {
	t.Parallel()
	cert, key, pool := certificate(t)
	g := newGate()
	u := provider(t, g.handle)
	p := start(t, "--upstream", u.URL, "--in-flight", "1", "--max-queue", "2", "--idle-timeout", idle.String(), "--tls-cert", cert, "--tls-key", key)
	client := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, Protocols: new(http.Protocols)}
	client.Protocols.SetHTTP2(true)
	t.Cleanup(client.CloseIdleConnections)
	p.via.Transport = client
	send := func(req *http.Request) (status int, body string) {
		resp, err := client.RoundTrip(req)
		if err != nil {
			t.Errorf("%s: %v", req.URL, err)
			return 0, ""
		}
		return resp.StatusCode, read(t, resp)
	}
	call := func(ctx context.Context, body io.Reader) *http.Request {
		req, err := http.NewRequestWithContext(ctx, "POST", p.url+"/v1/chat/completions", body)
		if err != nil {
			t.Fatal(err)
		}
		return req
	}
	if status, body := send(call(t.Context(), dripping{t.Context()})); status != 408 {
		t.Errorf("a body that trickles: %d, %s", status, body)
	}
	large := call(t.Context(), dripping{t.Context()})
	large.ContentLength = 32*mib + 1
	if status, body := send(large); status != 413 {
		t.Errorf("a body that says how large it is: %d, %s", status, body)
	}
	if status, body := send(call(t.Context(), io.LimitReader(zeros{}, 33*mib))); status != 413 {
		t.Errorf("a body that is too large: %d, %s", status, body)
	}
	asterisk := request(t, "OPTIONS", p.url, "")
	asterisk.URL.Opaque = "*"
	if status, body := send(asterisk); status != 400 {
		t.Errorf("OPTIONS *: %d, %s", status, body)
	}
	// Two wait, and a third has no place until one of them goes away.
	asked, stop := context.WithCancel(t.Context())
	answered := make(chan int, 10)
	ask := func(ctx context.Context) {
		resp, err := client.RoundTrip(call(ctx, strings.NewReader(chat("m"))))
		if errors.Is(err, context.Canceled) {
			answered <- 0
			return
		}
		if err == nil {
			answered <- resp.StatusCode
			resp.Body.Close()
		}
	}
	go ask(t.Context())
	wait(t, g.came, "call")
	go ask(asked)
	go ask(asked)
	p.waiting(2)
	if status, body := send(call(t.Context(), strings.NewReader(chat("m")))); status != 429 || !strings.Contains(body, "queue is full") {
		t.Errorf("a third that waits: %d, %s", status, body)
	}
	stop()
	p.waiting(0)
	close(g.open)
	got := 0
	for range 3 {
		got += wait(t, answered, "answer")
	}
	if got != 200 || len(u.requests()) != 1 {
		t.Errorf("the answers add up to %d, %d requests went on", got, len(u.requests()))
	}
}

// zeros are without an end.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }
