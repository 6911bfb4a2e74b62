package main_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"testing"
	"time"
)

// idle is the --idle-timeout of these tests.
const idle = 400 * time.Millisecond

// trickle sends a text, and then a byte again and again, until the server ends the connection. It
// returns what the server said.
func trickle(t testing.TB, conn net.Conn, text string) (status int, answer string) {
	t.Helper()
	ended := make(chan string, 1)
	go func() {
		all, _ := io.ReadAll(conn)
		ended <- string(all)
	}()
	io.WriteString(conn, text) //nolint:errcheck // the answer shows it
	for late := time.After(patience); ; {
		select {
		case answer := <-ended:
			return statusOf(answer), answer
		case <-time.After(idle / 8): // slowly is what it is about
			io.WriteString(conn, "x") //nolint:errcheck // likewise
		case <-late:
			t.Fatalf("%q goes on and on", text)
		}
	}
}

// Who sends slowly is cut, in words where there can be some.
func TestHostileTrickle(t *testing.T) {
	t.Parallel()
	u := provider(t, nil)
	cert, key, _ := certificate(t)
	flags := []string{"--upstream", u.URL, "--rpm", "1000", "--idle-timeout", idle.String(), "--token-file", tokenFile(t, "alice "+aliceToken+"\n")}
	p := start(t, flags...)
	secure := start(t, append(flags, "--tls-cert", cert, "--tls-key", key)...)
	call := "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Ratelimit-Token: " + aliceToken + "\r\n"
	for _, test := range []struct {
		what, url, text string
		status          int // zero where the connection just ends
	}{
		{"a head", p.url, "POST /v1/chat/completions HTTP/1.1\r\nX: ", 0},
		{"a head on the admin port", p.admin, "POST /v1/chat/completions HTTP/1.1\r\nX: ", 0},
		{"a hello of TLS", secure.url, "\x16\x03\x01\x02\x00\x01", 0},
		{"a body", p.url, call + "Content-Length: 1000000\r\n\r\n{", 408},
		{"chunks", p.url, call + "Transfer-Encoding: chunked\r\n\r\nFFFF\r\n{", 408},
		{"a form", p.url, call + "Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 1000000\r\n\r\n--b\r\n", 408},
		{"what belongs to nobody", p.url, call + "Content-Type: a/b\r\nContent-Length: 1000000\r\n\r\n", 408},
		{"the extension of a chunk", p.url, call + "Transfer-Encoding: chunked\r\n\r\n1;", 408},
		{"a body without a token", p.url, "POST /v1/x HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000000\r\n\r\n", 401},
		{"a short body without a token", p.url, "POST /v1/x HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 10000\r\n\r\n", 401},
		{"chunks of a foreign page", p.url, call + "Origin: null\r\nTransfer-Encoding: chunked\r\n\r\nFFFF\r\n", 403},
		{"a body on the admin port", p.admin, "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Ratelimit-Token: " + aliceToken + "\r\nContent-Length: 10000\r\n\r\n", 405},
		{"a body on the admin port without a token", p.admin, "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 10000\r\n\r\n", 401},
	} {
		t.Run(test.what, func(t *testing.T) {
			t.Parallel()
			if status, answer := trickle(t, dial(t, test.url), test.text); status != test.status {
				t.Errorf("want %d: %s", test.status, answer)
			}
		})
	}
}

// floods is the handler of an upstream: its first call streams for as long as it is read, the
// others are answered. It tells when the first one ends.
func floods(t testing.TB) (u *upstream, began, ended chan struct{}) {
	began, ended = make(chan struct{}, 10), make(chan struct{}, 10)
	line := []byte("data: " + strings.Repeat("x", 32<<10) + "\n\n")
	u = provider(t, func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.Header.Get("Accept"), "event-stream") {
			io.WriteString(w, answers) //nolint:errcheck // the test sees what is missing
			return
		}
		began <- struct{}{}
		defer func() { ended <- struct{}{} }()
		var to io.Writer = w
		if r.Header.Get("Upgrade") != "" {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				panic(err)
			}
			defer conn.Close()
			io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n") //nolint:errcheck // the next one fails
			to = conn
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for {
			if _, err := to.Write(line); err != nil {
				return
			}
		}
	})
	return u, began, ended
}

