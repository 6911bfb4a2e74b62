package main_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
)

const mib = 1 << 20

// peak is the most memory that the proxy had so far, in MiB; zero where the system does not say.
func (p *proxied) peak() int {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	var kib int
	fmt.Sscan(after, &kib) //nolint:errcheck // zero is not known
	return kib >> 10
}

// checkPeak fails where the proxy had more memory than so many MiB.
func (p *proxied) checkPeak(most int) {
	p.t.Helper()
	got := p.peak()
	if p.t.Logf("at most %d MiB", got); got > most && racetest.Factor == 1 {
		p.t.Errorf("the proxy had %d MiB, want %d at most", got, most)
	}
}

// weigher is an upstream that answers with the size of each body, which it does not keep.
func weigher(t testing.TB, before http.HandlerFunc) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		size, err := io.Copy(io.Discard, r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		if before != nil {
			before(w, r)
		}
		fmt.Fprint(w, size) //nolint:errcheck // the test sees what is missing
	}))
	t.Cleanup(s.Close)
	t.Cleanup(s.CloseClientConnections)
	return s
}

// sized is the body of a call with so many bytes.
func sized(model string, size int) string {
	head := fmt.Sprintf(`{"model":%q,"max_tokens":10,"messages":[{"role":"user","content":"`, model)
	return head + strings.Repeat("x", size-len(head)-4) + `"}]}`
}

// chunked frames a body in chunks.
func chunked(body string) string {
	var framed strings.Builder
	for size := 100_000; body != ""; body = body[min(size, len(body)):] {
		fmt.Fprintf(&framed, "%x\r\n%s\r\n", min(size, len(body)), body[:min(size, len(body))])
	}
	return framed.String() + "0\r\n\r\n"
}

