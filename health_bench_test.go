package ratelimit_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
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

// What an event costs whose level is off, a refusal that is left out, and one that is written.
func BenchmarkLogEvents(b *testing.B) {
	for _, bb := range []struct {
		name  string
		level slog.Level
		every int
		event ratelimit.Event
	}{
		{"off", slog.LevelInfo, 0, ratelimit.Event{Kind: ratelimit.EventAdmitted, ID: 1, Model: "m"}},
		{"left out", slog.LevelInfo, 1 << 30, ratelimit.Event{Kind: ratelimit.EventRefused, ID: 1, Model: "m", Decision: &ratelimit.Decision{Code: "rpm_exceeded"}}},
		{"written", slog.LevelDebug, 0, ratelimit.Event{Kind: ratelimit.EventAdmitted, ID: 1, Model: "m"}},
	} {
		b.Run(bb.name, func(b *testing.B) {
			logger := slog.New(slog.NewJSONHandler(io.Discard, &slog.HandlerOptions{Level: bb.level}))
			h := ratelimit.LogEvents(logger, ratelimit.LogOptions{DenialsEvery: bb.every})
			b.ReportAllocs()
			for b.Loop() {
				h.HandleEvent(context.Background(), &bb.event)
			}
		})
	}
}
