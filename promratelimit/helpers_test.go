package promratelimit_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

func usage(prompt, output int) ratelimit.Usage {
	return ratelimit.Usage{PromptTokens: prompt, OutputTokens: output}
}

// tell feeds events to a handler as a limiter does, in one Event.
func tell(h ratelimit.EventHandler, events ...ratelimit.Event) {
	var e ratelimit.Event
	for i := range events {
		e = events[i]
		h.HandleEvent(context.Background(), &e)
	}
}

func admitted(model string, estimated ratelimit.Usage) ratelimit.Event {
	return ratelimit.Event{Kind: ratelimit.EventAdmitted, Model: model, Provider: "openai", Estimated: estimated}
}

func settled(model string, estimated, used ratelimit.Usage, held time.Duration) ratelimit.Event {
	return ratelimit.Event{
		Kind: ratelimit.EventSettled, Model: model, Provider: "openai", Estimated: estimated, Settled: used, Held: held,
	}
}

func newLimiter(t testing.TB, cfg ratelimit.Config) *ratelimit.RateLimiter {
	t.Helper()
	cfg.FilePath = t.TempDir() + "/state.yaml"
	limiter, err := ratelimit.NewWithConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := limiter.Close(); err != nil {
			t.Error(err)
		}
	})
	return limiter
}

// gather registers the collectors and returns what a scrape has.
func gather(t testing.TB, collectors ...prometheus.Collector) []*dto.MetricFamily {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	for _, c := range collectors {
		if err := registry.Register(c); err != nil {
			t.Fatal(err)
		}
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// lines are the metrics in the form name{labels} value, without those that are 0. A histogram is
// its number of observations and their sum.
func lines(families []*dto.MetricFamily) (lines []string) {
	for _, f := range families {
		for _, m := range f.Metric {
			var value string
			switch {
			case m.Counter != nil:
				value = fmt.Sprint(m.Counter.GetValue())
			case m.Gauge != nil:
				value = fmt.Sprint(m.Gauge.GetValue())
			case m.Histogram != nil:
				value = fmt.Sprint(m.Histogram.GetSampleCount(), "/", m.Histogram.GetSampleSum())
			}
			if value != "0" && value != "0/0" {
				lines = append(lines, f.GetName()+labels(m)+" "+value)
			}
		}
	}
	return lines
}

func labels(m *dto.Metric) string {
	var pairs []string
	for _, l := range m.Label {
		pairs = append(pairs, l.GetName()+"="+l.GetValue())
	}
	return "{" + strings.Join(pairs, ",") + "}"
}

func equal(t *testing.T, got []string, want ...string) {
	t.Helper()
	slices.Sort(want)
	got = slices.Sorted(slices.Values(got))
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
