//go:build !nosqlite

package llmhttp_test

import (
	"context"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// Routes of limiters that share a database keep the quotas of their backends together, and use them
// to the full.
func TestRouteShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "shared.db")
		var mu sync.Mutex
		sent := make(map[string]int)
		provider := base(func(req *http.Request) (*http.Response, error) {
			mu.Lock()
			sent[keyOf(req)]++
			mu.Unlock()
			time.Sleep(50 * time.Millisecond)
			return reply(200, `{"usage":{"prompt_tokens":11,"completion_tokens":7}}`)(req)
		})
		// A deadline would have calls refused that could not be sent before it.
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(90*time.Second, cancel)
		var wg sync.WaitGroup
		var limiters []*ratelimit.RateLimiter
		for range 2 {
			rl, err := ratelimit.NewWithConfig(ratelimit.Config{
				Backend: "sqlite", Shared: true, FilePath: path,
				Quotas: map[string]ratelimit.ModelQuota{"a/m": {MaxRPM: 20}, "b/m": {MaxRPM: 10}},
			})
			if err != nil {
				t.Fatal(err)
			}
			limiters = append(limiters, rl)
			route := &llmhttp.Route{Backends: keyed("a", "b"), Transport: llmhttp.Transport{Limiter: rl, Base: provider}}
			for range 8 {
				wg.Go(func() { call(ctx, &http.Client{Transport: route}) })
			}
		}
		wg.Wait()
		synctest.Wait() // until the database has heard of those that left the lines
		if sent["a"] != 40 || sent["b"] != 20 {
			t.Errorf("in 90 s were sent %v, want 40 and 20", sent)
		}
		for _, rl := range limiters {
			for model, s := range rl.AllStats() {
				if s.InFlight != 0 || s.Waiting != 0 {
					t.Errorf("%s has %d in flight, %d waiting", model, s.InFlight, s.Waiting)
				}
			}
		}
		for _, rl := range limiters {
			if err := rl.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}
