package promratelimit_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/promratelimit"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// BenchmarkCall has the events of a call: admitted and settled.
func BenchmarkCall(b *testing.B) {
	h := promratelimit.NewHandler(promratelimit.HandlerOptions{})
	begin := admitted("gpt-4o-mini", usage(1200, 300))
	end := settled("gpt-4o-mini", usage(1200, 300), usage(1100, 120), 1800*time.Millisecond)
	call := func(ctx context.Context) {
		h.HandleEvent(ctx, &begin)
		h.HandleEvent(ctx, &end)
	}
	b.Run("alone", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			call(b.Context())
		}
	})
	b.Run("of a class", func(b *testing.B) {
		begin, end := begin, end
		begin.Class, end.Class = "batch", "batch"
		b.ReportAllocs()
		for b.Loop() {
			h.HandleEvent(b.Context(), &begin)
			h.HandleEvent(b.Context(), &end)
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				call(b.Context())
			}
		})
	})
}

func BenchmarkRefused(b *testing.B) {
	h := promratelimit.NewHandler(promratelimit.HandlerOptions{})
	d := ratelimit.Decision{Code: ratelimit.DecisionRPMLimit}
	e := ratelimit.Event{Kind: ratelimit.EventRefused, Model: "gpt-4o-mini", Provider: "openai", Decision: &d}
	b.ReportAllocs()
	for b.Loop() {
		h.HandleEvent(b.Context(), &e)
	}
}

// BenchmarkExemplars has the events of a call in a span that is sampled.
func BenchmarkExemplars(b *testing.B) {
	labels := prometheus.Labels{"trace_id": "0af7651916cd43dd8448eb211c80319c"}
	h := promratelimit.NewHandler(promratelimit.HandlerOptions{
		Exemplar: func(context.Context) prometheus.Labels { return labels },
	})
	begin := admitted("gpt-4o-mini", usage(1200, 300))
	end := settled("gpt-4o-mini", usage(1200, 300), usage(1100, 120), 1800*time.Millisecond)
	b.ReportAllocs()
	for b.Loop() {
		h.HandleEvent(b.Context(), &begin)
		h.HandleEvent(b.Context(), &end)
	}
}

// thousandModels returns a registry with the collector of a limiter of 1,000 models that have three
// limits each.
func thousandModels(b *testing.B) (*ratelimit.RateLimiter, *prometheus.Registry) {
	quotas := make(map[string]ratelimit.ModelQuota)
	for i := range 1000 {
		quotas[fmt.Sprint("model-", i)] = ratelimit.ModelQuota{MaxRPM: 1000, MaxTPM: 100_000, MaxRPD: 10_000}
	}
	limiter := newLimiter(b, ratelimit.Config{Quotas: quotas})
	for model := range limiter.Models() {
		for range 10 {
			limiter.RecordUsage(model, 10, 10)
		}
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(promratelimit.NewCollector(limiter, promratelimit.CollectorOptions{}))
	return limiter, registry
}

// BenchmarkScrape is a scrape as the registry gathers it, and with the text of the answer.
func BenchmarkScrape(b *testing.B) {
	_, registry := thousandModels(b)
	b.Run("gather", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := registry.Gather(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("http", func(b *testing.B) {
		handler := promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
		request := httptest.NewRequest(http.MethodGet, "/metrics", nil)
		b.ReportAllocs()
		for b.Loop() {
			w := httptest.NewRecorder()
			if handler.ServeHTTP(w, request); w.Code != http.StatusOK {
				b.Fatal(w.Body)
			}
		}
	})
}

// BenchmarkReserveDuringScrapes has calls beside a scraper that never rests. max-µs is the longest
// of them, which has the time for which a scrape holds the limiter, and that of the scheduler.
func BenchmarkReserveDuringScrapes(b *testing.B) {
	limiter, registry := thousandModels(b)
	stop := make(chan struct{})
	var scraper sync.WaitGroup
	scraper.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				registry.Gather()
			}
		}
	})
	var longest time.Duration
	for b.Loop() {
		began := time.Now()
		if r, d := limiter.Reserve("model-500", 1, 1); d.Allowed {
			r.Cancel()
		}
		longest = max(longest, time.Since(began))
	}
	close(stop)
	scraper.Wait()
	b.ReportMetric(float64(longest.Microseconds()), "max-µs")
}
