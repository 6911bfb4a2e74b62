package otelratelimit_test

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/otelratelimit"
)

// A limiter's metrics go where the program's others go. A program has a reader that exports them
// now and then; here it reads them itself.
func Example() {
	reader := sdkmetric.NewManualReader()
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))

	handler, err := otelratelimit.NewHandler(otelratelimit.WithMeterProvider(meters))
	if err != nil {
		panic(err)
	}
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{
		FilePath: "unused.yaml", // which only Persist writes
		Events:   handler,
		Quotas:   map[string]ratelimit.ModelQuota{"gemini-2.5-pro": {MaxRPM: 10}},
	})
	if err != nil {
		panic(err)
	}
	defer rl.Close()
	registration, err := handler.Observe(rl)
	if err != nil {
		panic(err)
	}
	defer registration.Unregister()

	ctx := context.Background()
	for range 3 {
		reservation, err := rl.Acquire(ctx, "gemini-2.5-pro", 100, 50)
		if err != nil {
			panic(err)
		}
		defer reservation.Cancel()
	}

	var all metricdata.ResourceMetrics
	if err := reader.Collect(ctx, &all); err != nil {
		panic(err)
	}
	for _, m := range all.ScopeMetrics[0].Metrics {
		switch data := m.Data.(type) {
		case metricdata.Sum[int64]:
			if m.Name == "ratelimit.active_leases" || m.Name == "ratelimit.requests" {
				fmt.Println(m.Name, data.DataPoints[0].Value)
			}
		case metricdata.Gauge[float64]:
			fmt.Println(m.Name, data.DataPoints[0].Value)
		}
	}
	// Unordered output:
	// ratelimit.requests 3
	// ratelimit.active_leases 3
	// ratelimit.quota.utilization 0.3
}

// Several limiters have a handler each, which their attributes tell apart.
func ExampleWithAttributes() {
	for _, tier := range []string{"free", "paid"} {
		handler, err := otelratelimit.NewHandler(
			otelratelimit.WithAttributes(attribute.String("app.tier", tier)),
			otelratelimit.WithMaxModels(100),
		)
		if err != nil {
			panic(err)
		}
		defer handler.Close()
		rl, err := ratelimit.NewWithConfig(ratelimit.Config{FilePath: tier + ".yaml", Events: handler})
		if err != nil {
			panic(err)
		}
		defer rl.Close()
		if _, err := handler.Observe(rl); err != nil {
			panic(err)
		}
		fmt.Println(tier, rl.Decide("gpt-5", 10).Code)
	}
	// Output:
	// free unknown_model
	// paid unknown_model
}

// Without the instrumentation of an SDK, the calls can be counted as the GenAI conventions do.
func ExampleWithGenAIMetrics() {
	handler, err := otelratelimit.NewHandler(otelratelimit.WithGenAIMetrics("chat"))
	if err != nil {
		panic(err)
	}
	defer handler.Close()
	fmt.Println(ratelimit.EventHandlers(handler) != nil)
	// Output: true
}