// A body of 32 MiB passes, one of a byte more does not, and is not read where it says its size.
func TestHostileBodies(t *testing.T) {
	u := weigher(t, nil)
	p := start(t, "--upstream", u.URL, "--rpm", "1000")
	head := "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Type: application/json\r\n"
	for what, test := range map[string]struct {
		text   string
		status int
	}{
		"one more than 32 MiB, none of it sent":    {head + "Content-Length: 33554433\r\n\r\n", 413},
		"the same, which asks before it sends":     {head + "Expect: 100-continue\r\nContent-Length: 33554433\r\n\r\n", 413},
		"as much as there can be, a part of it":    {head + "Content-Length: 9223372036854775807\r\n\r\n" + strings.Repeat("x", mib), 413},
		"the same with an upgrade":                 {head + "Upgrade: websocket\r\nContent-Length: 33554433\r\n\r\n", 413},
		"the same as a GET":                        {strings.Replace(head, "POST", "GET", 1) + "Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 33554433\r\n\r\n", 413},
		"chunks of more than 32 MiB":               {head + "Transfer-Encoding: chunked\r\n\r\n" + chunked(sized("m", 32*mib+1)), 413},
		"a chunk larger than 32 MiB, a part of it": {head + "Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFF\r\n" + strings.Repeat("x", 33*mib), 413},
		"another content that is too large":        {head + "Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked(strings.Repeat("x", 32*mib+1)), 413},
		"32 MiB":                                   {head + "Content-Length: 33554432\r\n\r\n" + sized("m", 32*mib), 200},
		"32 MiB in chunks":                         {head + "Transfer-Encoding: chunked\r\n\r\n" + chunked(sized("m", 32*mib)), 200},
	} {
		status, answer := wire(t, p.url, test.text)
		if status != test.status || status == 200 && !strings.HasSuffix(answer, "33554432") || strings.Contains(answer, "100 Continue") {
			t.Errorf("%s: want %d: %.300s", what, test.status, answer)
		}
	}
	p.checkPeak(150)
}

// Headers of 64 KiB pass, and more do not, on both ports.
func TestHostileHeads(t *testing.T) {
	u := provider(t, nil)
	p := start(t, "--upstream", u.URL, "--rpm", "1000")
	long := func(size int) string { return "X-Long: " + strings.Repeat("x", size-len("X-Long: \r\n")) }
	for what, test := range map[string]struct {
		text   string
		status int
	}{
		"just under 64 KiB":     {raw("GET", "/", "", long(64<<10-100)), 200},
		"just over 64 KiB":      {raw("GET", "/", "", long(64<<10+1)), 431},
		"many headers":          {raw("GET", "/", "", strings.Repeat("X: y\r\n", 12_000)+"Y: z"), 431},
		"a long path":           {raw("GET", "/?"+strings.Repeat("x", 70<<10), ""), 431},
		"a long method":         {raw(strings.Repeat("X", 70<<10), "/", ""), 431},
		"a line without an end": {"GET / HTTP/1.1\r\nX: " + strings.Repeat("x", mib), 431},
	} {
		for _, url := range []string{p.url, p.admin} {
			if status, answer := wire(t, url, test.text); status != test.status {
				t.Errorf("%s: want %d: %.300s", what, test.status, answer)
			}
		}
	}
	p.checkPeak(100)
}

// refusals are calls of one model to three APIs, and what a refusal looks like there.
var refusals = []struct{ path, body, want string }{
	{"/v1/chat/completions", chat("m"), `"code":"rate_limit_exceeded"`},
	{"/v1/messages", chat("m"), `"type":"rate_limit_error"`},
	{"/v1beta/models/m:generateContent", `{"contents":[{"parts":[{"text":"hello"}]}]}`, `"status":"RESOURCE_EXHAUSTED"`},
}

// checkRefusals fails where calls that find no room are not refused as the provider does it.
func (p *proxied) checkRefusals(body func(i int) string) {
	p.t.Helper()
	for i, test := range refusals {
		resp, err := (&http.Client{Timeout: patience}).Do(request(p.t, "POST", p.url+test.path, body(i)))
		if err != nil {
			p.t.Fatal(err)
		}
		answer := read(p.t, resp)
		after, err := strconv.Atoi(resp.Header.Get("Retry-After"))
		if resp.StatusCode != 429 || !strings.Contains(answer, test.want) || err != nil || after < 1 || !strings.Contains(answer, "queue is full") {
			p.t.Errorf("%s: %d, Retry-After %q, %s", test.path, resp.StatusCode, resp.Header.Get("Retry-After"), answer)
		}
	}
}

// send sends a call whose answer nobody waits for yet.
func (p *proxied) send(path, body string) net.Conn {
	p.t.Helper()
	conn := dial(p.t, p.url)
	if _, err := io.WriteString(conn, raw("POST", path, body)); err != nil {
		p.t.Fatal(err)
	}
	return conn
}

// Calls beyond --max-queue are refused, unless they need not wait.
func TestHostileQueue(t *testing.T) {
	g := newGate()
	u := provider(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "free") {
			fmt.Fprint(w, answers) //nolint:errcheck // the test sees what is missing
			return
		}
		g.handle(w, r)
	})
	p := start(t, "--upstream", u.URL, "--in-flight", "1", "--max-queue", "2")
	p.send("/v1/chat/completions", chat("m"))
	wait(t, g.came, "call")
	first := p.send("/v1/chat/completions", chat("m"))
	p.waiting(1)
	second := p.send("/v1/messages", chat("m"))
	p.waiting(2)
	p.checkRefusals(func(i int) string { return refusals[i].body })
	p.waiting(2)
	for _, path := range []string{"/v1beta/models/free:generateContent", "/v1/free", "/free/v1/chat/completions"} {
		resp := post(t, p.url+path, chat("free"))
		if body := read(t, resp); resp.StatusCode != 200 {
			t.Errorf("%s, which need not wait: %d, %s", path, resp.StatusCode, body)
		}
	}
	first.Close()
	p.waiting(1)
	third := p.send("/v1/chat/completions", chat("m"))
	p.waiting(2)
	close(g.open)
	for _, conn := range []net.Conn{second, third} {
		if answer, err := io.ReadAll(conn); err != nil || statusOf(string(answer)) != 200 {
			t.Errorf("one that waited: %v, %s", err, answer)
		}
	}
	if n := len(u.requests()); n != 6 {
		t.Errorf("the upstream got %d requests", n)
	}
}

