package main

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// TestRun is the program as a user runs it. It leaves nothing behind.
func TestRun(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var out bytes.Buffer
	if err := run(t.Context(), config{address: "127.0.0.1:0", work: 2 * time.Second}, &out); err != nil {
		t.Fatalf("%v:\n%s", err, &out)
	}
	for _, want := range []string{"PASS", "metrics: http://127.0.0.1:", queued, refused, overlooked, "found", searched + ": "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output lacks %q:\n%s", want, &out)
		}
	}
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// With -serve it works until it is interrupted.
func TestRunUntilInterrupted(t *testing.T) {
	ctx, interrupt := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer interrupt()
	var out bytes.Buffer
	if err := run(ctx, config{address: "127.0.0.1:0"}, &out); err != nil || !strings.Contains(out.String(), "PASS") {
		t.Errorf("%v:\n%s", err, &out)
	}
}

func TestRunWithAnAddressThatIsTaken(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	err := run(t.Context(), config{address: server.Listener.Addr().String(), work: time.Second}, new(bytes.Buffer))
	if err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("error %v", err)
	}
}

// TestVerdict has a call that the provider's log has and the metrics do not.
func TestVerdict(t *testing.T) {
	folder := t.TempDir()
	provider, err := startProvider(filepath.Join(folder, "provider.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer provider.Close()
	s, err := newService(folder, well(), patience)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	pages := httptest.NewServer(s.pages)
	defer pages.Close()
	var out bytes.Buffer
	show := &show{service: s, provider: provider, url: pages.URL, out: &out}
	if err := s.ask(t.Context(), provider.URL, queued); err != nil {
		t.Fatal(err)
	}
	if err := show.report(); err != nil {
		t.Errorf("%v:\n%s", err, &out)
	}
	past := &service{client: http.DefaultClient}
	if err := past.ask(t.Context(), provider.URL, queued); err != nil {
		t.Fatal(err)
	}
	page, err := http.Get(pages.URL + "/debug/ratelimit?format=json")
	if err != nil {
		t.Fatal(err)
	}
	if page.Body.Close(); page.StatusCode != http.StatusOK || page.Header.Get("Content-Type") != "application/json" {
		t.Errorf("the page: %s, %s", page.Status, page.Header)
	}
	out.Reset()
	if err := show.report(); err == nil || !strings.Contains(out.String(), "FAIL") {
		t.Errorf("%v:\n%s", err, &out)
	}
}

// What the agents see is counted by its cause.
func TestCounts(t *testing.T) {
	var c counts
	for _, err := range []error{
		nil, &llmhttp.Problem{Kind: llmhttp.NotSent}, &llmhttp.Problem{Kind: llmhttp.RateLimited}, os.ErrClosed,
	} {
		c.call(err)
	}
	if c.answered != 1 || c.denied != 1 || c.by != 1 || c.bad != 1 || c.err != os.ErrClosed {
		t.Errorf("%+v", &c)
	}
}
