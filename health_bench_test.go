package ratelimit_test

import (
	"fmt"
	"testing"

	"dappco.re/go/core/go-ratelimit"
)

// observedLimiter returns a limiter of 1,000 models, each with usage, an open call and refusals.
func observedLimiter(b *testing.B) *ratelimit.RateLimiter {
	quotas := make(map[string]ratelimit.ModelQuota)
	for i := range 1000 {
		quotas[fmt.Sprint("model-", i)] = ratelimit.ModelQuota{MaxRPM: 2, MaxTPM: 1000, MaxRPD: 100, MaxInFlight: 5}
	}
	rl := newLimiterWith(b, ratelimit.Config{Quotas: quotas, Providers: []ratelimit.Provider{"openai"}})
	b.Cleanup(func() { rl.Close() })
	for model := range quotas {
		r, _ := rl.Reserve(model, 1, 1)
		r.Commit(1, 1)
		reserveTimes(rl, model, 2)
	}
	return rl
}

// What a scrape does for 1,000 models.
func BenchmarkExplain1000Models(b *testing.B) {
	rl := observedLimiter(b)
	b.ReportAllocs()
	for b.Loop() {
		for model := range rl.Models() {
			rl.Explain(model)
		}
	}
}

func BenchmarkHealth1000Models(b *testing.B) {
	rl := observedLimiter(b)
	b.ReportAllocs()
	for b.Loop() {
		rl.Health()
	}
}

// A refusal, which is noted for Explain and Health.
func BenchmarkRefused(b *testing.B) {
	rl := newLimiter(b, ratelimit.ModelQuota{MaxRPM: 1})
	defer rl.Close()
	b.ReportAllocs()
	for b.Loop() {
		rl.Reserve("m", 1, 1)
	}
}
