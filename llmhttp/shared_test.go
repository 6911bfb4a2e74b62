//go:build !nosqlite

package llmhttp_test

import (
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// Limiters that share a database keep the limits together.
func TestSharedLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := func(path string) *ratelimit.RateLimiter {
			rl, err := ratelimit.NewWithConfig(ratelimit.Config{Backend: "sqlite", Shared: true, FilePath: path, Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 1000, MaxTPM: 1_000_000, MaxInFlight: 2}}})
			if err != nil {
				t.Fatal(err)
			}
			return rl
		}
		path := filepath.Join(t.TempDir(), "shared.db")
		one, two := open(path), open(path)
		defer two.Close()
		var flying, most int
		var mu sync.Mutex
		provider := base(func(req *http.Request) (*http.Response, error) {
			mu.Lock()
			flying++
			most = max(most, flying)
			mu.Unlock()
			time.Sleep(5 * time.Millisecond)
			mu.Lock()
			flying--
			mu.Unlock()
			return response(req, 200, `{"usage":{"prompt_tokens":11,"completion_tokens":7}}`, "X-Ratelimit-Remaining-Requests: 900", "X-Ratelimit-Limit-Requests: 1000"), nil
		})
		var wg sync.WaitGroup
		for _, rl := range []*ratelimit.RateLimiter{one, two} {
			tr := &llmhttp.Transport{Limiter: rl, Base: provider}
			for range 4 {
				wg.Go(func() {
					for range 5 {
						exchange(t, tr, chatURL, `{"model":"m"}`)
					}
				})
			}
		}
		wg.Wait()
		if s := two.Stats("m"); s.RPM != 40 || s.ITPM != 440 || s.OTPM != 280 || s.InFlight != 0 || most > 2 {
			t.Errorf("charged %+v, %d at once", s, most)
		}
		if _, err := charged(t, &llmhttp.Transport{Limiter: one, Base: provider}, ratelimit.Request{Model: "team"}, ratelimit.Request{Model: "budget", PromptTokens: 3}); err != nil {
			t.Error(err)
		}
		if team, budget := two.Stats("team"), two.Stats("budget"); team.TPM != 18 || team.RPM != 1 || budget.TPM != 3 || budget.InFlight != 0 {
			t.Errorf("charged beside %+v and %+v", team, budget)
		}
		if err := one.Close(); err != nil {
			t.Fatal(err)
		}
		for _, asError := range []bool{false, true} {
			tr := &llmhttp.Transport{Limiter: one, Base: provider, RefuseWithError: asError}
			closed := false
			req, _ := http.NewRequestWithContext(t.Context(), "POST", chatURL, &closer{strings.NewReader(`{"model":"m"}`), &closed})
			resp, err := tr.RoundTrip(req)
			if !closed || !errors.Is(err, ratelimit.ErrClosed) {
				t.Errorf("after Close: %v, %v, body closed: %t", resp, err, closed)
			}
		}
	})
}

// The events of calls are the same where limiters share a database.
func TestSharedLimiterEvents(t *testing.T) {
	for i, f := range flows() {
		if racetest.Factor > 1 && i%4 > 0 {
			continue
		}
		f.config.Backend, f.config.Shared = "sqlite", true
		t.Run(f.name, func(t *testing.T) { synctest.Test(t, f.test) })
	}
}
