package keyed_test

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/keyed"
	"dappco.re/go/core/go-ratelimit/keyed/keyedtest"
)

// With an Origin, once its counts are read: what is charged is replayed meanwhile.
func BenchmarkTakeWithOrigin(b *testing.B) {
	origin := keyedtest.NewOrigin()
	origin.Set(keyedtest.Faults{Delay: 5 * time.Millisecond})
	for _, keys := range []int{1, 100_000} {
		b.Run(fmt.Sprint(keys, " keys"), func(b *testing.B) {
			l, err := keyed.New(keyed.Options{Origin: origin})
			if err != nil {
				b.Fatal(err)
			}
			ctx, now := context.Background(), time.Now()
			requests := make([]keyed.Request, keys)
			for i := range requests {
				requests[i] = keyed.Request{
					Namespace: "requests", Key: fmt.Sprint("tenant ", i), Limit: min(1<<40, math.MaxInt), Window: time.Hour, Cost: 1,
				}
			}
			for chunk := range 100 { // few reads
				if _, err := l.TakeAllAt(ctx, now, requests[chunk*keys/100:(chunk+1)*keys/100]...); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				if d, err := l.TakeAt(ctx, now, requests[i%keys]); err != nil || !d.OK {
					b.Fatal(d, err)
				}
			}
			b.StopTimer()
			if err := l.Close(ctx); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// The memory of a counter with an Origin, once all is acknowledged.
func BenchmarkMemoryWithOrigin(b *testing.B) {
	const keys = 100_000
	for range b.N {
		origin := keyedtest.NewOrigin()
		l, err := keyed.New(keyed.Options{Origin: origin})
		if err != nil {
			b.Fatal(err)
		}
		ctx, now := context.Background(), time.Now()
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for i := range keys {
			r := keyed.Request{Namespace: "requests", Key: fmt.Sprint("tenant ", i), Limit: 10, Window: time.Hour, Cost: 1}
			if _, err := l.TakeAt(ctx, now, r); err != nil {
				b.Fatal(err)
			}
		}
		if err := l.Close(ctx); err != nil {
			b.Fatal(err)
		}
		origin.Flush()
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/keys, "B/key")
		runtime.KeepAlive(l)
	}
}
