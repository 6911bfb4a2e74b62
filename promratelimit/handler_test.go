package promratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/promratelimit"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

func TestHandler(t *testing.T) {
	rpm := &ratelimit.Decision{Code: ratelimit.DecisionRPMLimit}
	never := &ratelimit.Decision{Code: ratelimit.DecisionTPMLimit, Never: true}
	const of = "{model=m,provider=openai"
	for _, test := range []struct {
		name   string
		events []ratelimit.Event
		want   []string
	}{
		{"a call", []ratelimit.Event{
			admitted("m", usage(100, 50)), settled("m", usage(100, 50), usage(90, 30), 2*time.Second),
		}, []string{
			"ratelimit_requests_total{class=,code=ok,model=m,provider=openai,result=admitted} 1",
			"ratelimit_lease_duration_seconds" + of + "} 1/2",
			"ratelimit_estimate_ratio" + of + "} 1/0.8",
			"ratelimit_tokens_total{kind=reserved,model=m,provider=openai,token_type=input} 100",
			"ratelimit_tokens_total{kind=reserved,model=m,provider=openai,token_type=output} 50",
			"ratelimit_tokens_total{kind=settled,model=m,provider=openai,token_type=input} 90",
			"ratelimit_tokens_total{kind=settled,model=m,provider=openai,token_type=output} 30",
			"ratelimit_tokens_total{kind=returned,model=m,provider=openai,token_type=input} 10",
			"ratelimit_tokens_total{kind=returned,model=m,provider=openai,token_type=output} 20",
		}},
		{"waits", []ratelimit.Event{
			{Kind: ratelimit.EventQueued, Model: "m", Provider: "openai", Decision: rpm},
			{Kind: ratelimit.EventAdmitted, Model: "m", Provider: "openai", Decision: rpm, Wait: 3 * time.Second},
			{Kind: ratelimit.EventPassed, Model: "m", Provider: "openai", Decision: rpm, Wait: 4 * time.Second},
			{Kind: ratelimit.EventRefused, Model: "m", Provider: "openai", Decision: rpm, Wait: 5 * time.Second, Err: context.Canceled},
		}, []string{
			"ratelimit_requests_total{class=,code=rpm_exceeded,model=m,provider=openai,result=admitted} 1",
			"ratelimit_requests_total{class=,code=rpm_exceeded,model=m,provider=openai,result=canceled} 1",
			"ratelimit_request_time_in_queue_seconds{class=," + of[1:] + ",result=admitted} 1/3",
			"ratelimit_request_time_in_queue_seconds{class=," + of[1:] + ",result=passed} 1/4",
			"ratelimit_request_time_in_queue_seconds{class=," + of[1:] + ",result=canceled} 1/5",
		}},
		{"refusals", []ratelimit.Event{
			{Kind: ratelimit.EventRefused, Model: "m", Decision: rpm},
			{Kind: ratelimit.EventRefused, Model: "m", Decision: rpm},
			{Kind: ratelimit.EventRefused, Model: "m", Decision: never},
			{Kind: ratelimit.EventRefused, Model: "m", Decision: rpm, Err: ratelimit.ErrQueueFull},
		}, []string{
			"ratelimit_requests_total{class=,code=rpm_exceeded,model=m,provider=,result=refused} 2",
			"ratelimit_requests_total{class=,code=tpm_exceeded,model=m,provider=,result=never_fits} 1",
			"ratelimit_requests_total{class=,code=rpm_exceeded,model=m,provider=,result=queue_full} 1",
		}},
		{"refusals by the provider", []ratelimit.Event{
			{Kind: ratelimit.EventProviderRefused, Model: "m", Provider: "openai", Status: 429, Problem: "rate_limited"},
			{Kind: ratelimit.EventProviderRefused, Model: "m", Provider: "openai", Problem: "key sk-123"},
		}, []string{
			"ratelimit_provider_rejections_total{error_type=rate_limited,model=m,provider=openai,status=429} 1",
			"ratelimit_provider_rejections_total{error_type=_OTHER,model=m,provider=openai,status=} 1",
		}},
		{"usage without a reservation", []ratelimit.Event{
			{Kind: ratelimit.EventRecorded, Model: "m", Provider: "openai", Settled: usage(7, 0)},
		}, []string{"ratelimit_tokens_total{kind=settled,model=m,provider=openai,token_type=input} 7"}},
		{"saves", []ratelimit.Event{
			{Kind: ratelimit.EventSaved, System: "sqlite", Operation: "save", Took: 30 * time.Millisecond},
			{Kind: ratelimit.EventSaved, System: "sqlite", Operation: "save", Took: 40 * time.Millisecond, Err: errors.New("secret")},
		}, []string{"ratelimit_store_duration_seconds{operation=save,system=sqlite} 2/0.07"}},
		{"of no metric", []ratelimit.Event{
			{Kind: ratelimit.EventUnknownModel, Model: "m", Nearest: "n"}, {Kind: ratelimit.EventStoreDown}, {Kind: "later"},
		}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := promratelimit.NewHandler(promratelimit.HandlerOptions{})
			tell(h, test.events...)
			equal(t, lines(gather(t, h)), test.want...)
		})
	}
}

