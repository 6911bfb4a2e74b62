package main_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A call waits for room; one that must wait too long is refused at once, in the provider's shape.
func TestRefusal(t *testing.T) {
	u := provider(t, nil)
	p := start(t, "--upstream", u.URL, "--rpm", "1", "--max-wait", "2s")
	for _, test := range []struct{ path, body, shape string }{
		{"/v1/chat/completions", chat("a"), `{"error":{"message":`},
		{"/v1/messages", chat("b"), `{"type":"error","error":{"type":"rate_limit_error","message":`},
		{"/v1beta/models/c:generateContent", `{"contents":[]}`, `{"error":{"code":429,"message":`},
	} {
		read(t, post(t, p.url+test.path, test.body))
		asked := time.Now()
		resp := post(t, p.url+test.path, test.body)
		body := read(t, resp)
		if resp.StatusCode != 429 || !strings.HasPrefix(body, test.shape) || !strings.Contains(body, "requests per minute are used up") || !json.Valid([]byte(body)) {
			t.Errorf("%s: %d, %s", test.path, resp.StatusCode, body)
		}
		seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
		if left := 60 - time.Since(asked).Seconds(); err != nil || float64(seconds) < left-1 || seconds > 61 {
			t.Errorf("%s: Retry-After %q", test.path, resp.Header.Get("Retry-After"))
		}
	}
	if n := len(u.requests()); n != 3 {
		t.Errorf("%d calls were sent", n)
	}
}

// asking sends a call on a goroutine of its own.
func asking(ctx context.Context, t testing.TB, url, body string, headers ...string) <-chan *http.Response {
	got := make(chan *http.Response, 1)
	req := request(t, http.MethodPost, url+"/v1/chat/completions", body, headers...).WithContext(ctx)
	go func() {
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			close(got)
			return
		}
		got <- resp
	}()
	return got
}

// A client that goes away while it waits leaves the line, and costs nothing.
func TestClientLeavesTheLine(t *testing.T) {
	g := newGate()
	u := provider(t, g.handle)
	p := start(t, "--upstream", u.URL, "--in-flight", "1")
	first := asking(t.Context(), t, p.url, chat("m"))
	wait(t, g.came, "first call")
	ctx, cancel := context.WithCancel(t.Context())
	asking(ctx, t, p.url, chat("m"))
	form := asking(ctx, t, p.url, "--x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n--x--\r\n", "Content-Type", "multipart/form-data; boundary=x")
	p.waiting(1)
	third := asking(t.Context(), t, p.url, chat("m"))
	p.waiting(2)
	cancel()
	p.waiting(1)
	close(g.open)
	for _, c := range []<-chan *http.Response{first, third} {
		if resp := wait(t, c, "answer"); resp == nil || resp.StatusCode != 200 {
			t.Fatalf("%v", resp)
		}
	}
	<-form
	for _, got := range u.requests() {
		if got.Header.Get("Content-Type") == "application/json" && got.Body != chat("m") {
			t.Errorf("the upstream got %+v", got)
		}
	}
	p.tells(`ratelimit_active_leases\{model="m",provider=""\} 0`)
	p.tells(`ratelimit_requests_total\{.*code="queued",model="m".*result="admitted"\} 1`)
}

// More calls than may wait are refused, while those that need not wait pass.
func TestMaxQueue(t *testing.T) {
	g := newGate()
	u := provider(t, g.handle)
	p := start(t, "--upstream", u.URL, "--in-flight", "1", "--max-queue", "2")
	var open []<-chan *http.Response
	open = append(open, asking(t.Context(), t, p.url, chat("m")))
	wait(t, g.came, "first call")
	for n := range 2 {
		open = append(open, asking(t.Context(), t, p.url, chat("m")))
		p.waiting(n + 1)
	}
	resp := wait(t, asking(t.Context(), t, p.url, chat("m")), "refusal")
	if body := read(t, resp); resp.StatusCode != 429 || !strings.Contains(body, "queue") || resp.Header.Get("Retry-After") == "" {
		t.Errorf("%d, %s", resp.StatusCode, body)
	}
	open = append(open, asking(t.Context(), t, p.url, chat("other")))
	wait(t, g.came, "call of another model")
	close(g.open)
	for i, c := range open {
		if resp := wait(t, c, "answer"); resp == nil || resp.StatusCode != 200 {
			t.Errorf("call %d: %v", i, resp)
		}
	}
}