// Who does not read its stream is cut, and the slot of the call goes on.
func TestHostileReaders(t *testing.T) {
	t.Parallel()
	cert, key, pool := certificate(t)
	second := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, Protocols: new(http.Protocols)}
	second.Protocols.SetHTTP2(true)
	t.Cleanup(second.CloseIdleConnections)
	stream := func(p *proxied, more ...string) {
		conn := dial(t, p.url)
		if err := conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
			t.Fatal(err)
		}
		io.WriteString(conn, raw("POST", "/v1/chat/completions", chat("m"), append(more, "Accept: text/event-stream")...)) //nolint:errcheck // the upstream waits
	}
	for what, ask := range map[string]func(t *testing.T, p *proxied){
		"a stream":                 func(_ *testing.T, p *proxied) { stream(p) },
		"a stream with heartbeats": func(_ *testing.T, p *proxied) { stream(p, "X-Beat: 1") },
		"HTTP/2": func(t *testing.T, p *proxied) {
			resp, err := second.RoundTrip(request(t, "POST", p.url+"/v1/chat/completions", chat("m"), "Accept", "text/event-stream"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { resp.Body.Close() })
		},
		"a WebSocket": func(t *testing.T, p *proxied) {
			io.WriteString(dial(t, p.url), raw("GET", "/v1/any", "", "Accept: text/event-stream", "Connection: Upgrade", "Upgrade: websocket")) //nolint:errcheck // as above
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			u, began, ended := floods(t)
			flags := []string{"--upstream", u.URL, "--in-flight", "1", "--idle-timeout", idle.String()}
			if what == "HTTP/2" {
				flags = append(flags, "--tls-cert", cert, "--tls-key", key, "--admin", "")
			}
			if strings.Contains(what, "beat") {
				flags = append(flags, "--heartbeat", "10ms")
			}
			p := start(t, flags...)
			ask(t, p)
			wait(t, began, "first call")
			client := &http.Client{Transport: http.DefaultTransport}
			if what == "HTTP/2" {
				client.Transport = second
			}
			resp, err := client.Do(request(t, "POST", p.url+"/v1/chat/completions", chat("m")))
			if err != nil {
				t.Fatal(err)
			}
			if body := read(t, resp); resp.StatusCode != 200 {
				t.Errorf("the second call: %d, %s", resp.StatusCode, body)
			}
			wait(t, ended, "end of the first call")
		})
	}
}

// A call may take longer than a client may neither read nor send, at its beginning, between two
// parts and before its end, and so may what lies between two calls of a connection.
func TestHostilePause(t *testing.T) {
	t.Parallel()
	cert, key, pool := certificate(t)
	u := provider(t, func(w http.ResponseWriter, r *http.Request) {
		for i := range 2 {
			time.Sleep(idle * 3 / 2)              // which must not end it
			fmt.Fprintf(w, "data: %d\n\n", i)     //nolint:errcheck // the test sees what is missing
			http.NewResponseController(w).Flush() //nolint:errcheck // likewise
		}
		time.Sleep(idle * 3 / 2)
	})
	flags := []string{"--upstream", u.URL, "--rpm", "1000", "--idle-timeout", idle.String(), "--admin", ""}
	open, secure := start(t, flags...), start(t, append(flags, "--tls-cert", cert, "--tls-key", key)...)
	for what, test := range map[string]struct {
		p      *proxied
		second bool
	}{"HTTP": {open, false}, "TLS": {secure, false}, "HTTP/2": {secure, true}} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			client := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, Protocols: new(http.Protocols)}
			client.Protocols.SetHTTP1(!test.second)
			client.Protocols.SetHTTP2(test.second)
			defer client.CloseIdleConnections()
			for i := range 2 {
				var reused bool
				trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { reused = info.WasIdle }}
				req := request(t, "POST", test.p.url+"/v1/chat/completions", chat("m"))
				resp, err := client.RoundTrip(req.WithContext(httptrace.WithClientTrace(t.Context(), trace)))
				if err != nil {
					t.Fatal(err)
				}
				if body := read(t, resp); body != "data: 0\n\ndata: 1\n\n" || reused != (i == 1) {
					t.Errorf("call %d: got %q, on a connection that was used: %v", i, body, reused)
				}
				time.Sleep(idle * 3 / 2)
			}
		})
	}
}

// form is the body of a call with a file, and its type.
func form(t testing.TB, model string) (body, contentType string) {
	var text bytes.Buffer
	w := multipart.NewWriter(&text)
	part, err := w.CreateFormFile("file", "a.wav")
	if err != nil {
		t.Fatal(err)
	}
	part.Write(bytes.Repeat([]byte{1}, 300_000)) //nolint:errcheck // it goes to memory
	w.WriteField("model", model)                 //nolint:errcheck // likewise
	w.Close()
	return text.String(), w.FormDataContentType()
}

