package otelratelimit_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/money"
	"dappco.re/go/core/go-ratelimit/otelratelimit"
)

// fairLines are the metrics of classes, pools and money, without those that are zero.
func fairLines(t *testing.T, reader sdkmetric.Reader) []string {
	t.Helper()
	return slices.DeleteFunc(lines(collect(t, reader), "ratelimit."), func(line string) bool {
		return strings.HasSuffix(line, " 0") || strings.HasPrefix(line, "ratelimit.quota") || strings.HasPrefix(line, "ratelimit.tokens") ||
			strings.HasPrefix(line, "ratelimit.lease") || strings.HasPrefix(line, "ratelimit.estimate")
	})
}

// A pool has metrics of its own, also if a model has its name, so that a sum over the models counts
// nothing twice. Requests, waits, the line and the spend have the class.
func TestFairShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracers, spans := newTracers(t)
		h, reader := newHandler(t, otelratelimit.WithTracerProvider(tracers))
		limiter := newLimiter(t, ratelimit.Config{
			Events:  h,
			Quotas:  map[string]ratelimit.ModelQuota{"m": {MaxRPM: 100, MaxSpendPerDay: money.USD(2)}},
			Pools:   map[string]ratelimit.Pool{"m": {Models: []string{"*"}, Quota: ratelimit.ModelQuota{MaxRPM: 1, MaxSpendPerMonth: money.USD(9)}}},
			Classes: map[string]ratelimit.Class{"batch": {}, "people": {Weight: 3}},
			Prices:  map[string]money.Price{"*": {Input: money.USD(1)}},
		})
		if _, err := h.Observe(limiter); err != nil {
			t.Fatal(err)
		}
		acquire := func(class string) {
			r, err := limiter.Acquire(ratelimit.WithClass(t.Context(), class), "m", 500_000, 0)
			if err != nil {
				t.Error(err)
				return
			}
			r.Commit(500_000, 0)
		}
		acquire("batch")
		if _, d := limiter.Reserve("m", 1, 0); d.Pool != "m" {
			t.Errorf("decision %+v", d)
		}
		for _, class := range []string{"people", "unknown"} {
			go acquire(class)
			synctest.Wait()
		}
		const m, p, of = "gen_ai.request.model=m", "ratelimit.pool=m", "ratelimit.dimension=rpm,ratelimit.pool=m,ratelimit.source=program} "
		equalLines(t, fairLines(t, reader),
			"ratelimit.budget.limit{"+m+",ratelimit.period=day} 2",
			"ratelimit.budget.spent{"+m+",ratelimit.period=day} 0.5",
			"ratelimit.budget.spent{"+m+",ratelimit.period=month} 0.5",
			"ratelimit.pool.budget.limit{ratelimit.period=month,"+p+"} 9",
			"ratelimit.pool.budget.spent{ratelimit.period=day,"+p+"} 0.5",
			"ratelimit.pool.budget.spent{ratelimit.period=month,"+p+"} 0.5",
			"ratelimit.pool.denials{ratelimit.code=rpm_exceeded,"+p+",ratelimit.result=refused} 1",
			"ratelimit.pool.queued_requests{"+p+"} 2",
			"ratelimit.pool.quota.limit{"+of+"1",
			"ratelimit.pool.quota.used{"+of+"1",
			"ratelimit.pool.quota.utilization{"+of+"1",
			"ratelimit.queued_requests{"+m+"} 1",
			"ratelimit.queued_requests{"+m+",ratelimit.class=people} 1",
			"ratelimit.requests{"+m+",ratelimit.class=batch,ratelimit.code=ok,ratelimit.result=admitted} 1",
			"ratelimit.requests{"+m+",ratelimit.code=rpm_exceeded,ratelimit.result=refused} 1",
			"ratelimit.spend{"+m+",ratelimit.class=batch} 0.5",
		)
		time.Sleep(3 * time.Minute)
		got := slices.DeleteFunc(fairLines(t, reader), func(line string) bool { return !strings.Contains(line, "time_in_queue") })
		equalLines(t, got,
			"ratelimit.request.time_in_queue{"+m+",ratelimit.class=people,ratelimit.result=admitted} 1: 60.000000001",
			"ratelimit.request.time_in_queue{"+m+",ratelimit.result=admitted} 1: 120.000000002",
		)
		var waits []string
		for _, s := range spans.GetSpans() {
			set := attribute.NewSet(s.Attributes...)
			class, _ := set.Value("ratelimit.class")
			pool, _ := set.Value("ratelimit.pool")
			waits = append(waits, class.AsString()+" "+pool.AsString())
		}
		if want := []string{"people m", " "}; !slices.Equal(waits, want) { // the second stood behind the first
			t.Errorf("spans %q, want %q", waits, want)
		}
	})
}

// A model may have no name.
func TestObserveWithoutAName(t *testing.T) {
	h, reader := newHandler(t)
	limiter := newLimiter(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"": {}}})
	if _, err := h.Observe(limiter); err != nil {
		t.Fatal(err)
	}
	equalLines(t, lines(collect(t, reader), "ratelimit."),
		"ratelimit.active_leases{gen_ai.request.model=} 0", "ratelimit.queued_requests{gen_ai.request.model=} 0", "ratelimit.store.degraded{} 0")
}

func TestPoolsAndClassesAreBounded(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader), sdkmetric.WithCardinalityLimit(0))
	h, _ := newHandler(t, otelratelimit.WithMeterProvider(meters))
	for i := range 1005 {
		d := ratelimit.Decision{Code: ratelimit.DecisionRPMLimit, Pool: fmt.Sprint("p", i)}
		tell(h, ratelimit.Event{Kind: ratelimit.EventRefused, Model: "m", Class: fmt.Sprint("c", i), Decision: &d})
	}
	all := collect(t, reader)
	for prefix, want := range map[string]struct {
		series int
		other  string
	}{
		"ratelimit.pool.denials": {1001, "ratelimit.pool.denials{ratelimit.code=rpm_exceeded,ratelimit.pool=_other,ratelimit.result=refused} 5"},
		"ratelimit.requests":     {101, "ratelimit.requests{gen_ai.request.model=m,ratelimit.class=_other,ratelimit.code=rpm_exceeded,ratelimit.result=refused} 905"},
	} {
		if got := lines(all, prefix); len(got) != want.series || !slices.Contains(got, want.other) {
			t.Errorf("%s: %d series, want %d with %s", prefix, len(got), want.series, want.other)
		}
	}
}

func TestFairEventsAllocateNothing(t *testing.T) {
	h, _ := newHandler(t)
	d := ratelimit.Decision{Code: ratelimit.DecisionRPMLimit, Pool: "p"}
	for _, e := range []ratelimit.Event{
		{Kind: ratelimit.EventAdmitted, Model: "m", Class: "batch", Estimated: usage(1, 1)},
		{Kind: ratelimit.EventRefused, Model: "m", Class: "people", Decision: &d},
		{Kind: ratelimit.EventSettled, Model: "m", Class: "batch", Cost: 5, Settled: usage(1, 1)},
	} {
		for range 3 { // the tables are settled after some calls
			h.HandleEvent(context.Background(), &e)
		}
		if n := testing.AllocsPerRun(100, func() { h.HandleEvent(context.Background(), &e) }); n != 0 {
			t.Errorf("%s of %s: %v allocations", e.Kind, e.Class, n)
		}
	}
}
