package bench

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"golang.org/x/time/rate"
)

const model = "gpt-4o"

// sizes are the numbers of live entries in the window.
var sizes = []int{0, 100, 10_000, 1_000_000}

// unbounded is a quota that counts everything and denies nothing.
var unbounded = ratelimit.ModelQuota{MaxRPM: 1 << 30, MaxTPM: 1 << 30, MaxRPD: 1 << 30}

// filled returns a limiter whose window holds n live entries of 10 tokens.
func filled(tb testing.TB, n int, quota ratelimit.ModelQuota) *ratelimit.RateLimiter {
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{
		FilePath: tb.TempDir() + "/state.yaml",
		Quotas:   map[string]ratelimit.ModelQuota{model: quota},
	})
	if err != nil {
		tb.Fatal(err)
	}
	if n > 0 {
		now := time.Now()
		stats := &ratelimit.UsageStats{DayStart: now, DayCount: n}
		for i := range n {
			// The benchmarks of one size take less than 20 s, so none leaves.
			at := now.Add(-time.Duration(n-i) * 20 * time.Second / time.Duration(n))
			stats.Requests = append(stats.Requests, at)
			stats.Tokens = append(stats.Tokens, ratelimit.TokenEntry{Time: at, Count: 10})
		}
		rl.State[model] = stats
		rl.CanSend(model, 1)
	}
	return rl
}

// compare compares op with rate.Limiter.Allow.
func compare(b *testing.B, op func()) {
	lim := rate.NewLimiter(rate.Limit(1e12), 1<<30)
	compareWith(b, "allow", func() { lim.Allow() }, op)
}

// compareWith runs op and the yardstick in turns of a few thousand calls, and
// reports the ratio of the medians. The turns alternate so that both see the same
// weather on a machine that is not ours alone.
func compareWith(b *testing.B, name string, yard, op func()) {
	const turn = 2000
	measure := func(f func()) float64 {
		start := time.Now()
		for range turn {
			f()
		}
		return float64(time.Since(start)) / turn
	}
	measure(op)
	measure(yard)
	var ours, theirs []float64
	b.ReportAllocs()
	for b.Loop() {
		ours = append(ours, measure(op))
		theirs = append(theirs, measure(yard))
	}
	slices.Sort(ours)
	slices.Sort(theirs)
	mine, yours := ours[len(ours)/2], theirs[len(theirs)/2]
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(mine, "ours-ns")
	b.ReportMetric(yours, name+"-ns")
	b.ReportMetric(mine/yours, "x-"+name)
}

func BenchmarkCanSend(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			rl := filled(b, n, unbounded)
			compare(b, func() { rl.CanSend(model, 100) })
		})
	}
}

func BenchmarkDecide(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			rl := filled(b, n, unbounded)
			compare(b, func() { rl.Decide(model, 100) })
		})
	}
}

func BenchmarkStats(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			rl := filled(b, n, unbounded)
			compare(b, func() { rl.Stats(model) })
		})
	}
}

func BenchmarkDecideDeniedTPM(b *testing.B) {
	for _, n := range sizes[1:] {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			rl := filled(b, n, ratelimit.ModelQuota{MaxTPM: 10 * n})
			d := rl.Decide(model, 5*n)
			if d.Allowed || d.Never || d.RetryAfter <= 0 {
				b.Fatalf("not a denial to wait for: %+v", d)
			}
			compare(b, func() { rl.Decide(model, 5*n) })
		})
	}
}

func BenchmarkRecordUsage(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			rl := filled(b, n, unbounded)
			compare(b, func() { rl.RecordUsage(model, 90, 10) })
		})
	}
}

func BenchmarkModels(b *testing.B) {
	for _, n := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			quotas := make(map[string]ratelimit.ModelQuota)
			names := make([]string, n)
			for i := range names {
				names[i] = fmt.Sprintf("model-%d", i)
				quotas[names[i]] = unbounded
			}
			rl, err := ratelimit.NewWithConfig(ratelimit.Config{FilePath: b.TempDir() + "/s.yaml", Quotas: quotas})
			if err != nil {
				b.Fatal(err)
			}
			for _, name := range names {
				rl.RecordUsage(name, 1, 1)
			}
			i := 0
			compare(b, func() {
				rl.CanSend(names[i], 1)
				if i++; i == n {
					i = 0
				}
			})
		})
	}
}

// BenchmarkTwoGoroutines lets two goroutines call at once, on one model and on
// one rate.Limiter.
func BenchmarkTwoGoroutines(b *testing.B) {
	rl := filled(b, 100, unbounded)
	lim := rate.NewLimiter(rate.Limit(1e12), 1<<30)
	both := func(f func()) float64 {
		const turn = 20_000
		var wg sync.WaitGroup
		start := time.Now()
		for range 2 {
			wg.Go(func() {
				for range turn {
					f()
				}
			})
		}
		wg.Wait()
		return float64(time.Since(start)) / turn
	}
	var ours, theirs []float64
	for b.Loop() {
		ours = append(ours, both(func() { rl.CanSend(model, 1) }))
		theirs = append(theirs, both(func() { lim.Allow() }))
	}
	slices.Sort(ours)
	slices.Sort(theirs)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(ours[len(ours)/2], "ours-ns")
	b.ReportMetric(theirs[len(theirs)/2], "allow-ns")
	b.ReportMetric(ours[len(ours)/2]/theirs[len(theirs)/2], "x-allow")
}

// BenchmarkReserve reserves and settles, at the estimate and below.
func BenchmarkReserve(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			rl := filled(b, n, unbounded)
			compare(b, func() {
				r, _ := rl.Reserve(model, 90, 30)
				r.Commit(90, 10)
			})
		})
	}
}

func BenchmarkReserveDenied(b *testing.B) {
	for _, n := range sizes[1:] {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			rl := filled(b, n, ratelimit.ModelQuota{MaxTPM: 10 * n})
			compare(b, func() { rl.Reserve(model, 5*n, 0) })
		})
	}
}