// A client that goes away while it waits leaves the line, and nothing was sent or counted.
func TestHostileGone(t *testing.T) {
	t.Parallel()
	g := newGate()
	u := provider(t, g.handle)
	p := start(t, "--upstream", u.URL, "--in-flight", "1", "--rpm", "1000")
	file, formType := form(t, "m")
	head := func(path, contentType string, more ...string) string {
		lines := append([]string{"POST " + path + " HTTP/1.1", "Host: 127.0.0.1", "Content-Type: " + contentType}, more...)
		return strings.Join(lines, "\r\n") + "\r\n\r\n"
	}
	p.send("/v1/chat/completions", chat("m"))
	wait(t, g.came, "call")
	for what, text := range map[string]string{
		"JSON":      head("/v1/chat/completions", "application/json", fmt.Sprint("Content-Length: ", len(chat("m")))) + chat("m"),
		"chunks":    head("/v1/chat/completions", "application/json", "Transfer-Encoding: chunked") + chunked(chat("m")),
		"a form":    head("/v1/audio/transcriptions", formType, fmt.Sprint("Content-Length: ", len(file))) + file,
		"asking":    head("/v1/messages", "application/json", "Expect: 100-continue", fmt.Sprint("Content-Length: ", len(chat("m")))) + chat("m"),
		"in chunks": head("/v1/audio/transcriptions", formType, "Transfer-Encoding: chunked") + chunked(file),
	} {
		for how, leave := range map[string]func(*net.TCPConn) error{
			"closes":      (*net.TCPConn).Close,
			"is cut":      func(conn *net.TCPConn) error { conn.SetLinger(0); return conn.Close() }, //nolint:errcheck // it is a socket
			"half closes": (*net.TCPConn).CloseWrite,
		} {
			conn := dial(t, p.url).(*net.TCPConn)
			io.WriteString(conn, text) //nolint:errcheck // it waits then
			p.waiting(1)
			if err := leave(conn); err != nil {
				t.Fatalf("%s %s: %v", what, how, err)
			}
			p.waiting(0)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		resp, err := http.DefaultClient.Do(request(t, "POST", p.url+"/v1/chat/completions", chat("m")).WithContext(ctx))
		if err == nil {
			resp.Body.Close()
		}
	}()
	p.waiting(1)
	cancel()
	p.waiting(0)
	close(g.open)
	resp := post(t, p.url+"/v1/chat/completions", chat("m"))
	if body := read(t, resp); resp.StatusCode != 200 {
		t.Errorf("the next call: %d, %s", resp.StatusCode, body)
	}
	_, metrics := get(t, p.admin+"/metrics")
	if !slices.Contains(strings.Split(metrics, "\n"), `ratelimit_quota_used{dimension="rpm",model="m",provider="",source="program"} 2`) || len(u.requests()) != 2 {
		t.Errorf("%d requests went on, of\n%s", len(u.requests()), metrics)
	}
}

// A body that ends too early is no call.
func TestHostileCut(t *testing.T) {
	u := provider(t, nil)
	p := start(t, "--upstream", u.URL, "--rpm", "1000")
	head := "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
	whole := chunked(chat("m"))
	for what, text := range map[string]string{
		"a part of a body":           head + "Content-Length: 1000\r\n\r\n" + chat("m"),
		"a part of a chunk":          head + "Transfer-Encoding: chunked\r\n\r\n" + whole[:20],
		"a chunk and no more":        head + "Transfer-Encoding: chunked\r\n\r\n" + strings.TrimSuffix(whole, "0\r\n\r\n"),
		"chunks without the end":     head + "Transfer-Encoding: chunked\r\n\r\n" + strings.TrimSuffix(whole, "\r\n"),
		"chunks without any trailer": head + "Transfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n" + strings.TrimSuffix(whole, "\r\n") + "X-Su",
	} {
		conn := dial(t, p.url).(*net.TCPConn)
		io.WriteString(conn, text) //nolint:errcheck // the answer shows it
		if err := conn.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		answer, _ := io.ReadAll(conn)
		if status := statusOf(string(answer)); status != 0 && status != 400 || len(u.requests()) > 0 {
			t.Errorf("%s: %d requests went on, the client got %s", what, len(u.requests()), answer)
		}
	}
}
