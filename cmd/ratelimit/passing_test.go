package main_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// plainUpstream is an upstream that shows the bytes that it gets, and answers with given ones.
func plainUpstream(t testing.TB, answer string) (url string, got <-chan string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	requests := make(chan string, 100)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				raw := new(bytes.Buffer)
				req, err := http.ReadRequest(bufio.NewReader(io.TeeReader(conn, raw)))
				if err != nil {
					return
				}
				io.Copy(io.Discard, req.Body) //nolint:errcheck // a request that ends early is shown as it is
				requests <- raw.String()
				io.WriteString(conn, answer) //nolint:errcheck // the client sees what is missing
			}()
		}
	}()
	return "http://" + l.Addr().String(), requests
}

// say sends bytes, and returns the answer as it comes until the connection closes.
func say(t testing.TB, url, text string) string {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, text) //nolint:errcheck // the answer shows it
	answer, _ := io.ReadAll(conn)
	return string(answer)
}

// Nothing is added to a request, and nothing taken off but what is for the proxy.
func TestRequestOnTheWire(t *testing.T) {
	const plain = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"
	url, got := plainUpstream(t, plain)
	p := start(t, "--upstream", url, "--rpm", "100")
	host := "Host: " + strings.TrimPrefix(url, "http://") + "\r\n"
	for _, test := range []struct{ name, request, want string }{
		{"HEAD", "HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n", "HEAD / HTTP/1.1\r\n" + host + "\r\n"},
		{
			"models", "GET /v1/models?beta=true&x=%20+;y HTTP/1.1\r\nHost: localhost\r\nAnthropic-Beta: a,b\r\nUser-Agent: me\r\n\r\n",
			"GET /v1/models?beta=true&x=%20+;y HTTP/1.1\r\n" + host + "User-Agent: me\r\nAnthropic-Beta: a,b\r\n\r\n",
		},
		{
			"headers of the proxy, of a hop, and of gateways before",
			"GET /a HTTP/1.1\r\nHost: localhost\r\nX-Ratelimit-Class: c\r\nX-Ratelimit-Anything: c\r\nX-Hop: 1\r\nConnection: X-Hop\r\nKeep-Alive: 5\r\n" +
				"Proxy-Authorization: x\r\nX-Forwarded-For: 10.0.0.1\r\nVia: 1.1 other\r\n\r\n",
			"GET /a HTTP/1.1\r\n" + host + "Via: 1.1 other\r\nX-Forwarded-For: 10.0.0.1\r\n\r\n",
		},
		{
			"codings", "GET /b HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: br, gzip;q=0.8, zstd\r\n\r\n",
			"GET /b HTTP/1.1\r\n" + host + "Accept-Encoding: gzip\r\n\r\n",
		},
		{
			"no gzip", "GET /c HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: br, gzip;q=0.00, zstd\r\n\r\n",
			"GET /c HTTP/1.1\r\n" + host + "\r\n",
		},
		{
			"an unknown field in a body, and no type",
			"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 27\r\n\r\n{\"model\": \"m\", \"new\":[ 1]} ",
			"POST /v1/chat/completions HTTP/1.1\r\n" + host + "Content-Length: 27\r\n\r\n{\"model\": \"m\", \"new\":[ 1]} ",
		},
		{
			"a body without a length",
			"POST /v1/x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n1\r\nd\r\n0\r\n\r\n",
			"POST /v1/x HTTP/1.1\r\n" + host + "Content-Length: 4\r\n\r\nabcd",
		},
		{
			"two framings",
			"POST /v1/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n4\r\nabcd\r\n0\r\n\r\n",
			"POST /v1/x HTTP/1.1\r\n" + host + "Content-Length: 4\r\n\r\nabcd",
		},
		{
			"trailers",
			"POST /v1/x HTTP/1.1\r\nHost: localhost\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\nX-Sum: 7\r\n\r\n",
			"POST /v1/x HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n2\r\nab\r\n0\r\nX-Sum: 7\r\n\r\n",
		},
	} {
		request := test.request
		if !strings.Contains(request, "Connection:") {
			request = strings.Replace(request, "\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1)
		}
		if request = strings.Replace(request, "Connection: X-Hop", "Connection: X-Hop, close", 1); say(t, p.url, request) == "" {
			t.Errorf("%s: no answer", test.name)
		}
		if sent := wait(t, got, "request"); sent != test.want {
			t.Errorf("%s: sent\n%q, want\n%q", test.name, sent, test.want)
		}
	}
}

// An answer comes as it is, without a header more; nothing lets pages of elsewhere read it.
func TestAnswerOnTheWire(t *testing.T) {
	zipped := new(bytes.Buffer)
	z := gzip.NewWriter(zipped)
	io.WriteString(z, answers) //nolint:errcheck // in memory
	z.Close()
	for _, test := range []struct{ name, answer, want string }{
		{"no type, no date", "HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n<html>not known", ""},
		{"an error", "HTTP/1.1 429 Too Many Requests\r\nContent-Length: 2\r\nDate: then\r\nRetry-After: 3\r\nX-Ratelimit-Limit-Requests: 5\r\n\r\n{}", ""},
		{
			"gzip", fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\nContent-Type: application/json\r\n\r\n%s", zipped.Len(), zipped), "",
		},
		{
			"trailers", "HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\nX-Sum: 7\r\n\r\n", "",
		},
		{
			"CORS", "HTTP/1.1 200 OK\r\nAccess-Control-Allow-Origin: *\r\nAccess-Control-Allow-Headers: *\r\nContent-Length: 0\r\n\r\n",
			"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
		},
	} {
		url, _ := plainUpstream(t, strings.Replace(test.answer, "\r\n", "\r\nConnection: close\r\n", 1))
		p := start(t, "--upstream", url, "--rpm", "100")
		got := say(t, p.url, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\nContent-Length: 13\r\nConnection: close\r\n\r\n{\"model\":\"m\"}")
		want := test.want
		if want == "" {
			want = test.answer
		}
		if strings.Replace(got, "Connection: close\r\n", "", 1) != want {
			t.Errorf("%s: got\n%q, want\n%q", test.name, got, want)
		}
	}
}

// Each event of a stream arrives before the next one is sent, and its usage is counted.
func TestStream(t *testing.T) {
	next := make(chan string)
	u := provider(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for event := range next {
			io.WriteString(w, event) //nolint:errcheck // the client sees it
			w.(http.Flusher).Flush()
		}
	})
	p := start(t, "--upstream", u.URL, "--tpm", "1000")
	events := []string{
		"data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n", ": a comment\n\n", "data: {\"cho",
		"ices\":[],\"usage\":{\"prompt_tokens\":100,\"completion_tokens\":11,\"total_tokens\":111}}\n\n", "data: [DONE]\n\n",
	}
	got := asking(t.Context(), t, p.url, `{"model":"m","stream":true,"messages":[]}`)
	next <- events[0]
	resp := wait(t, got, "head of the stream")
	for i, event := range events {
		if i > 0 {
			next <- event
		}
		part := make([]byte, len(event))
		if _, err := io.ReadFull(resp.Body, part); err != nil || string(part) != event {
			t.Fatalf("%q, %v", part, err)
		}
	}
	close(next)
	if rest := read(t, resp); rest != "" {
		t.Errorf("behind the stream: %q", rest)
	}
	p.tells(`ratelimit_quota_used\{dimension="tpm",model="m",provider="",source="program"\} 111`)
}

// pong is a masked frame without content.
const pong = "\x8a\x80\x00\x00\x00\x00"

// A WebSocket passes both ways, and --no-websocket refuses those to models.
func TestWebSocket(t *testing.T) {
	ponged := make(chan struct{})
	u := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Upgrade", "websocket")
		w.Header().Set("Connection", "Upgrade")
		w.WriteHeader(http.StatusSwitchingProtocols)
		conn, both, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		io.WriteString(conn, "\x89\x00")             //nolint:errcheck // a ping; the client sees it
		io.CopyN(io.Discard, both, int64(len(pong))) //nolint:errcheck // what comes is checked here
		close(ponged)
	}))
	t.Cleanup(u.Close)
	const upgrade = "GET /v1/responses HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: x\r\n\r\n"
	p := start(t, "--upstream", u.URL, "--rpm", "10")
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, upgrade) //nolint:errcheck // the answer shows it
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%v, %v", resp, err)
	}
	ping := make([]byte, 2)
	if _, err := io.ReadFull(r, ping); err != nil || string(ping) != "\x89\x00" {
		t.Errorf("%q, %v", ping, err)
	}
	io.WriteString(conn, pong) //nolint:errcheck // the upstream waits for it
	wait(t, ponged, "answer to the ping")
	none := start(t, "--upstream", u.URL, "--rpm", "10", "--no-websocket")
	if got := say(t, none.url, strings.Replace(upgrade, "Connection: Upgrade", "Connection: Upgrade, close", 1)); !strings.HasPrefix(got, "HTTP/1.1 426 ") {
		t.Errorf("got %q", got)
	}
}