// A rate needs a zero to begin with.
func TestHandlerBeginsWithZeros(t *testing.T) {
	h := promratelimit.NewHandler(promratelimit.HandlerOptions{})
	tell(h, ratelimit.Event{Kind: ratelimit.EventRefused, Model: "m", Decision: &ratelimit.Decision{Code: ratelimit.DecisionRPMLimit}})
	zeros := make(map[string]bool)
	for _, f := range gather(t, h) {
		for _, m := range f.Metric {
			if m.Counter != nil && m.Counter.GetValue() == 0 {
				zeros[f.GetName()+labels(m)] = true
			}
		}
	}
	for _, want := range []string{
		"ratelimit_requests_total{class=,code=ok,model=m,provider=,result=admitted}",
		"ratelimit_provider_rejections_total{error_type=rate_limited,model=m,provider=,status=429}",
		"ratelimit_tokens_total{kind=returned,model=m,provider=,token_type=output}",
	} {
		if !zeros[want] {
			t.Errorf("no %s among the zeros %v", want, zeros)
		}
	}
}

// Histograms have classic buckets and native ones.
func TestHistograms(t *testing.T) {
	h := promratelimit.NewHandler(promratelimit.HandlerOptions{})
	tell(h, settled("m", usage(1, 0), usage(1, 0), 20*time.Second))
	for _, f := range gather(t, h) {
		if f.GetName() != "ratelimit_lease_duration_seconds" {
			continue
		}
		m := f.Metric[0].Histogram
		var bounds []float64
		for _, b := range m.Bucket {
			bounds = append(bounds, b.GetUpperBound())
			if want := b.GetUpperBound() >= 20; (b.GetCumulativeCount() == 1) != want {
				t.Errorf("bucket %v has %d", b.GetUpperBound(), b.GetCumulativeCount())
			}
		}
		if len(bounds) < 10 || bounds[0] != 0.005 || bounds[len(bounds)-1] != 600 {
			t.Errorf("buckets %v", bounds)
		}
		if len(m.PositiveSpan) != 1 || m.GetSchema() != 3 {
			t.Errorf("native: schema %d, spans %v", m.GetSchema(), m.PositiveSpan)
		}
		return
	}
	t.Error("no histogram")
}

type traceKey struct{}

func TestExemplars(t *testing.T) {
	options := promratelimit.HandlerOptions{Exemplar: func(ctx context.Context) prometheus.Labels {
		labels, _ := ctx.Value(traceKey{}).(prometheus.Labels)
		return labels
	}}
	for name, test := range map[string]struct {
		labels prometheus.Labels
		want   string
	}{
		"a trace":        {prometheus.Labels{"trace_id": "4bf9"}, "trace_id=4bf9"},
		"none":           {nil, ""},
		"empty":          {prometheus.Labels{}, ""},
		"too long":       {prometheus.Labels{"trace_id": strings.Repeat("x", 200)}, ""},
		"no UTF-8":       {prometheus.Labels{"trace_id": "\xff"}, ""},
		"without a name": {prometheus.Labels{"": "x"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := promratelimit.NewHandler(options)
			ctx := context.WithValue(t.Context(), traceKey{}, test.labels)
			d := ratelimit.Decision{Code: ratelimit.DecisionRPMLimit}
			h.HandleEvent(ctx, &ratelimit.Event{Kind: ratelimit.EventAdmitted, Model: "m", Wait: time.Second, Decision: &d})
			e := settled("m", usage(4, 0), usage(1, 0), time.Second)
			e.Provider = ""
			h.HandleEvent(ctx, &e)
			histograms := 0
			for _, f := range gather(t, h) {
				if f.GetType() == dto.MetricType_HISTOGRAM {
					histograms++
					if got := exemplar(f.Metric[0].Histogram); got != test.want {
						t.Errorf("%s has exemplar %q, want %q", f.GetName(), got, test.want)
					}
				}
			}
			if histograms != 3 {
				t.Errorf("%d histograms", histograms)
			}
		})
	}
}

func exemplar(h *dto.Histogram) string {
	for _, b := range h.Bucket {
		if b.Exemplar != nil {
			return b.Exemplar.Label[0].GetName() + "=" + b.Exemplar.Label[0].GetValue()
		}
	}
	return ""
}