// Streamed calls that wait get comments, and errors come as events then.
func TestHeartbeat(t *testing.T) {
	g := newGate()
	u := provider(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case strings.Contains(string(body), `"bad"`):
			http.Error(w, `{"error": {"message": "no such thing"}}`, 400)
		case strings.Contains(string(body), `"stream":true`):
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, "data: {\"choices\":[]}\n\ndata: [DONE]\n\n") //nolint:errcheck // the test sees it
		default:
			g.handle(w, r)
		}
	})
	p := start(t, "--upstream", u.URL, "--in-flight", "1", "--heartbeat", "20ms")
	streamed := func(what string) string {
		return fmt.Sprintf(`{"model":"m","stream":true,"max_tokens":10,"messages":[{"role":"user","content":%q}]}`, what)
	}
	for _, test := range []struct{ what, end string }{
		{"good", "data: {\"choices\":[]}\n\ndata: [DONE]\n\n"},
		{"bad", "event: error\ndata: {\"error\":{\"message\":\"no such thing\"}}\n\n"},
	} {
		first := asking(t.Context(), t, p.url, chat("m"))
		wait(t, g.came, "first call")
		resp := wait(t, asking(t.Context(), t, p.url, streamed(test.what), "Accept-Encoding", "gzip"), "head of the stream")
		if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
			t.Fatalf("%d, %v", resp.StatusCode, resp.Header)
		}
		r := bufio.NewReader(resp.Body)
		for range 3 {
			if line, err := r.ReadString('\n'); err != nil || !strings.HasPrefix(line, ":") {
				t.Fatalf("%q, %v", line, err)
			}
			r.ReadString('\n') //nolint:errcheck // the end of the event
		}
		g.open <- struct{}{}
		rest, err := io.ReadAll(r)
		if err != nil || !strings.HasSuffix(string(rest), test.end) {
			t.Errorf("%s: %q, %v", test.what, rest, err)
		}
		resp.Body.Close()
		wait(t, first, "first answer")
	}
}

// Gemini's clients fail on comments, and those who want no stream cannot get any.
func TestNoHeartbeat(t *testing.T) {
	g := newGate()
	u := provider(t, g.handle)
	p := start(t, "--upstream", u.URL, "--in-flight", "1", "--heartbeat", "5ms")
	for _, path := range []string{"/v1beta/models/m:streamGenerateContent?alt=sse", "/v1/chat/completions"} {
		first := asking(t.Context(), t, p.url, chat("m"))
		wait(t, g.came, "first call")
		second := make(chan *http.Response, 1)
		req := request(t, "POST", p.url+path, chat("m"))
		go func() {
			if resp, err := http.DefaultClient.Do(req); err == nil {
				second <- resp
			}
		}()
		p.waiting(1)
		g.open <- struct{}{}
		wait(t, first, "first answer")
		wait(t, g.came, "second call")
		g.open <- struct{}{}
		if body := read(t, wait(t, second, "second answer")); body != answers {
			t.Errorf("%s: %q", path, body)
		}
	}
}

// Classes come from a header, the path or the token; what goes ahead is served first.
func TestClasses(t *testing.T) {
	tokens := tokenFile(t, "a alice-token-0123456789 interactive\nb bob-token-0123456789 batch\n")
	for _, test := range []struct {
		name           string
		flags          []string
		path           [2]string // of a batch call and an interactive one
		batch, persons []string
	}{
		{"header", nil, [2]string{}, []string{"X-Ratelimit-Class", "batch"}, []string{"X-Ratelimit-Class", "interactive"}},
		{"other header", []string{"--class-by", "header:X-Kind"}, [2]string{}, []string{"X-Kind", "batch"}, []string{"X-Kind", "interactive"}},
		{"path", []string{"--class-by", "path"}, [2]string{"/batch", "/interactive"}, nil, nil},
		{
			"token", []string{"--class-by", "token", "--token-file", tokens}, [2]string{},
			[]string{"X-Ratelimit-Token", "bob-token-0123456789", "X-Ratelimit-Class", "interactive"}, []string{"X-Ratelimit-Token", "alice-token-0123456789"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := newGate()
			u := provider(t, g.handle)
			p := start(t, append([]string{"--upstream", u.URL, "--in-flight", "1"}, test.flags...)...)
			p.token = "alice-token-0123456789"
			ask := func(what, path string, headers []string) <-chan *http.Response {
				return asking(t.Context(), t, p.url+path, chat("m")+what, headers...)
			}
			all := []<-chan *http.Response{ask(" ", test.path[0], test.batch)}
			wait(t, g.came, "first call")
			for n := range 2 {
				all = append(all, ask("  ", test.path[0], test.batch))
				p.waiting(n + 1)
			}
			all = append(all, ask("   ", test.path[1], test.persons))
			p.waiting(3)
			close(g.open)
			for _, c := range all {
				if resp := wait(t, c, "answer"); resp == nil || resp.StatusCode != 200 {
					t.Fatalf("%v", resp)
				}
			}
			var order []int
			for _, got := range u.requests() {
				order = append(order, len(got.Body)-len(chat("m")))
				for name := range got.Header {
					if strings.HasPrefix(name, "X-Ratelimit") {
						t.Errorf("%s was sent", name)
					}
				}
				if got.URI != "/v1/chat/completions" {
					t.Errorf("sent to %s", got.URI)
				}
			}
			if !slices.Equal(order, []int{1, 3, 2, 2}) {
				t.Errorf("served in the order %v", order)
			}
		})
	}
}

