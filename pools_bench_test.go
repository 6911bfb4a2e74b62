// What pools, classes and prices cost a call.

package ratelimit_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/money"
)

// BenchmarkPools reserves and commits calls of a model in k pools, in turns with a model in none,
// and reports how many times as long that takes. Each pool may add 0.6.
func BenchmarkPools(b *testing.B) {
	for _, k := range []int{1, 2, 4} {
		b.Run(fmt.Sprint(k), func(b *testing.B) {
			reportTurns(b, callsOf(b, ratelimit.Config{}, ""), callsOf(b, ratelimit.Config{Pools: kPools(k)}, ""))
		})
	}
}

// BenchmarkFairShares is BenchmarkPools for four classes, for prices, and for two pools beside
// them. Four classes and two pools may take 2.5 times as long as none.
func BenchmarkFairShares(b *testing.B) {
	classes := map[string]ratelimit.Class{"a": {Weight: 3}, "b": {}, "c": {Ahead: true}, "d": {MaxQueue: 100}}
	reserved := maps.Clone(classes)
	reserved["b"] = ratelimit.Class{ReservePercent: 10}
	for _, c := range []struct {
		name, class string
		config      ratelimit.Config
	}{
		{"classes", "b", ratelimit.Config{Classes: classes}},
		{"reserve", "b", ratelimit.Config{Classes: reserved}},
		{"classes and pools", "", ratelimit.Config{Classes: classes, Pools: kPools(2)}},
		{"classes and pools", "b", ratelimit.Config{Classes: classes, Pools: kPools(2)}},
		{"reserve and pools", "", ratelimit.Config{Classes: reserved, Pools: kPools(2)}},
		{"reserve and pools", "b", ratelimit.Config{Classes: reserved, Pools: kPools(2)}},
		{"prices", "", ratelimit.Config{Prices: map[string]money.Price{"m": {Input: money.USD(3), Output: money.USD(15)}}}},
	} {
		b.Run(c.name+"/class="+c.class, func(b *testing.B) {
			reportTurns(b, callsOf(b, ratelimit.Config{}, c.class), callsOf(b, c.config, c.class))
		})
	}
}

// kPools returns k pools in which "m" is.
func kPools(k int) map[string]ratelimit.Pool {
	pools := make(map[string]ratelimit.Pool)
	for i := range k {
		pools[fmt.Sprint("pool ", i)] = ratelimit.Pool{Models: []string{"m", "n*"}, Quota: roomyQuota}
	}
	return pools
}

var roomyQuota = ratelimit.ModelQuota{MaxRPM: 1 << 30, MaxTPM: 1 << 30, MaxRPD: 1 << 30}

// reportTurns takes turns with two functions that return nanoseconds, and reports the medians and
// their ratio.
func reportTurns(b *testing.B, none, some func() float64) {
	var without, with []float64
	for b.Loop() {
		without, with = append(without, none()), append(with, some())
	}
	slices.Sort(without)
	slices.Sort(with)
	half := len(with) / 2
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(without[half], "none-ns")
	b.ReportMetric(with[half], "ns-call")
	b.ReportMetric(with[half]/without[half], "x-none")
	b.ReportMetric(with[0]/without[0], "x-least")
}

// callsOf returns a function that makes calls of a class to "m", and returns the nanoseconds of
// each.
func callsOf(b *testing.B, config ratelimit.Config, class string) func() float64 {
	config.Quotas = map[string]ratelimit.ModelQuota{"m": roomyQuota}
	rl, ctx := newLimiterWith(b, config), b.Context()
	request := ratelimit.Request{Model: "m", PromptTokens: 100, OutputTokens: 50, Class: class}
	call := func() {
		rs, d := rl.ReserveContext(ctx, request)
		if !d.Allowed {
			b.Fatal(d)
		}
		rs[0].Commit(100, 40)
	}
	if class == "" {
		call = func() {
			r, d := rl.Reserve("m", 100, 50)
			if !d.Allowed {
				b.Fatal(d)
			}
			r.Commit(100, 40)
		}
	}
	return func() float64 {
		const before, turn = 600, 400 // which a power of two has room for: a long minute does not grow
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

func BenchmarkReserveCommitOfClasses(b *testing.B) {
	quota := map[string]ratelimit.ModelQuota{"m": {MaxRPM: 1 << 30, MaxTPM: 1 << 30, MaxInFlight: 100}}
	four := map[string]ratelimit.Class{"a": {Weight: 3}, "b": {ReservePercent: 10}, "c": {Ahead: true}, "d": {MaxQueue: 100}}
	for name, classes := range map[string]map[string]ratelimit.Class{"none": nil, "four": four, "no reserve": {"a": {Weight: 3}, "c": {Ahead: true}, "d": {}, "e": {}}} {
		b.Run(name, func(b *testing.B) {
			rl := newLimiterWith(b, ratelimit.Config{Quotas: quota, Classes: classes})
			ctx := ratelimit.WithClass(b.Context(), "b")
			b.ReportAllocs()
			for b.Loop() {
				rs, _ := rl.ReserveContext(ctx, ratelimit.Request{Model: "m", PromptTokens: 10, OutputTokens: 5})
				rs[0].Commit(10, 5)
			}
		})
	}
}

// BenchmarkEnterAndLeave is one waiter of a class that comes and goes while many wait.
func BenchmarkEnterAndLeave(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			rl := newLimiterWith(b, ratelimit.Config{
				Quotas:  map[string]ratelimit.ModelQuota{"m": {MaxInFlight: 1}},
				Classes: map[string]ratelimit.Class{"a": {Weight: 3}, "b": {}, "c": {Ahead: true}, "d": {}},
			})
			held, _ := rl.Reserve("m", 1, 1)
			defer held.Cancel()
			ctx, cancel := context.WithCancel(b.Context())
			var all sync.WaitGroup
			for i := range n {
				all.Go(func() {
					rl.AcquireAll(ctx, ratelimit.Request{Model: "m", Class: string(rune('a' + i%4)), Flow: fmt.Sprint(i % 100)})
				})
			}
			for rl.Stats("m").Waiting < n {
				time.Sleep(time.Millisecond)
			}
			gone, end := context.WithCancel(b.Context())
			end()
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				served := make(chan bool)
				one, stop := context.WithCancel(b.Context())
				go func() {
					rl.AcquireAll(one, ratelimit.Request{Model: "m", Class: string(rune('a' + i%4))})
					close(served)
				}()
				for rl.Stats("m").Waiting <= n {
					rl.AcquireAll(gone, ratelimit.Request{Model: "m"})
				}
				stop()
				<-served
			}
			b.StopTimer()
			cancel()
			all.Wait()
		})
	}
}
