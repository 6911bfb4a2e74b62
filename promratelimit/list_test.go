package promratelimit_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/instruments"
	"dappco.re/go/core/go-ratelimit/money"
	"dappco.re/go/core/go-ratelimit/promratelimit"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
)

// everything returns collectors that have a sample of every metric.
func everything(t *testing.T) []prometheus.Collector {
	h := promratelimit.NewHandler(promratelimit.HandlerOptions{})
	d := ratelimit.Decision{Code: ratelimit.DecisionRPMLimit, Pool: "p"}
	tell(h,
		ratelimit.Event{Kind: ratelimit.EventAdmitted, Model: "m", Wait: time.Second, Decision: &d, Estimated: usage(2, 2)},
		settled("m", usage(2, 2), usage(1, 1), time.Second),
		ratelimit.Event{Kind: ratelimit.EventRecorded, Model: "m", Cost: 1},
		ratelimit.Event{Kind: ratelimit.EventProviderRefused, Model: "m", Status: 429, Problem: "rate_limited"},
		ratelimit.Event{Kind: ratelimit.EventSaved, System: "yaml", Operation: "save", Took: time.Second},
	)
	limiter := newLimiter(t, ratelimit.Config{
		Providers: []ratelimit.Provider{ratelimit.ProviderGemini},
		Quotas:    map[string]ratelimit.ModelQuota{"m": {MaxRPM: 10, AdaptiveFloorInFlight: 1, MaxSpendPerDay: money.USD(1)}},
		Pools: map[string]ratelimit.Pool{"p": {
			Models: []string{"q"}, Quota: ratelimit.ModelQuota{MaxRPM: 10, AdaptiveFloorInFlight: 1, MaxSpendPerMonth: money.USD(1)},
		}},
		Prices: map[string]money.Price{"*": {Input: money.USD(1)}},
	})
	limiter.Observe("q", ratelimit.ProviderLimits{RPM: ratelimit.ProviderLimit{Limit: 10, Remaining: 3, HasRemaining: true}})
	limiter.CooldownFor("m", time.Hour, ratelimit.CauseRateLimited)
	limiter.Observe("m", ratelimit.ProviderLimits{RPM: ratelimit.ProviderLimit{Limit: 10, Remaining: 3, HasRemaining: true}})
	return []prometheus.Collector{h, promratelimit.NewCollector(limiter, promratelimit.CollectorOptions{Handler: h})}
}

// The metrics are those of instruments.List, which module otelratelimit has, too: by name, type,
// help and labels.
func TestList(t *testing.T) {
	types := map[instruments.Kind]dto.MetricType{
		instruments.Counter: dto.MetricType_COUNTER, instruments.Histogram: dto.MetricType_HISTOGRAM,
		instruments.UpDownCounter: dto.MetricType_GAUGE, instruments.Gauge: dto.MetricType_GAUGE,
	}
	var want []string
	for _, i := range instruments.List {
		labels := []string{}
		if i.PerModel {
			labels = append(labels, "model", "provider")
		}
		for _, a := range i.Attributes {
			labels = append(labels, a.Label)
		}
		slices.Sort(labels)
		want = append(want, fmt.Sprint(i.Prometheus, " ", types[i.Kind], " ", labels, " ", i.Description))
	}
	var got []string
	for _, f := range gather(t, everything(t)...) {
		labels := []string{}
		for _, l := range f.Metric[0].Label {
			labels = append(labels, l.GetName())
		}
		got = append(got, fmt.Sprint(f.GetName(), " ", f.GetType(), " ", labels, " ", f.GetHelp()))
	}
	equal(t, got, want...)
}

func TestLint(t *testing.T) {
	for _, c := range everything(t) {
		problems, err := testutil.CollectAndLint(c)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range problems {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}
