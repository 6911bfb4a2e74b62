// Package limitertest makes limiters for tests, in one step that cannot fail without the test. The
// tests of the root, of persist and of events use it; no program does.
package limitertest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/sqlitestate"
)

// HandOver is how long it takes at most until a limiter learns that another one has made room.
const HandOver = 50 * time.Millisecond

// OverStore returns a limiter of a store, until the test ends.
func OverStore(t *testing.T, store ratelimit.Store, cfg ratelimit.Config) *ratelimit.RateLimiter {
	t.Helper()
	cfg.Store = store
	rl, err := ratelimit.NewWithConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rl.Close() })
	return rl
}

// YAML returns a limiter without quotas that keeps its state in path.
func YAML(t testing.TB, path string) *ratelimit.RateLimiter {
	t.Helper()
	return With(t, ratelimit.Config{FilePath: path, Providers: []ratelimit.Provider{ratelimit.ProviderLocal}})
}

// With returns a limiter of a configuration, with a YAML file unless that has another one.
func With(t testing.TB, cfg ratelimit.Config) *ratelimit.RateLimiter {
	t.Helper()
	if cfg.FilePath == "" {
		cfg.FilePath = filepath.Join(t.TempDir(), "ratelimits.yaml")
	}
	rl, err := ratelimit.NewWithConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return rl
}

// Of returns a limiter with one model, "m", of the given quota.
func Of(t testing.TB, quota ratelimit.ModelQuota) *ratelimit.RateLimiter {
	t.Helper()
	return With(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": quota}})
}

// Saving returns a limiter without quotas that saves by itself. Config.OnError is told of the store
// alone.
func Saving(t testing.TB, cfg ratelimit.Config) *ratelimit.RateLimiter {
	t.Helper()
	cfg.Providers = []ratelimit.Provider{ratelimit.ProviderLocal}
	cfg.OnError = OfTheStore(cfg.OnError)
	return With(t, cfg)
}

// OfTheStore returns a function that passes the errors of the state file to onError, and drops
// those that tell of models without a quota.
func OfTheStore(onError func(error)) func(error) {
	if onError == nil {
		return nil
	}
	return func(err error) {
		if !errors.As(err, new(*ratelimit.UnknownModelError)) && !errors.Is(err, ratelimit.ErrUnknownProvider) {
			onError(err)
		}
	}
}

// Obstacle keeps a YAML file from being written, until it is removed.
func Obstacle(t testing.TB, path string) (remove func()) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(path, "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	}
}

// Save has a limiter persist what it has.
func Save(t testing.TB, rl *ratelimit.RateLimiter) {
	t.Helper()
	if err := rl.Persist(); err != nil {
		t.Fatal(err)
	}
}

// Load has a limiter load what its file has.
func Load(t testing.TB, rl *ratelimit.RateLimiter) {
	t.Helper()
	if err := rl.Load(); err != nil {
		t.Fatal(err)
	}
}

// Close closes a limiter.
func Close(t testing.TB, rl *ratelimit.RateLimiter) {
	t.Helper()
	if err := rl.Close(); err != nil {
		t.Error(err)
	}
}

// Text shows a state, with times in UTC and without what is not exported.
func Text(state map[string]*ratelimit.UsageStats) string {
	at := func(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
	var b strings.Builder
	for _, model := range slices.Sorted(maps.Keys(state)) {
		stats := state[model]
		if stats == nil {
			fmt.Fprintf(&b, "%q nil\n", model)
			continue
		}
		fmt.Fprintf(&b, "%q day %s %d\n", model, at(stats.DayStart), stats.DayCount)
		for _, request := range stats.Requests {
			fmt.Fprintf(&b, "\trequest %s\n", at(request))
		}
		for _, e := range stats.Tokens {
			fmt.Fprintf(&b, "\ttokens %s %d\n", at(e.Time), e.Count)
		}
	}
	return b.String()
}

// JSON returns what a value is as JSON.
func JSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Reserve reserves a call that passes.
func Reserve(t *testing.T, rl *ratelimit.RateLimiter, model string, prompt, output int) *ratelimit.Reservation {
	t.Helper()
	r, d := rl.Reserve(model, prompt, output)
	if r == nil || !d.Allowed {
		t.Fatalf("Reserve(%q, %d, %d) = %+v", model, prompt, output, d)
	}
	return r
}

// NeedSQLite skips a test of SQLite in a build without it.
func NeedSQLite(t testing.TB) {
	t.Helper()
	if !sqlitestate.Enabled {
		t.Skip("built without SQLite")
	}
}

// Backends are those of this build.
func Backends() []string {
	if sqlitestate.Enabled {
		return []string{"yaml", "sqlite"}
	}
	return []string{"yaml"}
}
