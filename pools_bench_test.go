// What pools cost a call.

package ratelimit_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// BenchmarkPools reserves and commits calls of a model in k pools, in turns with a model in none,
// and reports how many times as long that takes. Each pool may add 0.6.
func BenchmarkPools(b *testing.B) {
	for _, k := range []int{1, 2, 4} {
		b.Run(fmt.Sprint(k), func(b *testing.B) {
			none, pooled := poolsTurn(b, 0), poolsTurn(b, k)
			var without, with []float64
			for b.Loop() {
				without, with = append(without, none()), append(with, pooled())
			}
			slices.Sort(without)
			slices.Sort(with)
			half := len(with) / 2
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(without[half], "none-ns")
			b.ReportMetric(with[half], "ns-call")
			b.ReportMetric(with[half]/without[half], "x-none")
			b.ReportMetric(with[0]/without[0], "x-least")
		})
	}
}

// poolsTurn returns a function that makes calls of a model in k pools, and returns the nanoseconds
// of each.
func poolsTurn(b *testing.B, k int) func() float64 {
	quota := ratelimit.ModelQuota{MaxRPM: 1 << 30, MaxTPM: 1 << 30, MaxRPD: 1 << 30}
	pools := make(map[string]ratelimit.Pool)
	for i := range k {
		pools[fmt.Sprint("pool ", i)] = ratelimit.Pool{Models: []string{"m", "n*"}, Quota: quota}
	}
	rl := newLimiterWith(b, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": quota}, Pools: pools})
	return func() float64 {
		const before, turn = 600, 400 // which a power of two has room for: a long minute does not grow
		call := func() {
			r, d := rl.Reserve("m", 100, 50)
			if !d.Allowed {
				b.Fatal(d)
			}
			r.Commit(100, 40)
		}
		rl.Reset("")
		for range before {
			call()
		}
		began := time.Now()
		for range turn {
			call()
		}
		return float64(time.Since(began)) / turn
	}
}
