package otelratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/instruments"
	"dappco.re/go/core/go-ratelimit/money"
	"dappco.re/go/core/go-ratelimit/otelratelimit"
)

// fullMetrics returns metrics in which every instrument has a point.
func fullMetrics(t *testing.T) map[string]metricdata.Metrics {
	t.Helper()
	h, reader := newHandler(t)
	rl := newLimiter(t, ratelimit.Config{
		Providers: []ratelimit.Provider{ratelimit.ProviderGemini},
		Prices:    map[string]money.Price{"*": {Input: money.USD(1)}},
		Pools: map[string]ratelimit.Pool{"p": {
			Models: []string{"q"}, Quota: ratelimit.ModelQuota{MaxRPM: 9, AdaptiveFloorInFlight: 1, MaxSpendPerDay: money.USD(1)},
		}},
	})
	rl.Observe("q", ratelimit.ProviderLimits{RPM: ratelimit.ProviderLimit{Limit: 9, Remaining: 1, HasRemaining: true}})
	if _, err := h.Observe(rl); err != nil {
		t.Fatal(err)
	}
	const model = "gemini-2.5-pro"
	for _, l := range rl.Explain(model).Limits {
		if l.Limit == "max_rpm" {
			rl.Observe(model, ratelimit.ProviderLimits{RPM: ratelimit.ProviderLimit{Limit: l.Max, Remaining: 1, HasRemaining: true, Reset: time.Minute}})
		}
	}
	rl.CooldownFor(model, time.Minute, ratelimit.CauseRateLimited)
	rl.SetQuota("gemini-2.0-flash", ratelimit.ModelQuota{AdaptiveFloorInFlight: 1, MaxSpendPerDay: money.USD(1)})
	d := &ratelimit.Decision{Code: ratelimit.DecisionRPMLimit, Pool: "p"}
	tell(h,
		ratelimit.Event{Kind: ratelimit.EventAdmitted, Class: "c", Estimated: usage(9, 9), Wait: time.Second, Decision: d},
		ratelimit.Event{Kind: ratelimit.EventSettled, Class: "c", Estimated: usage(9, 9), Settled: usage(5, 5), Cost: 1},
		ratelimit.Event{Kind: ratelimit.EventProviderRefused, Status: 429, Problem: "rate_limited"},
		ratelimit.Event{Kind: ratelimit.EventSaved, System: "yaml", Operation: "save", Took: time.Millisecond})
	return collect(t, reader)
}

// Every instrument of the list is exported, as the list has it, and no other.
func TestInstruments(t *testing.T) {
	all := fullMetrics(t)
	if len(all) != len(instruments.List) {
		t.Errorf("%d metrics, want %d", len(all), len(instruments.List))
	}
	for _, want := range instruments.List {
		m, ok := all[want.Name]
		if !ok {
			t.Errorf("%s is missing", want.Name)
			continue
		}
		if m.Unit != want.Unit || m.Description != want.Description {
			t.Errorf("%s has the unit %q and the description %q", m.Name, m.Unit, m.Description)
		}
		kind, boundaries, sets := shapeOf(t, m)
		if kind != fmt.Sprint(want.Kind, want.Integer) || !slices.Equal(boundaries, want.Boundaries) {
			t.Errorf("%s has the kind %s and the boundaries %v, want %v %v and %v", m.Name, kind, boundaries, want.Kind, want.Integer, want.Boundaries)
		}
		allowed := []string{}
		for _, a := range want.Attributes {
			allowed = append(allowed, a.Name)
		}
		if want.PerModel {
			allowed = append(allowed, instruments.Model.Name, instruments.Provider.Name)
		}
		slices.Sort(allowed)
		for _, set := range sets {
			var keys []string
			for _, a := range set.ToSlice() {
				keys = append(keys, string(a.Key))
			}
			classless := slices.DeleteFunc(slices.Clone(allowed), func(key string) bool { return key == instruments.Class.Name })
			if !slices.Equal(keys, allowed) && !slices.Equal(keys, classless) {
				t.Errorf("%s has the attributes %q, want %q", m.Name, keys, allowed)
			}
		}
	}
}

