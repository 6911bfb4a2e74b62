package bench

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/limit"
	"golang.org/x/time/rate"
)

var limitKeyCounts = []int{1, 1000, 1_000_000}

// manyLimitKeys returns a Keyed that has a limiter for each of n keys, and those keys at random.
func manyLimitKeys(tb testing.TB, n int, perSecond, burst int) (*limit.Keyed[string], []string) {
	k := must(limit.NewKeyed(n, time.Hour, func(string) (limit.Limiter, error) {
		return limit.NewGCRA(limit.PerSecond(perSecond), burst)
	}))(tb)
	keys := make([]string, n)
	for i := range keys {
		keys[i] = "tenant-" + strconv.Itoa(i)
		if !k.Allow(keys[i]) {
			tb.Fatal("the first call was refused")
		}
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(n, func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	return k, keys
}

// BenchmarkLimitKeyed is a call for a key that has a limiter, beside x/time's Allow, and beside
// that of a limiter that is found in a map behind a mutex, and never forgotten.
func BenchmarkLimitKeyed(b *testing.B) {
	xtime := rate.NewLimiter(openRate, openBurst)
	for _, n := range limitKeyCounts {
		for _, side := range sides {
			perSecond, burst := openRate, openBurst
			if !side.admits {
				perSecond, burst = 1, 1
			}
			k, keys := manyLimitKeys(b, n, perSecond, burst)
			limiters := map[string]*rate.Limiter{}
			for _, key := range keys {
				limiters[key] = rate.NewLimiter(rate.Limit(perSecond), burst)
			}
			var mu sync.Mutex
			byHand := func(key string) {
				mu.Lock()
				l := limiters[key]
				mu.Unlock()
				l.Allow()
			}
			i := 0
			next := func() string {
				if i++; i >= n {
					i = 0
				}
				return keys[i]
			}
			b.Run(fmt.Sprintf("Allow/%s/%d", side.name, n), func(b *testing.B) {
				compareWith(b, "xtime", func() { xtime.Allow() }, func() { k.Allow(next()) })
			})
			b.Run(fmt.Sprintf("Allow-map/%s/%d", side.name, n), func(b *testing.B) {
				compareWith(b, "map", func() { byHand(next()) }, func() { k.Allow(next()) })
			})
			b.Run(fmt.Sprintf("Take/%s/%d", side.name, n), func(b *testing.B) {
				compareWith(b, "xtime", func() { xtime.Allow() }, func() { _, _ = k.Take(next(), 1) })
			})
		}
	}
}

// BenchmarkLimitKeyedTwo is a call in each of two goroutines: for one key, for one each, and for
// a thousand that come at random.
func BenchmarkLimitKeyedTwo(b *testing.B) {
	k, keys := manyLimitKeys(b, 1000, openRate, openBurst)
	xtime := rate.NewLimiter(openRate, openBurst)
	for _, c := range []struct {
		name string
		call func(goroutine, i int)
	}{
		{"one-key", func(_, _ int) { k.Allow(keys[0]) }},
		{"a-key-each", func(g, _ int) { k.Allow(keys[g]) }},
		{"1000-keys", func(g, i int) { k.Allow(keys[(i*(7+g*4))%1000]) }},
		{"xtime", func(_, _ int) { xtime.Allow() }},
	} {
		b.Run(c.name, func(b *testing.B) {
			var group sync.WaitGroup
			for g := range 2 {
				group.Go(func() {
					for i := range b.N {
						c.call(g, i)
					}
				})
			}
			group.Wait()
		})
	}
}

// BenchmarkLimitKeyedMemory reports the bytes of a key beside its limiter, and the longest call
// among those that add a million keys and, when all were charged again, one more.
func BenchmarkLimitKeyedMemory(b *testing.B) {
	const n = 1_000_000
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for b.Loop() {
		one := must(limit.NewGCRA(limit.PerSecond(1), 10))(b)
		before := heap()
		k := must(limit.NewKeyed(n, time.Hour, func(int) (limit.Limiter, error) { return one, nil }))(b)
		now := time.Now()
		var longest time.Duration
		for i := range n {
			start := time.Now()
			_, _ = k.TakeAt(i, now.Add(time.Duration(i)*time.Microsecond), 1)
			longest = max(longest, time.Since(start))
		}
		b.ReportMetric(float64(heap()-before)/n, "B/key")
		b.ReportMetric(longest.Seconds()*1e3, "longest-ms")
		last := now.Add(n * time.Microsecond)
		for i := range n {
			_, _ = k.TakeAt(i, last, 1)
		}
		start := time.Now()
		_, _ = k.TakeAt(n, last, 1)
		b.ReportMetric(time.Since(start).Seconds()*1e3, "full-ms")
		runtime.KeepAlive(k)
	}
}
