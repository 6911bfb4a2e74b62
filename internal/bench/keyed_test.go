package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	perkey "dappco.re/go/core/go-ratelimit/keyed"
	"golang.org/x/time/rate"
)

// keyCounts are the numbers of counters that a keyed.Limiter has.
var keyCounts = []int{1, 1000, 1_000_000}

// tenants returns a keyed.Limiter with n counters of which each has used one unit of limit, and
// requests for them in a random order.
func tenants(b *testing.B, n, limit int) (*perkey.Limiter, []perkey.Request) {
	lim, err := perkey.New(perkey.Options{MaxKeys: max(n, 1000)})
	if err != nil {
		b.Fatal(err)
	}
	requests := make([]perkey.Request, n)
	for i := range requests {
		requests[i] = perkey.Request{
			Namespace: "requests", Key: fmt.Sprintf("tenant-%06d", i), Limit: limit,
			Window: 24 * time.Hour, Cost: 1,
		}
		if d, err := lim.Take(context.Background(), requests[i]); err != nil || !d.OK {
			b.Fatalf("%+v, %v", d, err)
		}
	}
	rand.Shuffle(n, func(i, k int) { requests[i], requests[k] = requests[k], requests[i] })
	return lim, requests
}

// round returns a function that calls f for one request after another.
func round(requests []perkey.Request, f func(r *perkey.Request)) func() {
	i := 0
	return func() {
		f(&requests[i])
		if i++; i == len(requests) {
			i = 0
		}
	}
}

// BenchmarkKeyed compares the decisions of a keyed.Limiter with x/time's Allow.
func BenchmarkKeyed(b *testing.B) {
	ctx := context.Background()
	for _, n := range keyCounts {
		b.Run(fmt.Sprint("allow/", n), func(b *testing.B) {
			lim, requests := tenants(b, n, 1<<40)
			compare(b, round(requests, func(r *perkey.Request) { lim.Take(ctx, *r) }))
		})
		b.Run(fmt.Sprint("deny/", n), func(b *testing.B) {
			lim, requests := tenants(b, n, 1)
			compare(b, round(requests, func(r *perkey.Request) { lim.Take(ctx, *r) }))
		})
		b.Run(fmt.Sprint("hold/", n), func(b *testing.B) {
			lim, requests := tenants(b, n, 1<<40)
			compare(b, round(requests, func(r *perkey.Request) {
				h, _, _ := lim.Hold(ctx, *r)
				h.Commit(1)
			}))
		})
		b.Run(fmt.Sprint("two/", n), func(b *testing.B) {
			lim, requests := tenants(b, n, 1<<40)
			other := requests[0]
			other.Namespace, other.Cost = "tokens", 1000
			compare(b, round(requests, func(r *perkey.Request) { lim.TakeAll(ctx, *r, other) }))
		})
	}
}

// BenchmarkKeyedInTurn takes from 1,000,000 counters in the order in which they were made, where
// the processor's prefetching helps.
func BenchmarkKeyedInTurn(b *testing.B) {
	ctx := context.Background()
	for name, limit := range map[string]int{"allow": 1 << 40, "deny": 1} {
		b.Run(name, func(b *testing.B) {
			lim, requests := tenants(b, 1_000_000, limit)
			slices.SortFunc(requests, func(x, y perkey.Request) int { return strings.Compare(x.Key, y.Key) })
			compare(b, round(requests, func(r *perkey.Request) { lim.Take(ctx, *r) }))
		})
	}
}

// BenchmarkKeyedParallel lets goroutines on all processors take from one counter.
func BenchmarkKeyedParallel(b *testing.B) {
	lim, requests := tenants(b, 1, 1<<40)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			lim.Take(context.Background(), requests[0])
		}
	})
}

// BenchmarkKeyedMemory reports the memory of a counter, with the copy of its key.
func BenchmarkKeyedMemory(b *testing.B) {
	const n = 1_000_000
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("tenant-%06d", i)
	}
	for b.Loop() {
		before := heap()
		lim, err := perkey.New(perkey.Options{MaxKeys: n})
		if err != nil {
			b.Fatal(err)
		}
		for _, name := range names {
			r := perkey.Request{Namespace: "requests", Key: name, Limit: 100, Window: 24 * time.Hour, Cost: 1}
			lim.Take(context.Background(), r)
		}
		b.ReportMetric(float64(heap()-before)/n, "B/key")
		runtime.KeepAlive(lim)
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkKeyedMap is the usual way beside it: a map of x/time's limiters under a lock.
func BenchmarkKeyedMap(b *testing.B) {
	for _, n := range keyCounts {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			limiters := map[string]*rate.Limiter{}
			names := make([]string, n)
			for i := range names {
				names[i] = fmt.Sprintf("tenant-%06d", i)
				limiters[strings.Clone(names[i])] = rate.NewLimiter(1e12, 1<<30)
			}
			rand.Shuffle(n, func(i, k int) { names[i], names[k] = names[k], names[i] })
			var mu sync.Mutex
			i := 0
			compare(b, func() {
				mu.Lock()
				lim := limiters[names[i]]
				mu.Unlock()
				lim.Allow()
				if i++; i == n {
					i = 0
				}
			})
		})
	}
}
