package main_test

import (
	"encoding/json"
	"io"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"unicode"
)

// hostileNames are models that mean something where they are told.
var hostileNames = []string{
	"<script>alert(1)</script>", `"><img src=x onerror=alert(1)>`, "m\x1b[2J\x1b]0;owned\a", "m\nlevel=ERROR msg=forged",
	"m\r\nforged_metric 1", "m\"} 1\nforged_metric 1", "m\\\"} 1\nforged_metric 1", "m\x00\x7f\u0085\u009b31m", "m\u202eflip\u2066",
	"../../../etc/passwd", "%s%d%n", "m\xff\xfe", "*", "key-*/m", strings.Repeat("long", 10_000),
}

// isForged finds what such a name would have done.
var isForged = regexp.MustCompile(`(?m:^forged_metric|^level=)`)

// checkTold fails where a name means something in a text, or could to a terminal.
func checkTold(t testing.TB, what, text string) {
	t.Helper()
	if found := isForged.FindString(text); found != "" {
		t.Errorf("%s has %q", what, found)
	}
	for _, r := range text {
		if unicode.IsControl(r) && r != '\n' && r != '\t' || r == '\u202e' && what == "status" {
			t.Errorf("%s has the character %q", what, r)
			return
		}
	}
}

// The names that clients give are text, wherever they are told.
func TestHostileNames(t *testing.T) {
	u := weigher(t, nil)
	db := filepath.Join(t.TempDir(), "q.db")
	p := start(t, "--db", db, "--upstream", u.URL, "--rpm", "1", "--max-wait", "1ms")
	for _, name := range hostileNames {
		body, _ := json.Marshal(map[string]any{"model": name, "max_tokens": 10})
		if strings.Contains(name, "\xff") {
			body = []byte(strings.Replace(string(body), `\ufffd\ufffd`, name[1:], 1))
		}
		for range 2 { // the second one is refused, and told so
			wire(t, p.url, raw("POST", "/v1/chat/completions", string(body)))
		}
		path := "/v1/" + url.PathEscape(name[:min(len(name), 1000)])
		wire(t, p.url, raw("POST", path+":generateContent", `{"contents":[]}`, "X-Ratelimit-Flow: "+url.QueryEscape(name[:min(len(name), 1000)])))
		wire(t, p.url, raw("GET", "/v1beta/models/"+path, ""))
	}
	checkTold(t, "the log", p.log.String())
	for _, page := range []string{"/", "/metrics", "/healthz"} {
		status, body := get(t, p.admin+page)
		if checkTold(t, page, body); status != 200 || page == "/" && (strings.Contains(body, "<script>alert") || strings.Contains(body, "<img")) {
			t.Errorf("%s: %d, %.3000s", page, status, body)
		}
	}
	for _, flags := range [][]string{{}, {"--json"}} {
		status, stdout, stderr := run(t, append([]string{"status", "--db", db}, flags...)...)
		if checkTold(t, strings.Join(append([]string{"status"}, flags...), " "), stdout+stderr); status != 0 || stdout == "" {
			t.Errorf("status %q: %d, %.300s%s", flags, status, stdout, stderr)
		}
	}
}

// With --strict no spelling of a call goes by the quota.
func TestHostileSpellings(t *testing.T) {
	u := provider(t, nil)
	p := start(t, "--upstream", u.URL, "--rpm", "1", "--max-wait", "1ms", "--strict")
	if status, answer := wire(t, p.url, raw("POST", "/v1/chat/completions", chat("m"))); status != 200 {
		t.Fatalf("the first call: %s", answer)
	}
	for i, target := range []string{
		"/v1/chat/completions", "/v1/chat/completions/", "/v1//chat/completions", "//v1/chat/completions", "/v1/chat//completions",
		"/v1/%63hat/completions", "/v1/chat%2fcompletions", "/v1/chat/completions?model=other", "/x/../v1/chat/completions", "/chat/completions",
		// From here on no provider takes it for the call.
		"/V1/Chat/Completions", "/v1/chat/completions;x=1", "/v1/chat/completions%20", "/v1/chat/completions%00", "/v1\\chat\\completions",
		"/v1/chat/completions#x", "/v1/chat/completions.json", "/v1/chat%252fcompletions",
	} {
		requests := []string{
			raw("POST", target, chat("m")),
			raw("POST", target, `{"model":"a","model":"m"}`),
			raw("POST", target, "\ufeff"+chat("m")),
			raw("POST", target, strings.Replace(chat("m"), "model", `mode\u006c`, 1)),
			strings.Replace(raw("POST", target, chat("m")), "application/json", "text/plain", 1),
		}
		if i < 10 { // the body alone does not show these
			requests = append(requests, raw("POST", target, chat("m"), "Content-Encoding: br"),
				strings.Replace(raw("POST", target, chat("m")), "application/json", "multipart/form-data; boundary=x", 1))
		}
		for _, request := range requests {
			if status, answer := wire(t, p.url, request); status < 400 {
				t.Errorf("%s\nwent on: %s", request, answer)
			}
		}
	}
	if got := u.requests(); len(got) != 1 {
		t.Errorf("the upstream got %d requests", len(got))
	}
}

// A proxy that ends does not wait for clients that do not go on.
func TestHostileDrain(t *testing.T) {
	t.Parallel()
	u, began, _ := floods(t)
	p := start(t, "--upstream", u.URL, "--in-flight", "1", "--drain-timeout", "300ms")
	for _, text := range []string{
		"", "POST / HT", "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 10\r\n\r\n{",
		raw("GET", "/v1/any", "", "Accept: text/event-stream", "Connection: Upgrade", "Upgrade: websocket"),
		raw("POST", "/v1/chat/completions", chat("m"), "Accept: text/event-stream"),
	} {
		io.WriteString(dial(t, p.url), text) //nolint:errcheck // the upstream waits for the last ones
		if strings.HasSuffix(text, "}") || strings.Contains(text, "Upgrade") {
			wait(t, began, "call")
		}
	}
	p.send("/v1/chat/completions", chat("m"))
	p.waiting(1)
	if status := p.stop(syscall.SIGTERM); status != 0 {
		t.Errorf("status %d", status)
	}
	p.log.waitFor(t, "calls were cut")
}
