package debugpage_test

import (
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/debugpage"
)

func TestNilLimiter(t *testing.T) {
	defer func() {
		if text, _ := recover().(string); text != "debugpage: the limiter is nil" {
			t.Errorf("panic %q", text)
		}
	}()
	debugpage.Handler(nil)
}

func TestMethods(t *testing.T) {
	h := debugpage.Handler(newLimiter(t, nil))
	for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT"} {
		if w := ask(h, method, "/debug/ratelimit"); w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: %d, Allow %q", method, w.Code, w.Header().Get("Allow"))
		}
	}
	for _, target := range []string{"/", "/?format=json", "/?stream"} {
		w := ask(h, http.MethodHead, target)
		if w.Code != http.StatusOK || w.Body.Len() != 0 || w.Header().Get("Content-Type") == "" {
			t.Errorf("HEAD %s: %d with %d bytes of %q", target, w.Code, w.Body.Len(), w.Header().Get("Content-Type"))
		}
	}
}

// TestForms asks with HEAD, which a stream answers, too.
func TestForms(t *testing.T) {
	h := debugpage.Handler(newLimiter(t, nil))
	const page, object, stream, refusal = "text/html; charset=utf-8", "application/json", "text/event-stream", "text/plain; charset=utf-8"
	for _, test := range []struct{ target, accept, want string }{
		{"/", "", page},
		{"/any/path?x=1", "*/*", page},
		{"/", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", page},
		{"/", "application/json", object},
		{"/", "Application/JSON; charset=utf-8", object},
		{"/", "text/event-stream", stream},
		{"/", "text/html;q=0.1, application/json;q=0.5", object},
		{"/", "text/html;q=0.5, application/json;q=0.5", page},
		{"/", "application/json;q=0", page},
		{"/", "application/json;q=x", page},
		{"/", ";;,/", page},
		{"/?stream", "", stream},
		{"/?stream=x.1", "*/*", stream},
		{"/?format=json", "text/html", object},
		{"/?format=html", "application/json", page},
		{"/?format=json&stream", "text/event-stream", object},
		{"/?format=xml", "", refusal},
	} {
		w := ask(h, http.MethodHead, test.target, "Accept", test.accept)
		if got := w.Header().Get("Content-Type"); got != test.want || (w.Code == http.StatusBadRequest) != (test.want == refusal) {
			t.Errorf("%s with %q: %d %s, want %s", test.target, test.accept, w.Code, got, test.want)
		}
	}
}

func TestHeader(t *testing.T) {
	h := debugpage.Handler(newLimiter(t, nil))
	nonces := make(map[string]bool)
	for range 2 {
		w := get(h, "/")
		header := w.Header()
		for name, want := range map[string]string{
			"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Vary": "Accept",
			"Cross-Origin-Resource-Policy": "same-origin", "Referrer-Policy": "no-referrer",
			"Access-Control-Allow-Origin": "",
		} {
			if got := header.Get(name); got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
		policy := header.Get("Content-Security-Policy")
		found := regexp.MustCompile(`script-src 'nonce-(\w{20,})'; style-src 'nonce-(\w{20,})'`).FindStringSubmatch(policy)
		if found == nil || found[1] != found[2] || !strings.HasPrefix(policy, "default-src 'none'; ") ||
			!strings.Contains(policy, "frame-ancestors 'none'") || strings.Contains(policy, "unsafe") || strings.Contains(policy, "*") {
			t.Fatalf("policy %q", policy)
		}
		if n := strings.Count(w.Body.String(), `nonce="`+found[1]+`"`); n != 2 {
			t.Errorf("the nonce is there %d times, want at the style and the script", n)
		}
		nonces[found[1]] = true
	}
	if len(nonces) != 2 {
		t.Error("two pages have the same nonce")
	}
}

// What lets a request in stays in the address of the JSON.
func TestLinkToJSON(t *testing.T) {
	page := get(debugpage.Handler(newLimiter(t, nil)), `/?token=a%22%3E&format=html`).Body.String()
	if !strings.Contains(page, `<a href="?format=json&amp;token=a%22%3E">`) {
		t.Error("the page has no such link")
	}
}

// The page names no other place, and has nothing that the policy forbids.
func TestPageIsOfOnePiece(t *testing.T) {
	rl := newLimiter(t, map[string]ratelimit.ModelQuota{"m": {MaxRPM: 2}})
	rl.RecordUsage("m", 1, 1)
	page := get(debugpage.Handler(rl), "/").Body.String()
	for _, forbidden := range []string{"http:", "https:", "src=", " style=", "onclick", "onload", "url(", "@import", "//"} {
		inside := strings.ReplaceAll(page, "// ", "") // comments of the script
		if i := strings.Index(inside, forbidden); i >= 0 {
			t.Errorf("the page has %q: …%.80s…", forbidden, inside[max(0, i-20):])
		}
	}
}

func TestJSON(t *testing.T) {
	rl := newLimiter(t, map[string]ratelimit.ModelQuota{
		"b": {MaxRPM: 10, MaxTPM: 1000, MaxInFlight: 3}, "a<script>\xff": {MaxRPD: 5}, "c": {}, "gpt-*": {MaxRPM: 1},
	})
	r, _ := rl.Reserve("b", 100, 20)
	defer r.Cancel()
	rl.RecordUsage("c", 1, 1)
	rl.CooldownFor("c", time.Hour, ratelimit.CauseRateLimited)
	rl.Reserve("c", 1, 1)
	w := get(debugpage.Handler(rl), "/", "Accept", "application/json")
	var got struct {
		At       time.Time
		Err      string `json:"store_error"`
		Warnings []string
		Models   []ratelimit.Explanation
	}
	decoder := json.NewDecoder(w.Body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&got); err != nil {
		t.Fatal(err)
	}
	if _, err := decoder.Token(); err != io.EOF {
		t.Errorf("more behind the object: %v", err)
	}
	var names []string
	for _, e := range got.Models {
		names = append(names, e.Model)
	}
	if !slices.Equal(names, []string{"a<script>\uFFFD", "b", "c"}) || time.Since(got.At).Abs() > time.Minute {
		t.Errorf("models %q at %v", names, got.At)
	}
	b, stats := got.Models[1], rl.Stats("b")
	if !b.Next.Stats.DayStart.Equal(stats.DayStart) {
		t.Errorf("the day began %v, want %v", b.Next.Stats.DayStart, stats.DayStart)
	}
	b.Next.Stats.DayStart = stats.DayStart // a time is another value after JSON
	if b.Next.Stats != stats || b.InFlight != 1 || b.Limits[0].Limit != "max_in_flight" || b.Limits[0].Used != 1 {
		t.Errorf("b is %+v", b)
	}
	if c := got.Models[2]; c.Cause != ratelimit.CauseRateLimited || c.LastRefusal == nil || c.Next.Allowed {
		t.Errorf("c is %+v", c)
	}
}

func TestJSONOfNothing(t *testing.T) {
	w := get(debugpage.Handler(newLimiter(t, map[string]ratelimit.ModelQuota{"*": {MaxRPM: 1}})), "/?format=json")
	var got map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if models, ok := got["models"].([]any); !ok || len(models) != 0 || len(got) != 2 {
		t.Errorf("got %s", w.Body)
	}
}
