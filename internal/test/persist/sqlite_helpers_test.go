// Helpers of the tests of SQLite files.

package persist

import (
	"slices"
	"testing"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/limitertest"
)

// sqliteLimiter returns a limiter without quotas that keeps its state in path.
func sqliteLimiter(t testing.TB, path string) *ratelimit.RateLimiter {
	t.Helper()
	return sqliteLimiterWith(t, path, ratelimit.Config{Providers: []ratelimit.Provider{ratelimit.ProviderLocal}})
}

func sqliteLimiterWith(t testing.TB, path string, cfg ratelimit.Config) *ratelimit.RateLimiter {
	t.Helper()
	rl, err := ratelimit.NewWithSQLiteConfig(path, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rl.Close(); err != nil {
			t.Error(err)
		}
	})
	return rl
}

func sqliteWantStats(t *testing.T, model string, got, want *ratelimit.UsageStats) {
	t.Helper()
	sameEntry := func(a, b ratelimit.TokenEntry) bool {
		return a.Count == b.Count && a.Input == b.Input && a.Time.Equal(b.Time)
	}
	if got == nil || !slices.EqualFunc(got.Requests, want.Requests, time.Time.Equal) ||
		!slices.EqualFunc(got.Tokens, want.Tokens, sameEntry) ||
		!got.DayStart.Equal(want.DayStart) || got.DayCount != want.DayCount || got.DayTokens != want.DayTokens {
		t.Errorf("%q is %+v, want %+v", model, got, want)
	}
}

// sqliteWantStored persists, and compares what a fresh limiter reads with what rl
// counts.
func sqliteWantStored(t *testing.T, rl *ratelimit.RateLimiter, path string) {
	t.Helper()
	limitertest.Save(t, rl)
	reader := sqliteLimiter(t, path)
	limitertest.Load(t, reader)
	want, got := rl.AllStats(), reader.AllStats()
	for model := range want {
		w, g := want[model], got[model]
		w.DayStart, g.DayStart = time.Time{}, time.Time{}
		if g != w {
			t.Fatalf("%s: stored %+v, counted %+v", model, g, w)
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%d models stored, %d counted", len(got), len(want))
	}
}
