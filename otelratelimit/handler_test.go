package otelratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/otelratelimit"
)

// tell hands events to a handler, each as the limiter does: as the same Event.
func tell(h ratelimit.EventHandler, events ...ratelimit.Event) {
	var e ratelimit.Event
	for _, e = range events {
		if e.Model == "" && e.System == "" {
			e.Model, e.Provider = "m", ratelimit.ProviderGemini
		}
		h.HandleEvent(context.Background(), &e)
	}
}

// The events of calls become these metrics, and nothing else does.
func TestEvents(t *testing.T) {
	h, reader := newHandler(t)
	tpm := &ratelimit.Decision{Code: ratelimit.DecisionTPMLimit}
	never := &ratelimit.Decision{Code: ratelimit.DecisionTPMLimit, Never: true}
	tell(h,
		ratelimit.Event{Kind: ratelimit.EventQueued, Decision: tpm},
		ratelimit.Event{Kind: ratelimit.EventAdmitted, Estimated: usage(100, 20)},
		ratelimit.Event{Kind: ratelimit.EventAdmitted, Estimated: usage(10, 2)},
		ratelimit.Event{Kind: ratelimit.EventAdmitted, Estimated: usage(1, 0), Wait: 3 * time.Second, Decision: tpm},
		ratelimit.Event{Kind: ratelimit.EventPassed, Wait: time.Second, Decision: tpm},
		ratelimit.Event{Kind: ratelimit.EventRefused, Decision: never},
		ratelimit.Event{Kind: ratelimit.EventRefused, Decision: tpm, Err: context.Canceled, Wait: 2 * time.Second},
		ratelimit.Event{Kind: ratelimit.EventSettled, Estimated: usage(100, 20), Settled: usage(90, 30), Held: time.Second},
		ratelimit.Event{Kind: ratelimit.EventReleased, Estimated: usage(10, 2), Held: 500 * time.Millisecond},
		ratelimit.Event{Kind: ratelimit.EventExpired, Estimated: usage(1, 0), Settled: usage(1, 0), Held: time.Hour},
		ratelimit.Event{Kind: ratelimit.EventRecorded, Settled: usage(0, 7)},
		ratelimit.Event{Kind: ratelimit.EventProviderRefused, Status: 429, Problem: "rate_limited"},
		ratelimit.Event{Kind: ratelimit.EventProviderRefused, Problem: "of a later version"},
		ratelimit.Event{Kind: ratelimit.EventSaved, System: "sqlite", Operation: "step", Took: 2 * time.Millisecond},
		ratelimit.Event{Kind: ratelimit.EventCooldownBegan, Cause: ratelimit.CauseCaller},
		ratelimit.Event{Kind: ratelimit.EventUnknownModel, Nearest: "n"},
	)
	const m = "gen_ai.provider.name=gcp.gemini,gen_ai.request.model=m"
	equalLines(t, lines(collect(t, reader), ""),
		"ratelimit.requests{"+m+",ratelimit.code=ok,ratelimit.result=admitted} 2",
		"ratelimit.requests{"+m+",ratelimit.code=tpm_exceeded,ratelimit.result=admitted} 1",
		"ratelimit.requests{"+m+",ratelimit.code=tpm_exceeded,ratelimit.result=canceled} 1",
		"ratelimit.requests{"+m+",ratelimit.code=tpm_exceeded,ratelimit.result=never_fits} 1",
		"ratelimit.request.time_in_queue{"+m+",ratelimit.result=admitted} 1: 3",
		"ratelimit.request.time_in_queue{"+m+",ratelimit.result=passed} 1: 1",
		"ratelimit.request.time_in_queue{"+m+",ratelimit.result=canceled} 1: 2",
		"ratelimit.lease.duration{"+m+"} 3: 3601.5",
		"ratelimit.estimate.ratio{"+m+"} 1: 1",
		"ratelimit.tokens{"+m+",gen_ai.token.type=input,ratelimit.kind=reserved} 111",
		"ratelimit.tokens{"+m+",gen_ai.token.type=output,ratelimit.kind=reserved} 22",
		"ratelimit.tokens{"+m+",gen_ai.token.type=input,ratelimit.kind=settled} 91",
		"ratelimit.tokens{"+m+",gen_ai.token.type=output,ratelimit.kind=settled} 37",
		"ratelimit.tokens{"+m+",gen_ai.token.type=input,ratelimit.kind=returned} 20",
		"ratelimit.tokens{"+m+",gen_ai.token.type=output,ratelimit.kind=returned} 2",
		"ratelimit.provider.rejections{error.type=rate_limited,"+m+",http.response.status_code=429} 1",
		"ratelimit.provider.rejections{error.type=_OTHER,"+m+"} 1",
		"ratelimit.store.duration{db.system.name=sqlite,ratelimit.operation=step} 1: 0.002",
	)
}

// Models without room are counted together, and no model twice.
func TestMaxModels(t *testing.T) {
	for limit, want := range map[int][]string{
		2:  {"{gen_ai.request.model=_other,ratelimit.code=ok,ratelimit.result=admitted} 6", "{gen_ai.request.model=m0,ratelimit.code=ok,ratelimit.result=admitted} 2", "{gen_ai.request.model=m1,ratelimit.code=ok,ratelimit.result=admitted} 2"},
		-1: {"{gen_ai.request.model=_other,ratelimit.code=ok,ratelimit.result=admitted} 10"},
	} {
		h, reader := newHandler(t, otelratelimit.WithMaxModels(limit))
		for range 2 {
			for i := range 5 {
				tell(h, ratelimit.Event{Kind: ratelimit.EventAdmitted, Model: fmt.Sprint("m", i)})
			}
		}
		for i := range want {
			want[i] = "ratelimit.requests" + want[i]
		}
		equalLines(t, lines(collect(t, reader), ""), want...)
	}
	reader := sdkmetric.NewManualReader()
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader), sdkmetric.WithCardinalityLimit(0))
	h, _ := newHandler(t, otelratelimit.WithMeterProvider(meters), otelratelimit.WithMaxModels(0))
	for i := range 1003 {
		tell(h, ratelimit.Event{Kind: ratelimit.EventAdmitted, Model: fmt.Sprint("m", i)})
	}
	got := lines(collect(t, reader), "ratelimit.requests")
	const other = "ratelimit.requests{gen_ai.request.model=_other,ratelimit.code=ok,ratelimit.result=admitted} 3"
	if len(got) != 1001 || !slices.Contains(got, other) {
		t.Errorf("%d models, want 1,000 and three others", len(got))
	}
}