// shapeOf returns the kind of a metric as the list has it, the boundaries and the attributes.
func shapeOf(t *testing.T, m metricdata.Metrics) (kind string, boundaries []float64, sets []attribute.Set) {
	t.Helper()
	switch data := m.Data.(type) {
	case metricdata.Sum[int64]:
		if kind = fmt.Sprint(instruments.UpDownCounter, true); data.IsMonotonic {
			kind = fmt.Sprint(instruments.Counter, true)
		}
		for _, p := range data.DataPoints {
			sets = append(sets, p.Attributes)
		}
	case metricdata.Sum[float64]:
		if kind = fmt.Sprint(instruments.UpDownCounter, false); data.IsMonotonic {
			kind = fmt.Sprint(instruments.Counter, false)
		}
		for _, p := range data.DataPoints {
			sets = append(sets, p.Attributes)
		}
	case metricdata.Gauge[int64]:
		kind = fmt.Sprint(instruments.Gauge, true)
		for _, p := range data.DataPoints {
			sets = append(sets, p.Attributes)
		}
	case metricdata.Gauge[float64]:
		kind = fmt.Sprint(instruments.Gauge, false)
		for _, p := range data.DataPoints {
			sets = append(sets, p.Attributes)
		}
	case metricdata.Histogram[float64]:
		kind = fmt.Sprint(instruments.Histogram, false)
		for _, p := range data.DataPoints {
			boundaries, sets = p.Bounds, append(sets, p.Attributes)
		}
	default:
		t.Errorf("%s: unknown data %T", m.Name, data)
	}
	return kind, boundaries, sets
}

// What is observed is what Explain says at the collection, and ends with Unregister.
func TestObserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, reader := newHandler(t)
		rl := newLimiter(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"a": {MaxRPM: 4, MaxInFlight: 1}}})
		registration, err := h.Observe(rl)
		if err != nil {
			t.Fatal(err)
		}
		reservation, err := rl.Acquire(t.Context(), "a", 100, 50)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		refused := make(chan error)
		go func() {
			_, err := rl.Acquire(ctx, "a", 1, 1)
			refused <- err
		}()
		synctest.Wait()
		const a = "{gen_ai.request.model=a} "
		quota := func(dimension string) string {
			return "{gen_ai.request.model=a,ratelimit.dimension=" + dimension + ",ratelimit.source=program} "
		}
		equalLines(t, lines(collect(t, reader), "ratelimit."),
			"ratelimit.queued_requests"+a+"1", "ratelimit.active_leases"+a+"1",
			"ratelimit.quota.limit"+quota("rpm")+"4", "ratelimit.quota.used"+quota("rpm")+"1",
			"ratelimit.quota.utilization"+quota("rpm")+"0.25",
			"ratelimit.quota.limit"+quota("in_flight")+"1", "ratelimit.quota.used"+quota("in_flight")+"1",
			"ratelimit.quota.utilization"+quota("in_flight")+"1",
			"ratelimit.store.degraded{} 0",
		)
		cancel()
		if err := <-refused; !errors.Is(err, context.Canceled) {
			t.Errorf("the call in line got %v", err)
		}
		reservation.Cancel()
		rl.CooldownFor("a", 90*time.Second, ratelimit.CauseOverloaded)
		time.Sleep(30 * time.Second)
		got := lines(collect(t, reader), "ratelimit.")
		for _, want := range []string{
			"ratelimit.queued_requests" + a + "0", "ratelimit.active_leases" + a + "0",
			"ratelimit.provider.pause{gen_ai.request.model=a,ratelimit.cause=overloaded} 60",
		} {
			if !slices.Contains(got, want) {
				t.Errorf("%q is not in\n%s", want, strings.Join(got, "\n"))
			}
		}
		for range 2 {
			if err := registration.Unregister(); err != nil {
				t.Error(err)
			}
		}
		equalLines(t, lines(collect(t, reader), "ratelimit."))
	})
}

