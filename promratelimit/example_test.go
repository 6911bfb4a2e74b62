package promratelimit_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"
	"path/filepath"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/promratelimit"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// A service whose limiter is scraped at /metrics.
func Example() {
	folder, err := os.MkdirTemp("", "example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	handler := promratelimit.NewHandler(promratelimit.HandlerOptions{})
	limiter, err := ratelimit.NewWithConfig(ratelimit.Config{
		Quotas:   map[string]ratelimit.ModelQuota{"gpt-4.1": {MaxRPM: 500}},
		FilePath: filepath.Join(folder, "usage.yaml"),
		Events:   handler,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer limiter.Close()
	registry := prometheus.NewRegistry()
	registry.MustRegister(handler,
		promratelimit.NewCollector(limiter, promratelimit.CollectorOptions{Handler: handler}))
	mux := http.NewServeMux() // of the admin port
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true}))

	reservation, err := limiter.Acquire(context.Background(), "gpt-4.1", 1200, 300)
	if err != nil {
		log.Fatal(err)
	}
	reservation.Commit(1150, 80)
	print(registry, "ratelimit_requests_total", "ratelimit_quota_used") // none was refused by MaxRPM
	// Output:
	// ratelimit_quota_used 1
	// ratelimit_requests_total 1
	// ratelimit_requests_total 0
}

// Two limiters in one registry have labels that tell them apart.
func ExampleHandlerOptions_constLabels() {
	folder, err := os.MkdirTemp("", "example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	registry := prometheus.NewRegistry()
	for _, name := range []string{"chat", "embeddings"} {
		handler := promratelimit.NewHandler(promratelimit.HandlerOptions{
			ConstLabels: prometheus.Labels{"limiter": name},
		})
		limiter, err := ratelimit.NewWithConfig(ratelimit.Config{
			Quotas:   map[string]ratelimit.ModelQuota{"m": {MaxRPM: 60}},
			FilePath: filepath.Join(folder, name+".yaml"),
			Events:   handler,
		})
		if err != nil {
			log.Fatal(err)
		}
		defer limiter.Close()
		registry.MustRegister(handler,
			promratelimit.NewCollector(limiter, promratelimit.CollectorOptions{Handler: handler}))
	}
	print(registry, "ratelimit_quota_limit")
	// Output:
	// ratelimit_quota_limit 60
	// ratelimit_quota_limit 60
}

type traceID struct{}

// With OpenTelemetry, Exemplar returns the trace of a span that is sampled:
//
//	span := trace.SpanContextFromContext(ctx)
//	if !span.IsSampled() {
//		return nil
//	}
//	return prometheus.Labels{"trace_id": span.TraceID().String()}
func ExampleHandlerOptions_exemplar() {
	handler := promratelimit.NewHandler(promratelimit.HandlerOptions{
		Exemplar: func(ctx context.Context) prometheus.Labels {
			id, ok := ctx.Value(traceID{}).(string)
			if !ok {
				return nil
			}
			return prometheus.Labels{"trace_id": id}
		},
	})
	ctx := context.WithValue(context.Background(), traceID{}, "4bf92f3577b34da6")
	handler.HandleEvent(ctx, &ratelimit.Event{Kind: ratelimit.EventSettled, Model: "m", Held: 1})
	// Output:
}

// A limiter whose events go elsewhere can be scraped alone.
func ExampleNewCollector() {
	folder, err := os.MkdirTemp("", "example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	limiter, err := ratelimit.NewWithConfig(ratelimit.Config{
		Quotas:   map[string]ratelimit.ModelQuota{"m": {MaxRPM: 60}},
		FilePath: filepath.Join(folder, "usage.yaml"),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer limiter.Close()
	limiter.RecordUsage("m", 100, 20)
	registry := prometheus.NewRegistry()
	registry.MustRegister(promratelimit.NewCollector(limiter, promratelimit.CollectorOptions{
		ConstLabels: prometheus.Labels{"limiter": "chat"},
	}))
	print(registry, "ratelimit_quota_used", "ratelimit_quota_limit")
	// Output:
	// ratelimit_quota_limit 60
	// ratelimit_quota_used 1
}

// print prints metrics of some names.
func print(from prometheus.Gatherer, names ...string) {
	families, err := from.Gather()
	if err != nil {
		log.Fatal(err)
	}
	for _, family := range families {
		for _, name := range names {
			if family.GetName() != name {
				continue
			}
			for _, m := range family.Metric {
				fmt.Println(name, m.GetCounter().GetValue()+m.GetGauge().GetValue())
			}
		}
	}
}