func TestAttributes(t *testing.T) {
	h, reader := newHandler(t, otelratelimit.WithAttributes(
		attribute.String("limiter", "a"), attribute.String("gen_ai.request.model", "replaced"), attribute.String("limiter", "b"),
	))
	tell(h, ratelimit.Event{Kind: ratelimit.EventAdmitted, Model: "m"},
		ratelimit.Event{Kind: ratelimit.EventSaved, System: "yaml", Operation: "save", Took: time.Second})
	equalLines(t, lines(collect(t, reader), ""),
		"ratelimit.requests{gen_ai.request.model=m,limiter=b,ratelimit.code=ok,ratelimit.result=admitted} 1",
		"ratelimit.store.duration{db.system.name=yaml,gen_ai.request.model=replaced,limiter=b,ratelimit.operation=save} 1: 1",
	)
}

// The texts of a program's errors are in no attribute.
func TestNoSecrets(t *testing.T) {
	h, reader := newHandler(t, otelratelimit.WithGenAIMetrics(""))
	secret := errors.New("sk-secret")
	for _, kind := range []ratelimit.EventKind{
		ratelimit.EventAdmitted, ratelimit.EventRefused, ratelimit.EventSettled, ratelimit.EventReleased, ratelimit.EventRecorded,
		ratelimit.EventProviderRefused, ratelimit.EventSaved, ratelimit.EventStoreDown,
	} {
		tell(h, ratelimit.Event{
			Kind: kind, Err: secret, Problem: "sk-secret", Nearest: "sk-secret", By: "sk-secret", Requested: "sk-secret",
			Decision: &ratelimit.Decision{Code: ratelimit.DecisionRPMLimit, Reason: "sk-secret"}, Settled: usage(1, 1),
		})
	}
	for _, line := range lines(collect(t, reader), "") {
		if strings.Contains(line, "sk-") {
			t.Error(line)
		}
	}
}

// Sums that pass the largest number stay there.
func TestTokensSaturate(t *testing.T) {
	h, reader := newHandler(t)
	want := uint64(0)
	for range 3 {
		tell(h, ratelimit.Event{Kind: ratelimit.EventRecorded, Model: "m", Settled: usage(math.MaxInt, -5)})
		want = min(want+math.MaxInt, math.MaxInt64)
	}
	equalLines(t, lines(collect(t, reader), ""),
		fmt.Sprint("ratelimit.tokens{gen_ai.request.model=m,gen_ai.token.type=input,ratelimit.kind=settled} ", want))
}

func TestConcurrentEvents(t *testing.T) {
	h, reader := newHandler(t, otelratelimit.WithMaxModels(3), otelratelimit.WithGenAIMetrics("chat"))
	rl := newLimiter(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m0": {MaxRPM: 5}}})
	registration, err := h.Observe(rl)
	if err != nil {
		t.Fatal(err)
	}
	const goroutines, calls = 8, 200
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for i := range calls {
				model := fmt.Sprint("m", (g+i)%6)
				tell(h,
					ratelimit.Event{Kind: ratelimit.EventAdmitted, Model: model, Estimated: usage(2, 1)},
					ratelimit.Event{Kind: ratelimit.EventSettled, Model: model, Estimated: usage(2, 1), Settled: usage(1, 1), Held: 1})
				if i%50 == 0 {
					collect(t, reader)
				}
			}
		})
	}
	wg.Wait()
	if err := registration.Unregister(); err != nil {
		t.Error(err)
	}
	requests, tokens := 0, 0
	for _, line := range lines(collect(t, reader), "ratelimit.") {
		var n int
		if _, err := fmt.Sscan(line[strings.LastIndex(line, " "):], &n); err != nil {
			t.Fatal(err)
		}
		switch {
		case strings.HasPrefix(line, "ratelimit.requests"):
			requests += n
		case strings.HasPrefix(line, "ratelimit.tokens"):
			tokens += n
		}
	}
	const all = goroutines * calls // each with 3 tokens reserved, 2 settled and 1 returned
	if requests != all || tokens != all*(3+2+1) {
		t.Errorf("%d requests and %d tokens, want %d and %d", requests, tokens, all, all*(3+2+1))
	}
}

func TestAllocatesNothing(t *testing.T) {
	h, _ := newHandler(t)
	admitted := ratelimit.Event{Kind: ratelimit.EventAdmitted, Model: "m", Estimated: usage(100, 20)}
	settled := ratelimit.Event{Kind: ratelimit.EventSettled, Model: "m", Estimated: usage(100, 20), Settled: usage(90, 10), Held: time.Second}
	ctx := context.Background()
	call := func() {
		h.HandleEvent(ctx, &admitted)
		h.HandleEvent(ctx, &settled)
	}
	for range 10 {
		call()
	}
	if n := testing.AllocsPerRun(100, call); n != 0 {
		t.Errorf("%v allocations a call", n)
	}
}
