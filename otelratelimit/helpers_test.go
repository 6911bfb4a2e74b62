package otelratelimit_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/trace/noop"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/otelratelimit"
)

// newHandler returns a Handler and what collects its metrics.
func newHandler(t testing.TB, opts ...otelratelimit.Option) (*otelratelimit.Handler, *sdkmetric.ManualReader) {
	t.Helper()
	reader := sdkmetric.NewManualReader()
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	h, err := otelratelimit.NewHandler(append([]otelratelimit.Option{
		otelratelimit.WithMeterProvider(meters), otelratelimit.WithTracerProvider(noop.NewTracerProvider()),
	}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
		if err := meters.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return h, reader
}

func newLimiter(t testing.TB, cfg ratelimit.Config) *ratelimit.RateLimiter {
	t.Helper()
	cfg.FilePath = t.TempDir() + "/state.yaml"
	rl, err := ratelimit.NewWithConfig(cfg)
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

// collect returns the metrics by their names.
func collect(t testing.TB, reader sdkmetric.Reader) map[string]metricdata.Metrics {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &all); err != nil {
		t.Fatal(err)
	}
	got := make(map[string]metricdata.Metrics)
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			got[m.Name] = m
		}
	}
	return got
}

// lines returns each point of some metrics as a line: its name, attributes and value; of a
// histogram the number and the sum.
func lines(all map[string]metricdata.Metrics, prefix string) []string {
	var got []string
	add := func(name string, set attribute.Set, format string, values ...any) {
		var words []string
		for _, a := range set.ToSlice() {
			words = append(words, string(a.Key)+"="+a.Value.String())
		}
		if strings.HasPrefix(name, prefix) {
			got = append(got, fmt.Sprintf("%s{%s} "+format, append([]any{name, strings.Join(words, ",")}, values...)...))
		}
	}
	for name, m := range all {
		switch data := m.Data.(type) {
		case metricdata.Sum[int64]:
			for _, p := range data.DataPoints {
				add(name, p.Attributes, "%d", p.Value)
			}
		case metricdata.Sum[float64]:
			for _, p := range data.DataPoints {
				add(name, p.Attributes, "%g", p.Value)
			}
		case metricdata.Gauge[int64]:
			for _, p := range data.DataPoints {
				add(name, p.Attributes, "%d", p.Value)
			}
		case metricdata.Gauge[float64]:
			for _, p := range data.DataPoints {
				add(name, p.Attributes, "%g", p.Value)
			}
		case metricdata.Histogram[float64]:
			for _, p := range data.DataPoints {
				add(name, p.Attributes, "%d: %g", p.Count, p.Sum)
			}
		case metricdata.Histogram[int64]:
			for _, p := range data.DataPoints {
				add(name, p.Attributes, "%d: %d", p.Count, p.Sum)
			}
		default:
			got = append(got, fmt.Sprintf("%s: unknown data %T", name, data))
		}
	}
	slices.Sort(got)
	return got
}

func equalLines(t *testing.T, got []string, want ...string) {
	t.Helper()
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func usage(prompt, output int) ratelimit.Usage {
	return ratelimit.Usage{PromptTokens: prompt, OutputTokens: output}
}
