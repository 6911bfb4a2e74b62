package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
)

// TestPage: the page is there while the agents work and after that, and ends with the program also
// if someone watches.
func TestPage(t *testing.T) {
	release := make(chan struct{})
	answer := answerWith(200, `{"choices":[{"message":{"content":"hi"}}],"usage":{"prompt_tokens":3,"completion_tokens":2}}`)
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-release
		answer.ServeHTTP(w, r)
	}))
	defer provider.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cfg := config{
		in: writeFile(t, line("a", hello)), db: filepath.Join(t.TempDir(), "agents.db"), baseURL: provider.URL, rpm: 7, workers: 1,
		page: "127.0.0.1:0",
	}
	read, write := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- run(ctx, cfg, write)
		write.Close()
	}()
	lines := bufio.NewScanner(read)
	next := func(begin, end string) string {
		for lines.Scan() {
			if text, found := strings.CutPrefix(lines.Text(), begin); found && strings.HasSuffix(text, end) {
				return strings.TrimSuffix(text, end)
			}
		}
		t.Fatalf("the output ends before %q", begin)
		return ""
	}
	url := next("What the limiter does is at ", "")
	if text := fetch(t, url+"?format=json"); !strings.Contains(text, `/m","counted_as"`) || !strings.Contains(text, `"limit":"max_rpm","max":7`) {
		t.Errorf("during the run the page is %s", text)
	}
	stream, err := http.Get(url + "?stream")
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	close(release)
	if after := next("", " stays until Ctrl-C"); after != url {
		t.Errorf("the page stays at %q", after)
	}
	if text := fetch(t, strings.TrimSuffix(url, pagePath)); !strings.Contains(text, "/m</span>") {
		t.Errorf("after the run the page is %s", text)
	}
	cancel()
	io.Copy(io.Discard, read)
	if err := <-done; err != nil {
		t.Errorf("error %v", err)
	}
}

func fetch(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
