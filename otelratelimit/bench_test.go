package otelratelimit_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/otelratelimit"
)

// BenchmarkCall is what the Handler adds to a call that is admitted and settled.
func BenchmarkCall(b *testing.B) {
	for name, opts := range map[string][]otelratelimit.Option{
		"default": nil,
		"GenAI":   {otelratelimit.WithGenAIMetrics("chat")},
	} {
		b.Run(name, func(b *testing.B) {
			h, _ := newHandler(b, opts...)
			admitted := ratelimit.Event{Kind: ratelimit.EventAdmitted, Model: "m", Provider: "gemini", Estimated: usage(100, 20)}
			settled := ratelimit.Event{Kind: ratelimit.EventSettled, Model: "m", Provider: "gemini", Estimated: usage(100, 20), Settled: usage(90, 10), Held: time.Second}
			ctx := context.Background()
			b.ReportAllocs()
			for b.Loop() {
				h.HandleEvent(ctx, &admitted)
				h.HandleEvent(ctx, &settled)
			}
		})
	}
}

// BenchmarkBareCounter is the yardstick: one addition to a counter without attributes.
func BenchmarkBareCounter(b *testing.B) {
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
	counter, err := meters.Meter("bare").Int64Counter("bare")
	if err != nil {
		b.Fatal(err)
	}
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		counter.Add(ctx, 1)
	}
}

// BenchmarkCollect collects all metrics of 1,000 models with three limits each, some 20,000 points,
// into the memory of the collection before, as the readers of the SDK do.
func BenchmarkCollect(b *testing.B) {
	reader := sdkmetric.NewManualReader()
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader), sdkmetric.WithCardinalityLimit(0))
	h, _ := newHandler(b, otelratelimit.WithMeterProvider(meters))
	quotas := make(map[string]ratelimit.ModelQuota)
	for i := range 1000 {
		quotas[fmt.Sprint("model-", i)] = ratelimit.ModelQuota{MaxRPM: 10, MaxTPM: 1000, MaxRPD: 100}
	}
	rl := newLimiter(b, ratelimit.Config{Quotas: quotas})
	registration, err := h.Observe(rl)
	if err != nil {
		b.Fatal(err)
	}
	for model := range quotas {
		tell(h, ratelimit.Event{Kind: ratelimit.EventAdmitted, Model: model, Estimated: usage(100, 20)},
			ratelimit.Event{Kind: ratelimit.EventSettled, Model: model, Estimated: usage(100, 20), Settled: usage(90, 10)})
	}
	var all metricdata.ResourceMetrics
	b.ReportAllocs()
	for b.Loop() {
		if err := reader.Collect(context.Background(), &all); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	if err := registration.Unregister(); err != nil {
		b.Error(err)
	}
}