// Bodies that wait take 256 MiB at most, and give them back.
func TestHostileRoom(t *testing.T) {
	g := newGate()
	u := weigher(t, func(_ http.ResponseWriter, r *http.Request) {
		g.came <- struct{}{}
		select {
		case <-g.open:
		case <-r.Context().Done():
		}
	})
	p := start(t, "--upstream", u.URL, "--in-flight", "1")
	big := sized("m", 32*mib)
	p.send("/v1/chat/completions", big)
	wait(t, g.came, "call")
	conns := make([]net.Conn, 8)
	for i := range conns {
		conns[i] = p.send("/v1/chat/completions", big)
		p.waiting(i + 1)
	}
	p.checkRefusals(func(i int) string { return refusals[i].body })
	p.checkPeak(450)
	for i, conn := range conns {
		conn.Close()
		p.waiting(len(conns) - i - 1)
	}
	again := p.send("/v1/chat/completions", big)
	p.waiting(1)
	p.checkPeak(600)
	close(g.open)
	if answer, err := io.ReadAll(again); err != nil || !strings.HasSuffix(string(answer), "33554432") {
		t.Errorf("with room again: %v, %.300s", err, answer)
	}
}

// What is much more when it is read costs no memory.
func TestHostileContents(t *testing.T) {
	u := weigher(t, nil)
	p := start(t, "--upstream", u.URL, "--rpm", "1000")
	zip := func(text string) []byte {
		var zipped bytes.Buffer
		w := gzip.NewWriter(&zipped)
		io.WriteString(w, text) //nolint:errcheck // it goes to memory
		w.Close()
		return zipped.Bytes()
	}
	bomb := append(zip(`{"model":"m","messages":[{"role":"user","content":"`), bytes.Repeat(zip(strings.Repeat("a", mib)), 8<<10)...)
	for what, test := range map[string]struct{ body, encoding string }{
		"8 GiB in gzip":       {string(bomb), "gzip"},
		"open brackets":       {`{"model":"m","messages":` + strings.Repeat("[", 16*mib), "identity"},
		"open objects":        {`{"model":"m","messages":` + strings.Repeat(`{"a":`, 4*mib), "identity"},
		"brackets that close": {`{"model":"m","messages":` + strings.Repeat("[", 8*mib) + strings.Repeat("]", 8*mib) + "}", "identity"},
		"a deep model":        {`{"model":` + strings.Repeat(`{"model":`, 3*mib) + `"m"`, "identity"},
		"a million names":     {`{"model":"m"` + strings.Repeat(`,"model":"m"`, mib) + "}", "identity"},
		"a long number":       {`{"model":"m","max_tokens":` + strings.Repeat("9", 16*mib) + "}", "identity"},
		"escapes":             {`{"model":"m","messages":"` + strings.Repeat(`\u0000`, 4*mib) + `"}`, "identity"},
	} {
		resp := post(t, p.url+"/v1/chat/completions", test.body, "Content-Encoding", test.encoding)
		if got := read(t, resp); resp.StatusCode >= 500 || resp.StatusCode == 200 && got != strconv.Itoa(len(test.body)) {
			t.Errorf("%s: %d, %.300s", what, resp.StatusCode, got)
		}
		t.Log(what, resp.StatusCode, p.peak())
	}
	p.checkPeak(200)
}

// A body is given up when its answer begins, however long that takes to end.
func TestHostileStreams(t *testing.T) {
	u := weigher(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "data: {}\n\n")     //nolint:errcheck // the test sees what is missing
		http.NewResponseController(w).Flush() //nolint:errcheck // likewise
		<-r.Context().Done()
	})
	p := start(t, "--upstream", u.URL, "--rpm", "1000")
	big := sized("m", 32*mib)
	for range 10 {
		conn := p.send("/v1/chat/completions", big)
		if n, err := conn.Read(make([]byte, 1)); err != nil {
			t.Fatal(n, err)
		}
	}
	p.checkPeak(200)
}
