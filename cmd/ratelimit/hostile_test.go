package main_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// dial opens a connection to a server.
func dial(t testing.TB, url string) net.Conn {
	t.Helper()
	_, address, _ := strings.Cut(url, "://")
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(patience)) //nolint:errcheck // it is a socket
	return conn
}

// wire sends bytes, and returns all that comes back until the server closes the connection. No
// answer may let a web page of elsewhere read it.
func wire(t testing.TB, url, text string) (status int, answer string) {
	t.Helper()
	conn := dial(t, url)
	go io.WriteString(conn, text) //nolint:errcheck // the server may answer before it read all
	all, err := io.ReadAll(conn)
	if answer = string(all); err != nil && answer == "" {
		t.Fatalf("%.80q: %v", text, err)
	}
	if strings.Contains(strings.ToLower(answer), "access-control-") {
		t.Errorf("%.80q: a CORS header in\n%s", text, answer)
	}
	return statusOf(answer), answer
}

// statusOf returns the status of an answer; zero for none.
func statusOf(answer string) (status int) {
	fmt.Sscanf(answer, "HTTP/1.%d %d", new(int), &status) //nolint:errcheck // zero is none
	return status
}

// raw is a request on the wire, which is the last one of its connection.
func raw(method, target, body string, headers ...string) string {
	lines := []string{method + " " + target + " HTTP/1.1", "Connection: close"}
	if !slices.ContainsFunc(headers, func(line string) bool { return strings.HasPrefix(line, "Host:") }) {
		lines = append(lines, "Host: 127.0.0.1")
	}
	if body != "" {
		lines = append(lines, "Content-Type: application/json", fmt.Sprint("Content-Length: ", len(body)))
	}
	return strings.Join(append(lines, headers...), "\r\n") + "\r\n\r\n" + body
}

// tap is an upstream that keeps what comes on the wire.
type tap struct {
	url   string
	mu    sync.Mutex
	text  []byte
	conns sync.WaitGroup
}

func newTap(t testing.TB) *tap {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	p := &tap{url: "http://" + l.Addr().String()}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			p.conns.Add(1)
			go p.serve(conn)
		}
	}()
	return p
}

// Write keeps bytes that came.
func (p *tap) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text = append(p.text, b...)
	return len(b), nil
}

// serve answers the requests of a connection.
func (p *tap) serve(conn net.Conn) {
	defer p.conns.Done()
	defer conn.Close()
	from := bufio.NewReader(io.TeeReader(conn, p))
	for {
		req, err := http.ReadRequest(from)
		if err != nil {
			return
		}
		io.Copy(io.Discard, req.Body) //nolint:errcheck // the next request fails
		fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(answers), answers)
	}
}

// take returns what came since it was called last.
func (p *tap) take() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := string(p.text)
	p.text = nil
	return text
}

// What is no request to this server is refused, whatever host it names.
func TestHostileMethods(t *testing.T) {
	u := provider(t, nil)
	p := start(t, "--upstream", u.URL, "--rpm", "1000")
	for _, text := range []string{
		raw("CONNECT", "evil.test:443", "", "Host: evil.test:443"),
		raw("CONNECT", "127.0.0.1:443", ""),
		raw("CONNECT", "/v1/models", ""),
		raw("TRACE", "/v1/models", ""),
		raw("GET", "http://evil.test/v1/models", ""),
		raw("GET", "http://127.0.0.1/v1/models", ""),
		raw("GET", "HTTPS://127.0.0.1/v1/models", ""),
		raw("GET", "file:///etc/passwd", ""),
		raw("GET", "@evil.test/v1/models", ""),
		raw("GET", "v1/models", ""),
		raw("GET", "*", ""),
		raw("OPTIONS", "*", ""),
		raw("OPTIONS", "*", "", "Host: evil.test"),
		raw("GET", "/v1/models", "", "Host: 127.0.0.1", "Host: 127.0.0.1"),
		raw("GET", "/v1/models", "", "Host: 127.0.0.1", "Host: evil.test"),
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"GET /v1/models HTTP/1.1\r\n\r\n",
	} {
		for _, url := range []string{p.url, p.admin} {
			if status, answer := wire(t, url, text); status != 400 {
				t.Errorf("%q: %s", text, answer)
			}
		}
	}
	if status, answer := wire(t, p.url, "GET /v1/models HTTP/1.0\r\n\r\n"); status != 421 {
		t.Errorf("HTTP/1.0 without a host: %s", answer)
	}
	if got := u.requests(); len(got) > 0 {
		t.Errorf("the upstream got %+v", got)
	}
}

