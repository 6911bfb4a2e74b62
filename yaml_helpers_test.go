// Helpers of the tests of YAML files.

package ratelimit_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

type (
	yamlQuotas = map[string]ratelimit.ModelQuota
	yamlState  = map[string]*ratelimit.UsageStats
)

// yamlLimiter returns a limiter without quotas that keeps its state in path.
func yamlLimiter(t testing.TB, path string) *ratelimit.RateLimiter {
	t.Helper()
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{
		FilePath: path, Providers: []ratelimit.Provider{ratelimit.ProviderLocal},
	})
	if err != nil {
		t.Fatal(err)
	}
	return rl
}

// yamlWrite writes a file into a folder of its own and returns its path.
func yamlWrite(t testing.TB, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "state.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func yamlRead(t testing.TB, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// yamlContent returns what Persist wrote between the first line and the last.
func yamlContent(t testing.TB, path string) string {
	t.Helper()
	lines := slices.Collect(strings.Lines(yamlRead(t, path)))
	return strings.Join(lines[1:len(lines)-1], "")
}

func yamlPersist(t testing.TB, rl *ratelimit.RateLimiter) {
	t.Helper()
	if err := rl.Persist(); err != nil {
		t.Fatal(err)
	}
}

func yamlLoad(t testing.TB, rl *ratelimit.RateLimiter) {
	t.Helper()
	if err := rl.Load(); err != nil {
		t.Fatal(err)
	}
}

// yamlText shows a state, with times in UTC and without what is not exported.
func yamlText(state yamlState) string {
	var b strings.Builder
	for _, model := range slices.Sorted(maps.Keys(state)) {
		stats := state[model]
		if stats == nil {
			fmt.Fprintf(&b, "%q nil\n", model)
			continue
		}
		fmt.Fprintf(&b, "%q day %s %d\n", model, yamlTime(stats.DayStart), stats.DayCount)
		for _, at := range stats.Requests {
			fmt.Fprintf(&b, "\trequest %s\n", yamlTime(at))
		}
		for _, e := range stats.Tokens {
			fmt.Fprintf(&b, "\ttokens %s %d\n", yamlTime(e.Time), e.Count)
		}
	}
	return b.String()
}

func yamlTime(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// yamlLitter lists what is in the folder of path beside path.
func yamlLitter(t testing.TB, path string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		if entry.Name() != filepath.Base(path) {
			names = append(names, entry.Name())
		}
	}
	return names
}

// yamlSample is the sample of the documentation.
const yamlSample = `quotas:
  gemini-3-pro-preview:
    max_rpm: 150
    max_tpm: 1000000
    max_rpd: 1000
state:
  gemini-3-pro-preview:
    requests:
      - 2026-02-20T14:32:01.123456789Z
    tokens:
      - time: 2026-02-20T14:32:01.123456789Z
        count: 1500
    day_start: 2026-02-20T00:00:00Z
    day_count: 42
`

func yamlSymlink(t testing.TB, to string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "link.yaml")
	if err := os.Symlink(to, path); err != nil {
		t.Skip(err)
	}
	return path
}
