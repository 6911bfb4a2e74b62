package otelratelimit_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/otelratelimit"
)

func newTracers(t *testing.T, opts ...sdktrace.TracerProviderOption) (*sdktrace.TracerProvider, *tracetest.InMemoryExporter) {
	t.Helper()
	spans := tracetest.NewInMemoryExporter()
	tracers := sdktrace.NewTracerProvider(append(opts, sdktrace.WithSyncer(spans))...)
	t.Cleanup(func() {
		if err := tracers.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return tracers, spans
}

func TestWaitSpan(t *testing.T) {
	denied := &ratelimit.Decision{
		Code: ratelimit.DecisionCooldown, Reason: "in a cooldown", RetryAfter: 1500 * time.Millisecond, Cause: ratelimit.CauseOverloaded,
	}
	model := []attribute.KeyValue{
		attribute.String("service", "s"), attribute.String("gen_ai.request.model", "m"), attribute.String("gen_ai.provider.name", "gcp.gemini"),
		attribute.Int("ratelimit.estimated.input_tokens", 100), attribute.Int("ratelimit.estimated.output_tokens", 20),
	}
	decision := []attribute.KeyValue{
		attribute.String("ratelimit.code", "cooldown"), attribute.String("ratelimit.reason", "in a cooldown"),
		attribute.String("ratelimit.cause", "overloaded"), attribute.Float64("ratelimit.retry_after", 1.5),
	}
	for name, test := range map[string]struct {
		event  ratelimit.Event
		result string
		status sdktrace.Status
		error  bool
	}{
		"admitted": {ratelimit.Event{Kind: ratelimit.EventAdmitted}, "admitted", sdktrace.Status{}, false},
		"passed":   {ratelimit.Event{Kind: ratelimit.EventPassed}, "passed", sdktrace.Status{}, false},
		"refused": {
			ratelimit.Event{Kind: ratelimit.EventRefused, Err: &ratelimit.LimitError{Decision: *denied}}, "refused",
			sdktrace.Status{Code: codes.Error, Description: "in a cooldown"}, true,
		},
		"canceled": {
			ratelimit.Event{Kind: ratelimit.EventRefused, Err: context.Canceled}, "canceled",
			sdktrace.Status{Code: codes.Error, Description: "in a cooldown"}, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tracers, spans := newTracers(t)
				h, _ := newHandler(t, otelratelimit.WithTracerProvider(tracers), otelratelimit.WithAttributes(attribute.String("service", "s")))
				ctx, call := tracers.Tracer("test").Start(context.Background(), "call")
				e := test.event
				e.Model, e.Provider, e.Estimated, e.Wait, e.Decision = "m", ratelimit.ProviderGemini, usage(100, 20), 3*time.Second, denied
				h.HandleEvent(ctx, &e)
				call.End()
				got := spans.GetSpans()
				if len(got) != 2 || got[0].Name != "ratelimit.wait" {
					t.Fatalf("spans: %+v", got)
				}
				s, want := got[0], append(append([]attribute.KeyValue{attribute.String("ratelimit.result", test.result)}, model...), decision...)
				if test.error {
					want = append(want, attribute.String("error.type", test.result))
				}
				if has, want := attribute.NewSet(s.Attributes...), attribute.NewSet(want...); !has.Equals(&want) {
					t.Errorf("attributes %v, want %v", has.ToSlice(), want.ToSlice())
				}
				if !s.EndTime.Equal(time.Now()) || s.EndTime.Sub(s.StartTime) != 3*time.Second {
					t.Errorf("from %v to %v", s.StartTime, s.EndTime)
				}
				if s.Parent.SpanID() != call.SpanContext().SpanID() || len(s.Links) != 1 || s.Links[0].SpanContext.SpanID() != call.SpanContext().SpanID() {
					t.Errorf("parent %v, links %v", s.Parent, s.Links)
				}
				if s.Status != test.status {
					t.Errorf("status %+v, want %+v", s.Status, test.status)
				}
			})
		})
	}
}

// Calls that did not wait, and events of no call, have no span.
func TestNoSpan(t *testing.T) {
	tracers, spans := newTracers(t)
	h, _ := newHandler(t, otelratelimit.WithTracerProvider(tracers))
	denied := &ratelimit.Decision{Code: ratelimit.DecisionRPMLimit}
	tell(h,
		ratelimit.Event{Kind: ratelimit.EventQueued, Decision: denied},
		ratelimit.Event{Kind: ratelimit.EventAdmitted},
		ratelimit.Event{Kind: ratelimit.EventRefused, Decision: denied},
		ratelimit.Event{Kind: ratelimit.EventSettled, Held: time.Second},
		ratelimit.Event{Kind: ratelimit.EventSaved, System: "yaml", Took: time.Second},
	)
	if got := spans.GetSpans(); len(got) != 0 {
		t.Errorf("spans: %+v", got)
	}
	tell(h, ratelimit.Event{Kind: ratelimit.EventRefused, Wait: 1, Err: errors.New("sk-secret")}) // without a decision or a span
	got := spans.GetSpans()
	if len(got) != 1 || got[0].Links != nil || got[0].Status != (sdktrace.Status{Code: codes.Error, Description: "refused"}) {
		t.Fatalf("spans: %+v", got)
	}
	for _, a := range got[0].Attributes {
		if strings.Contains(a.Value.String(), "sk-") {
			t.Errorf("a secret in %v", a)
		}
	}
}

// Measurements are made with the context of the event, so they are exemplars of its span.
func TestExemplars(t *testing.T) {
	tracers, _ := newTracers(t)
	h, reader := newHandler(t, otelratelimit.WithTracerProvider(tracers))
	ctx, span := tracers.Tracer("test").Start(context.Background(), "call")
	defer span.End()
	for _, e := range []ratelimit.Event{
		{Kind: ratelimit.EventAdmitted, Model: "m", Wait: time.Second, Decision: &ratelimit.Decision{}},
		{Kind: ratelimit.EventSettled, Model: "m", Held: time.Second, Estimated: usage(1, 1), Settled: usage(1, 1)},
	} {
		h.HandleEvent(ctx, &e)
	}
	want := span.SpanContext().SpanID()
	all := collect(t, reader)
	for _, name := range []string{"ratelimit.request.time_in_queue", "ratelimit.lease.duration", "ratelimit.estimate.ratio"} {
		exemplars := all[name].Data.(metricdata.Histogram[float64]).DataPoints[0].Exemplars
		if len(exemplars) != 1 || string(exemplars[0].SpanID) != string(want[:]) {
			t.Errorf("%s has the exemplars %v", name, exemplars)
		}
	}
	exemplars := all["ratelimit.requests"].Data.(metricdata.Sum[int64]).DataPoints[0].Exemplars
	if len(exemplars) != 1 || string(exemplars[0].SpanID) != string(want[:]) {
		t.Errorf("ratelimit.requests has the exemplars %v", exemplars)
	}
}
