package otelratelimit_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/codes"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/otelratelimit"
)

// A limiter tells its handler of calls that are admitted at once, after a wait, or never, and of
// their ends.
func TestLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracers, spans := newTracers(t)
		h, reader := newHandler(t, otelratelimit.WithTracerProvider(tracers))
		rl := newLimiter(t, ratelimit.Config{Events: h, Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 2, MaxTPM: 1000}}})
		if _, err := h.Observe(rl); err != nil {
			t.Fatal(err)
		}
		ctx, call := tracers.Tracer("test").Start(t.Context(), "agent")
		settle := func(r *ratelimit.Reservation, err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			r.Commit(80, 10)
		}
		settle(rl.Acquire(ctx, "m", 100, 20))
		settle(rl.Acquire(ctx, "m", 100, 20))
		settle(rl.Acquire(ctx, "m", 100, 20)) // the minute is used up
		hurried, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		if _, err := rl.Acquire(hurried, "m", 2000, 0); err == nil {
			t.Error("a request larger than the quota was admitted")
		}
		call.End()

		const m = "{gen_ai.request.model=m"
		all := collect(t, reader)
		equalLines(t, lines(all, "ratelimit.requests"),
			"ratelimit.requests"+m+",ratelimit.code=ok,ratelimit.result=admitted} 2",
			"ratelimit.requests"+m+",ratelimit.code=rpm_exceeded,ratelimit.result=admitted} 1",
			"ratelimit.requests"+m+",ratelimit.code=tpm_exceeded,ratelimit.result=never_fits} 1",
		)
		equalLines(t, lines(all, "ratelimit.request.time"), "ratelimit.request.time_in_queue"+m+",ratelimit.result=admitted} 1: 58.000000001")
		equalLines(t, lines(all, "ratelimit.lease"), "ratelimit.lease.duration"+m+"} 3: 3")
		equalLines(t, lines(all, "ratelimit.estimate"), "ratelimit.estimate.ratio"+m+"} 3: 2.25")
		equalLines(t, lines(all, "ratelimit.tokens"),
			"ratelimit.tokens"+m+",gen_ai.token.type=input,ratelimit.kind=reserved} 300",
			"ratelimit.tokens"+m+",gen_ai.token.type=output,ratelimit.kind=reserved} 60",
			"ratelimit.tokens"+m+",gen_ai.token.type=input,ratelimit.kind=settled} 240",
			"ratelimit.tokens"+m+",gen_ai.token.type=output,ratelimit.kind=settled} 30",
			"ratelimit.tokens"+m+",gen_ai.token.type=input,ratelimit.kind=returned} 60",
			"ratelimit.tokens"+m+",gen_ai.token.type=output,ratelimit.kind=returned} 30",
		)
		equalLines(t, lines(all, "ratelimit.active"), "ratelimit.active_leases"+m+"} 0")

		waits := spans.GetSpans()
		if len(waits) != 2 || waits[0].Name != "ratelimit.wait" || waits[0].Status.Code != codes.Unset ||
			waits[0].Parent.SpanID() != call.SpanContext().SpanID() || waits[0].EndTime.Sub(waits[0].StartTime) != 58*time.Second+1 {
			t.Errorf("spans: %+v", waits)
		}
	})
}

// The open reservations of a moment are the admissions less the ends, at the same collection.
func TestCountsMatchGauges(t *testing.T) {
	h, reader := newHandler(t)
	rl := newLimiter(t, ratelimit.Config{Events: h, Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 100}}})
	if _, err := h.Observe(rl); err != nil {
		t.Fatal(err)
	}
	var open []*ratelimit.Reservation
	for range 7 {
		r, err := rl.Acquire(t.Context(), "m", 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, r)
	}
	open[0].Commit(1, 1)
	open[1].Cancel()
	all := collect(t, reader)
	equalLines(t, lines(all, "ratelimit.active"), "ratelimit.active_leases{gen_ai.request.model=m} 5")
	equalLines(t, lines(all, "ratelimit.requests"), "ratelimit.requests{gen_ai.request.model=m,ratelimit.code=ok,ratelimit.result=admitted} 7")
	for _, r := range open[2:] {
		r.Cancel()
	}
}