// A path that begins with no class belongs to the upstream.
func TestNoClassInPath(t *testing.T) {
	u := provider(t, nil)
	p := start(t, "--upstream", u.URL, "--rpm", "10", "--class-by", "path", "--class", "people=ahead")
	for path, uri := range map[string]string{"/v1/chat/completions": "/v1/chat/completions", "/people/v1/models": "/v1/models"} {
		if read(t, post(t, p.url+path, chat("m"))); u.last(t).URI != uri {
			t.Errorf("%s was sent to %s", path, u.last(t).URI)
		}
	}
}

// Flows take turns.
func TestFlows(t *testing.T) {
	g := newGate()
	u := provider(t, g.handle)
	p := start(t, "--upstream", u.URL, "--in-flight", "1", "--flow-by", "header:X-Team")
	ask := func(team string) <-chan *http.Response {
		return asking(t.Context(), t, p.url, chat("m"), "X-Team", team)
	}
	all := []<-chan *http.Response{ask("one")}
	wait(t, g.came, "first call")
	for i, team := range []string{"one", "one", "one", "two", "two"} {
		all = append(all, ask(team))
		p.waiting(i + 1)
	}
	close(g.open)
	for _, c := range all {
		wait(t, c, "answer")
	}
	var order []string
	for _, got := range u.requests() {
		order = append(order, got.Header.Get("X-Team"))
	}
	if want := []string{"one", "one", "two", "one", "two", "one"}; !slices.Equal(order, want) && !slices.Equal(order, []string{"one", "two", "one", "two", "one", "one"}) {
		t.Errorf("served in the order %q", order)
	}
}

// A signal lets open calls end, takes no more, and the program ends well.
func TestDrain(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		g := newGate()
		u := provider(t, g.handle)
		p := start(t, "--upstream", u.URL, "--in-flight", "1")
		open := asking(t.Context(), t, p.url, chat("m"))
		wait(t, g.came, "call")
		waits := asking(t.Context(), t, p.url, chat("m"))
		p.waiting(1)
		if err := p.cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		for late := time.Now().Add(patience); ; {
			if status, body := get(t, p.admin+"/healthz"); status == 503 && strings.Contains(body, "draining") {
				break
			}
			if time.Now().After(late) {
				t.Fatal("the proxy does not drain")
			}
		}
		close(g.open)
		for _, c := range []<-chan *http.Response{open, waits} {
			if resp := wait(t, c, "answer"); resp == nil || resp.StatusCode != 200 {
				t.Errorf("%v: %v", signal, resp)
			}
		}
		if status := p.status(); status != 0 {
			t.Errorf("%v: status %d", signal, status)
		}
	}
}

// Calls that do not end in time are cut.
func TestDrainTimeout(t *testing.T) {
	g := newGate()
	u := provider(t, g.handle)
	p := start(t, "--upstream", u.URL, "--in-flight", "1", "--drain-timeout", "50ms")
	open := asking(t.Context(), t, p.url, chat("m"))
	wait(t, g.came, "call")
	if status := p.stop(syscall.SIGTERM); status != 0 {
		t.Errorf("status %d", status)
	}
	resp := wait(t, open, "answer")
	if body := read(t, resp); resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" || !strings.Contains(body, "it stops") {
		t.Errorf("%d, %s", resp.StatusCode, body)
	}
	p.log.waitFor(t, "calls were cut")
}