// Limits that are found have a dimension, and no source.
func TestObserveFound(t *testing.T) {
	h, reader := newHandler(t)
	rl := newLimiter(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{
		"a": {AdaptiveFloorRPM: 30, AdaptiveFloorInFlight: 2, MaxInFlight: 9}, "b": {MaxRPM: 4},
	}})
	if _, err := h.Observe(rl); err != nil {
		t.Fatal(err)
	}
	found := func(rpm, inFlight string) {
		t.Helper()
		equalLines(t, lines(collect(t, reader), "ratelimit.quota.found"),
			"ratelimit.quota.found{gen_ai.request.model=a,ratelimit.dimension=rpm} "+rpm,
			"ratelimit.quota.found{gen_ai.request.model=a,ratelimit.dimension=in_flight} "+inFlight,
		)
	}
	found("60", "4")
	for _, problem := range []string{"rate_limited", "overloaded"} {
		rl.ObserveRefusal(t.Context(), ratelimit.ProviderRefusal{Model: "a", Problem: problem})
	}
	found("57", "3")
}

// A handler observes one limiter at a time, and another after it.
func TestObserveTwice(t *testing.T) {
	h, reader := newHandler(t)
	first := newLimiter(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"a": {MaxRPM: 4}}})
	second := newLimiter(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"b": {MaxRPM: 4}}})
	if _, err := h.Observe(nil); err == nil || err.Error() != "observe: no limiter" {
		t.Errorf("no limiter: %v", err)
	}
	registration, err := h.Observe(first)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Observe(second); !errors.Is(err, otelratelimit.ErrObserving) {
		t.Errorf("a second limiter: %v", err)
	}
	if err := registration.Unregister(); err != nil {
		t.Error(err)
	}
	later, err := h.Observe(second)
	if err != nil {
		t.Fatal(err)
	}
	if err := registration.Unregister(); err != nil { // which ends the other one's no more
		t.Error(err)
	}
	equalLines(t, lines(collect(t, reader), "ratelimit.active"), "ratelimit.active_leases{gen_ai.request.model=b} 0")
	for range 2 {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := later.Unregister(); err != nil {
		t.Error(err)
	}
	if _, err := h.Observe(first); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("after Close: %v", err)
	}
	tell(h, ratelimit.Event{Kind: ratelimit.EventRecorded, Settled: usage(1, 1)})
	equalLines(t, lines(collect(t, reader), "ratelimit."))
}

// A handler for each limiter tells them apart by attributes, and a closed limiter can be collected.
func TestObserveSeveral(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	for _, name := range []string{"x", "y"} {
		h, _ := newHandler(t, otelratelimit.WithMeterProvider(meters), otelratelimit.WithAttributes(attribute.String("limiter", name)))
		rl := newLimiter(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"a": {MaxRPM: 4}}})
		if _, err := h.Observe(rl); err != nil {
			t.Fatal(err)
		}
		if name == "y" {
			if err := rl.Close(); err != nil {
				t.Fatal(err)
			}
		}
		tell(h, ratelimit.Event{Kind: ratelimit.EventAdmitted, Model: "a", Estimated: usage(1, 0)})
	}
	all := collect(t, reader)
	equalLines(t, lines(all, "ratelimit.queued"),
		"ratelimit.queued_requests{gen_ai.request.model=a,limiter=x} 0", "ratelimit.queued_requests{gen_ai.request.model=a,limiter=y} 0")
	equalLines(t, lines(all, "ratelimit.tokens"),
		"ratelimit.tokens{gen_ai.request.model=a,gen_ai.token.type=input,limiter=x,ratelimit.kind=reserved} 1",
		"ratelimit.tokens{gen_ai.request.model=a,gen_ai.token.type=input,limiter=y,ratelimit.kind=reserved} 1")
}
