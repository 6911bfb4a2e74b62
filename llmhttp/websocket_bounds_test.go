package llmhttp_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// A server that knows no streams answers in the order of the calls, without a stream_id.
func TestSocketServerWithoutStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 100})
		var log eventLog
		client, server := dial(t, &llmhttp.Transport{Limiter: rl, OnEvent: log.add})
		defer closes(client, server)
		for _, stream := range []string{"a", "b", "c"} {
			client.write(t, create(stream, "hello"))
		}
		server.got()
		for i := range 2 {
			server.tell(t, "%s", created("", fmt.Sprint(i)))
			server.tell(t, "%s", completed("", fmt.Sprint(i), 10, 1))
		}
		server.tell(t, "%s", wsError("", `"status":400,`, "websocket_connection_limit_reached", "invalid_request_error"))
		client.got()
		if s := rl.Stats("m"); s.RPM != 3 || s.TPM != 22 || s.InFlight != 0 || len(log.of(llmhttp.EventSettled)) != 3 {
			t.Errorf("charged %+v", s)
		}
	})
}

// A lane is at one response at a time: where the next one is in progress, those before have ended.
func TestSocketNextInProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 100})
		tr := &llmhttp.Transport{Limiter: rl, Estimate: func(*llmhttp.Call) (int, int) { return 100, 50 }}
		client, server := dial(t, tr)
		defer closes(client, server)
		for _, stream := range []string{"a", "a", "b"} {
			client.write(t, create(stream, "hello"))
		}
		server.got()
		for i, stream := range []string{"a", "a", "b"} {
			server.tell(t, "%s", created(stream, fmt.Sprint(i)))
		}
		if client.got(); rl.Stats("m").InFlight != 3 {
			t.Errorf("%+v", rl.Stats("m"))
		}
		server.tell(t, `{"type":"response.in_progress","stream_id":"a","response":{"id":"1"}}`)
		if client.got(); rl.Stats("m").InFlight != 2 || rl.Stats("m").TPM != 450 {
			t.Errorf("%+v", rl.Stats("m"))
		}
		server.tell(t, "%s", completed("a", "0", 1, 1)) // too late
		server.tell(t, "%s", `{"type":"response.completed","stream_id":"a","response":{"usage":{"input_tokens":1,"output_tokens":1}}}`)
		if client.got(); rl.Stats("m").InFlight != 1 || rl.Stats("m").TPM != 302 {
			t.Errorf("%+v", rl.Stats("m"))
		}
	})
}

// Open calls of a client that does not read any more are settled after MaxIdle.
func TestSocketIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 100})
		tr := &llmhttp.Transport{Limiter: rl, MaxIdle: time.Minute}
		near, far := net.Pipe()
		tr.Base = base(func(*http.Request) (*http.Response, error) { return &http.Response{StatusCode: 101, Body: near}, nil })
		resp, err := tr.RoundTrip(upgrade(t, socketURL))
		if err != nil {
			t.Fatal(err)
		}
		server := newPeer(far)
		client := resp.Body.(io.ReadWriteCloser)
		client.Write(create("", "hello"))
		go func() {
			for {
				if _, err := far.Write(wsBytes(true, 9, false, []byte("ping"))); err != nil {
					return
				}
			}
		}()
		synctest.Wait()
		time.Sleep(time.Minute - 1)
		if synctest.Wait(); rl.Stats("m").InFlight != 1 {
			t.Errorf("settled too soon: %+v", rl.Stats("m"))
		}
		time.Sleep(time.Nanosecond)
		if synctest.Wait(); rl.Stats("m").InFlight != 0 {
			t.Errorf("not settled: %+v", rl.Stats("m"))
		}
		client.Close()
		<-server.done
	})
}

// brokenConn is a connection whose writes fail after the first.
type brokenConn struct {
	net.Conn
	wrote int
}

var errBroken = errors.New("broken")

func (c *brokenConn) Write(p []byte) (int, error) {
	if c.wrote++; c.wrote > 1 {
		return len(p) / 2, errBroken
	}
	return c.Conn.Write(p)
}

// After a failed write all that may have been sent is charged, and nothing more is taken.
func TestSocketWriteFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 100})
		near, far := net.Pipe()
		tr := &llmhttp.Transport{Limiter: rl, Base: base(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 101, Body: &brokenConn{Conn: near}}, nil
		})}
		resp, err := tr.RoundTrip(upgrade(t, socketURL))
		if err != nil {
			t.Fatal(err)
		}
		client, server := newPeer(resp.Body.(io.ReadWriteCloser)), newPeer(far)
		defer closes(client, server)
		client.write(t, create("a", "hello"))
		for range 2 {
			if _, err := client.Write(create("b", "hello")); !errors.Is(err, errBroken) {
				t.Errorf("got %v", err)
			}
		}
		if s := rl.Stats("m"); s.RPM != 2 || s.TPM == 0 || s.InFlight != 0 {
			t.Errorf("charged %+v", s)
		}
	})
}

// A closed limiter lets no call pass that would have to wait.
func TestSocketLimiterClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 1})
		client, server := dial(t, &llmhttp.Transport{Limiter: rl})
		defer closes(client, server)
		client.write(t, create("", "first"))
		client.write(t, create("", "waits"))
		server.got()
		rl.Close()
		client.write(t, create("b", "late"))
		got := client.texts()
		slices.Sort(got) // that without a stream_id comes first
		if len(got) != 2 || !strings.Contains(got[0], `"status":503,"error"`) || !strings.Contains(got[1], `"status":503,"stream_id":"b"`) {
			t.Errorf("the client got %q", got)
		}
		if got := server.texts(); len(got) != 0 {
			t.Errorf("the server got %q", got)
		}
	})
}

// What a connection remembers of streams and calls is bounded, and all of them are counted.
func TestSocketManyStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 1 << 20})
		client, server := dial(t, &llmhttp.Transport{Limiter: rl})
		defer closes(client, server)
		const calls = 1500
		for i := range calls {
			client.write(t, create(fmt.Sprint("s", i), ""))
		}
		if got, s := len(server.got()), rl.Stats("m"); got != calls || s.RPM != calls || s.InFlight != 1024 {
			t.Errorf("%d messages; %+v", got, s)
		}
	})
}

// An upgrade over HTTP/2 cannot be counted, and NoWebSocket refuses it.
func TestSocketOverHTTP2(t *testing.T) {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodConnect, socketURL, strings.NewReader(""))
	if err != nil {
		t.Fatal(err)
	}
	req.Header[":protocol"] = []string{"websocket"}
	tr := &llmhttp.Transport{Limiter: newLimiter(t, ratelimit.ModelQuota{}), Base: reply(200, "")}
	if resp, err := tr.RoundTrip(req); err != nil || resp.StatusCode != 200 {
		t.Errorf("%v, %v", resp, err)
	}
	tr.NoWebSocket = true
	if resp, err := tr.RoundTrip(req); err != nil || resp.StatusCode != 426 {
		t.Errorf("%v, %v", resp, err)
	}
}
