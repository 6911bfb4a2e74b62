package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// lockedBuffer is an output that is read while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// TestHangs runs each hang until its metrics tell of it, and of no other.
func TestHangs(t *testing.T) {
	signs := map[string]*regexp.Regexp{
		"day":      regexp.MustCompile(`ratelimit_quota_utilization_ratio{dimension="rpd".*} 1\n`),
		"cooldown": regexp.MustCompile(`ratelimit_provider_pause_seconds{cause="rate_limited".*} [1-9]`),
		"large":    regexp.MustCompile(`(?s)ratelimit_queued_requests{.*?} 7\n.*ratelimit_quota_utilization_ratio{dimension="tpd"[^\n]*} 0\.`),
		"leaks":    regexp.MustCompile(`ratelimit_quota_utilization_ratio{dimension="in_flight".*} 1\n`),
		"store":    regexp.MustCompile(`ratelimit_store_degraded{.*} 1\n`),
	}
	if len(signs) != len(hangs) {
		t.Fatal("a hang is not tested")
	}
	for name, sign := range signs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var out lockedBuffer
			ended := make(chan error, 1)
			go func() { ended <- runHang(ctx, config{address: "127.0.0.1:0", hang: name}, t.TempDir(), &out) }()
			metrics := regexp.MustCompile(`metrics: (\S+)\n`)
			var last string
			for !lasts(sign, &last, func() string { return fetch(metrics.FindStringSubmatch(out.String())) }) {
				select {
				case <-ctx.Done():
					t.Fatalf("the metrics do not tell:\n%s", last)
				case <-time.After(50 * time.Millisecond):
				}
			}
			for other, sign := range signs {
				if other != name && sign.MatchString(last) {
					t.Errorf("the metrics tell of %s, too:\n%s", other, last)
				}
			}
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if strings.Contains(out.String(), name) {
				t.Errorf("the output tells:\n%s", &out)
			}
		})
	}
}

// lasts reports whether the metrics have a sign that is still there a moment later: slots are all
// taken now and then.
func lasts(sign *regexp.Regexp, last *string, metrics func() string) bool {
	for range 4 {
		if *last = metrics(); !sign.MatchString(*last) {
			return false
		}
		time.Sleep(150 * time.Millisecond)
	}
	return true
}

func fetch(url []string) string {
	if url == nil {
		return ""
	}
	response, err := http.Get(url[1])
	if err != nil {
		return ""
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	return string(text)
}

// The seed decides, and every hang can come.
func TestRandomHang(t *testing.T) {
	seen := make(map[string]bool)
	for seed := range uint64(100) {
		name := randomHang(seed)
		if _, known := hangs[name]; !known || name != randomHang(seed) {
			t.Errorf("seed %d: %q", seed, name)
		}
		seen[name] = true
	}
	if len(seen) != len(hangs) {
		t.Errorf("only %v", seen)
	}
}

func TestRunHangLeavesNothing(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var out bytes.Buffer
	if err := run(t.Context(), config{address: "127.0.0.1:0", work: time.Second, hang: "day"}, &out); err != nil {
		t.Errorf("%v:\n%s", err, &out)
	}
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
