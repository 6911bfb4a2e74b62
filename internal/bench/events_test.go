package bench

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"golang.org/x/time/rate"
)

// counter is the least that a handler does: it counts by kind.
type counter struct{ admitted, settled, other atomic.Int64 }

func (c *counter) HandleEvent(_ context.Context, e *ratelimit.Event) {
	switch e.Kind {
	case ratelimit.EventAdmitted:
		c.admitted.Add(1)
	case ratelimit.EventSettled:
		c.settled.Add(1)
	default:
		c.other.Add(1)
	}
}

// BenchmarkEvents measures calls of a limiter without a handler and of one with a handler that
// counts, in turns, and x/time's Allow beside them. A call is two events.
func BenchmarkEvents(b *testing.B) {
	ctx := context.Background()
	for name, call := range map[string]func(rl *ratelimit.RateLimiter){
		"Reserve+Commit": func(rl *ratelimit.RateLimiter) {
			r, _ := rl.Reserve(model, 90, 10)
			r.Commit(80, 5)
		},
		"Acquire+Commit": func(rl *ratelimit.RateLimiter) {
			r, _ := rl.Acquire(ctx, model, 90, 10)
			r.Commit(80, 5)
		},
	} {
		b.Run(name, func(b *testing.B) {
			var told counter
			limiter := func(h ratelimit.EventHandler) func() {
				rl, err := ratelimit.NewWithConfig(ratelimit.Config{
					FilePath: b.TempDir() + "/state", Events: h, Quotas: map[string]ratelimit.ModelQuota{model: unbounded},
				})
				if err != nil {
					b.Fatal(err)
				}
				b.Cleanup(func() { rl.Close() })
				return func() { call(rl) }
			}
			without, with := limiter(nil), limiter(&told)
			allow := rate.NewLimiter(rate.Limit(1e12), 1<<30)
			measureInTurns(b, []turns{
				{"allow-ns", func() { allow.Allow() }}, {"without-ns", without}, {"with-ns", with},
			}, func(ns []float64) {
				b.ReportMetric((ns[2]-ns[1])/2, "ns/event")
			})
			b.ReportMetric(testing.AllocsPerRun(1000, with)-testing.AllocsPerRun(1000, without), "allocs-more")
			if told.admitted.Load() != told.settled.Load() || told.admitted.Load() == 0 || told.other.Load() != 0 {
				b.Errorf("%d admitted, %d settled, %d other events", told.admitted.Load(), told.settled.Load(), told.other.Load())
			}
		})
	}
}

// turns is a function, and the unit in which its time is reported.
type turns struct {
	unit string
	do   func()
}

// measureInTurns runs functions in turns of a few thousand calls, reports the medians, and passes
// them on.
func measureInTurns(b *testing.B, all []turns, then func(ns []float64)) {
	const turn = 2000
	times := make([][]float64, len(all))
	b.ReportAllocs()
	for b.Loop() {
		for i, each := range all {
			start := time.Now()
			for range turn {
				each.do()
			}
			times[i] = append(times[i], float64(time.Since(start))/turn)
		}
	}
	medians := make([]float64, len(all))
	b.ReportMetric(0, "ns/op")
	for i, each := range all {
		slices.Sort(times[i])
		medians[i] = times[i][len(times[i])/2]
		b.ReportMetric(medians[i], each.unit)
	}
	then(medians)
}