// A page whose own name leads here (DNS rebinding) is kept out on both ports.
func TestHostileHosts(t *testing.T) {
	u := provider(t, nil)
	p := start(t, "--upstream", u.URL, "--rpm", "1000", "--host", "Proxy.corp", "--host", "")
	for _, test := range []struct {
		status int
		hosts  []string
	}{
		{200, []string{
			"127.0.0.1", "127.0.0.1:8787", "127.8.9.1", "localhost", "LocalHost:1", "[::1]", "[::1]:8787", "[::ffff:127.0.0.1]:80",
			"proxy.corp", "PROXY.CORP:443",
		}},
		{421, []string{
			"", "evil.test", "evil.test:8787", "localhost.evil.com", "127.0.0.1.evil.com", "evil-localhost", "localhost.", "proxy.corp.",
			"127.1", "0x7f000001", "0x7f.1", "2130706433", "0177.0.0.1", "0.0.0.0", "[::]", "[::ffff:0.0.0.0]", "128.0.0.1",
			"proxy.corp.evil.com", "evilproxy.corp", "corp",
			"evil.test:127.0.0.1", "[::1].evil.test", ":8787",
		}},
		{400, []string{"user@127.0.0.1", "127.0.0.1@evil.test", "127.0.0.1:80@evil.test", "127.0.0.1, evil.test", "127.0.0.1/evil", "127.0.0.1\x00.evil.test", "127.0.0.1 evil.test", "ｌocalhost"}},
	} {
		for _, host := range test.hosts {
			before := len(u.requests())
			status, answer := wire(t, p.url, raw("POST", "/v1/chat/completions", chat("m"), "Host: "+host))
			if came := len(u.requests()) - before; status != test.status || (came == 1) != (status == 200) {
				t.Errorf("host %q: want %d, %d requests went on: %s", host, test.status, came, answer)
			}
			if status, answer = wire(t, p.admin, raw("GET", "/metrics", "", "Host: "+host)); status != test.status {
				t.Errorf("host %q on the admin port: want %d: %.200s", host, test.status, answer)
			}
		}
	}
}

// No web page of elsewhere gets anything: neither a call, nor an answer that it may read.
func TestHostilePages(t *testing.T) {
	u := provider(t, func(w http.ResponseWriter, r *http.Request) {
		for _, name := range []string{"Allow-Origin", "Allow-Headers", "Allow-Private-Network", "Expose-Headers"} {
			w.Header().Set("access-control-"+name, "*")
		}
		w.WriteHeader(http.StatusEarlyHints)
		if r.Header.Get("Upgrade") != "" {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				panic(err)
			}
			io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\naccess-control-allow-origin: *\r\n\r\n") //nolint:errcheck // as below
			conn.Close()
			return
		}
		io.WriteString(w, answers)            //nolint:errcheck // the test sees what is missing
		http.NewResponseController(w).Flush() //nolint:errcheck // likewise
		w.Header().Set(http.TrailerPrefix+"Access-Control-Allow-Origin", "*")
		w.Header().Set(http.TrailerPrefix+"X-Sum", "1")
	})
	p := start(t, "--upstream", u.URL, "--rpm", "1000")
	socket := []string{"Connection: Upgrade", "Upgrade: WebSocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="}
	own := "Origin: " + p.url
	_, host, _ := strings.Cut(p.url, "://")
	for _, test := range []struct {
		header string
		calls  int // the status of a call, of a GET and of a WebSocket
		page   int // that of the page on the admin port
	}{
		{"Origin: null", 403, 200},
		{"Origin: https://evil.test", 403, 200},
		{"Origin: http://127.0.0.1:1", 403, 200},
		{"Origin: " + p.url + ".evil.test", 403, 200},
		{"Origin: chrome-extension://abc", 403, 200},
		{"Sec-Fetch-Site: cross-site", 403, 200},
		{"Sec-Fetch-Site: same-site", 403, 200},
		{"Sec-Fetch-Site: cross-site\r\n" + own, 403, 200},
		{"Sec-Fetch-Site: unheard-of", 403, 200},
		{own, 200, 200},
		{"Sec-Fetch-Site: same-origin\r\n" + own, 200, 200},
		{"Sec-Fetch-Site: none", 200, 200},
	} {
		for _, request := range []string{
			raw("POST", "/v1/chat/completions", chat("m"), "Host: "+host, test.header),
			raw("GET", "/v1/models", "", "Host: "+host, test.header),
			raw("OPTIONS", "/v1/models", "", "Host: "+host, test.header, "Access-Control-Request-Method: POST", "Access-Control-Request-Private-Network: true"),
			raw("GET", "/v1/models", "", append(socket, "Host: "+host, test.header)...),
		} {
			status, answer := wire(t, p.url, request)
			if status == 103 { // before the answer
				_, after, _ := strings.Cut(answer, "\r\n\r\n")
				status = statusOf(after)
			}
			if status != test.calls && !(status == 101 && test.calls == 200) {
				t.Errorf("%s\nwant %d: %s", request, test.calls, answer)
			}
		}
		if status, answer := wire(t, p.admin, raw("GET", "/", "", test.header)); status != test.page {
			t.Errorf("%s: the page: %.200s", test.header, answer)
		}
		if test.calls == 403 {
			for _, request := range []string{raw("POST", "/", "x", test.header), raw("GET", "/metrics", "", append(socket, test.header)...)} {
				if status, answer := wire(t, p.admin, request); status != 403 {
					t.Errorf("%s\non the admin port: %.200s", request, answer)
				}
			}
		}
	}
}