func TestHandlerIsBounded(t *testing.T) {
	for _, test := range []struct {
		limit, own, other int
	}{{2, 2, 3}, {-1, 0, 5}, {0, 5, 0}} {
		h := promratelimit.NewHandler(promratelimit.HandlerOptions{MaxModels: test.limit})
		for i := range 5 {
			tell(h, ratelimit.Event{Kind: ratelimit.EventAdmitted, Model: fmt.Sprint("m", i)})
		}
		own, other := 0, 0
		for _, line := range lines(gather(t, h)) {
			if strings.Contains(line, "model=_other") {
				fmt.Sscan(line[strings.LastIndex(line, " "):], &other)
			} else {
				own++
			}
		}
		if own != test.own || other != test.other {
			t.Errorf("MaxModels %d: %d models, %d calls of others, want %d, %d", test.limit, own, other, test.own, test.other)
		}
	}
}

// Names are what callers send.
func TestNamesThatAreNotUTF8(t *testing.T) {
	h := promratelimit.NewHandler(promratelimit.HandlerOptions{})
	limiter := newLimiter(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{
		"a\xff": {MaxRPM: 1}, "a\xfe": {MaxRPM: 1}, `a\xff`: {MaxRPM: 1},
	}})
	for model := range limiter.Models() {
		tell(h, ratelimit.Event{Kind: ratelimit.EventAdmitted, Model: model})
	}
	families := gather(t, h, promratelimit.NewCollector(limiter, promratelimit.CollectorOptions{Handler: h}))
	var got []string
	for _, line := range lines(families) {
		if strings.HasPrefix(line, "ratelimit_quota_limit{") || strings.HasPrefix(line, "ratelimit_requests_total") {
			got = append(got, line)
		}
	}
	equal(t, got,
		`ratelimit_quota_limit{dimension=rpm,model=a\xfe,provider=,source=program} 1`,
		`ratelimit_quota_limit{dimension=rpm,model=a\xff,provider=,source=program} 1`,
		`ratelimit_requests_total{class=,code=ok,model=a\xfe,provider=,result=admitted} 1`,
		`ratelimit_requests_total{class=,code=ok,model=a\xff,provider=,result=admitted} 2`)
}

// A label that the metrics have themselves is an error of Register, and no panic of a call.
func TestConstLabelsThatAreTaken(t *testing.T) {
	h := promratelimit.NewHandler(promratelimit.HandlerOptions{ConstLabels: prometheus.Labels{"model": "x"}})
	if err := prometheus.NewRegistry().Register(h); err == nil {
		t.Error("no error")
	}
	tell(h, admitted("m", usage(1, 1)), ratelimit.Event{Kind: ratelimit.EventSaved, System: "yaml"})
}

func TestHandlerConcurrently(t *testing.T) {
	h := promratelimit.NewHandler(promratelimit.HandlerOptions{})
	const goroutines, calls = 4, 200
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for i := range calls {
				model := fmt.Sprint("m", i%3)
				tell(h, admitted(model, usage(1, 0)), settled(model, usage(1, 0), usage(1, 0), time.Second))
			}
		})
	}
	for range 5 {
		gather(t, h)
	}
	wg.Wait()
	sum := 0.0
	for _, f := range gather(t, h) {
		for _, m := range f.Metric {
			if f.GetName() == "ratelimit_requests_total" {
				sum += m.Counter.GetValue()
			}
		}
	}
	if sum != goroutines*calls {
		t.Errorf("%v calls are counted, want %d", sum, goroutines*calls)
	}
}

func TestHandlerAllocatesNothing(t *testing.T) {
	h := promratelimit.NewHandler(promratelimit.HandlerOptions{})
	d := ratelimit.Decision{Code: ratelimit.DecisionRPMLimit}
	events := []ratelimit.Event{
		admitted("m", usage(100, 50)), settled("m", usage(100, 50), usage(90, 30), time.Second),
		{Kind: ratelimit.EventQueued, Model: "m"},
		{Kind: ratelimit.EventAdmitted, Model: "m", Provider: "openai", Wait: time.Second, Decision: &d},
		{Kind: ratelimit.EventRefused, Model: "m", Provider: "openai", Decision: &d},
		{Kind: ratelimit.EventSaved, System: "sqlite", Operation: "save", Took: time.Second},
	}
	ctx := t.Context()
	for i := range events {
		e := &events[i]
		h.HandleEvent(ctx, e)
		h.HandleEvent(ctx, e) // the table of models is settled after some calls
		if n := testing.AllocsPerRun(100, func() { h.HandleEvent(ctx, e) }); n != 0 {
			t.Errorf("%s: %v allocations", e.Kind, n)
		}
	}
}
