package ratelimit_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
)

// crowd is callers that always want more, of some classes, each with sizes of its own.
type crowd struct {
	rl     *ratelimit.RateLimiter
	mu     sync.Mutex
	counts bool
	calls  map[string]int
	tokens map[string]int
}

// want has n callers of a class call until ctx ends, each for as many tokens as size says.
func (c *crowd) want(ctx context.Context, all *sync.WaitGroup, class string, n int, size func(*rand.Rand) int) {
	for i := range n {
		random := rand.New(rand.NewPCG(uint64(i), 4))
		all.Go(func() {
			for {
				ask := size(random)
				rs, err := c.rl.AcquireAll(ctx, ratelimit.Request{Model: "m", Class: class, PromptTokens: ask})
				if err != nil {
					return
				}
				rs[0].Commit(ask, 0)
				c.mu.Lock()
				if c.counts {
					c.calls[class]++
					c.tokens[class] += ask
				}
				c.mu.Unlock()
			}
		})
	}
}

// measure runs the callers for a while, and then counts for ten minutes.
func (c *crowd) measure(t *testing.T, quota ratelimit.ModelQuota, start func(ctx context.Context, all *sync.WaitGroup)) {
	synctest.Test(t, func(t *testing.T) {
		c.rl = newLimiterWith(t, ratelimit.Config{
			Quotas:  map[string]ratelimit.ModelQuota{"m": quota},
			Classes: map[string]ratelimit.Class{"heavy": {Weight: 3}, "light": {Weight: 1}},
		})
		c.calls, c.tokens = make(map[string]int), make(map[string]int)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		start(ctx, &all)
		time.Sleep(3 * time.Minute)
		c.mu.Lock()
		c.counts = true
		c.mu.Unlock()
		time.Sleep(10 * time.Minute)
		cancel()
		all.Wait()
	})
}

func TestSharesOfTenMinutes(t *testing.T) {
	small := func(r *rand.Rand) int { return 1 + r.IntN(20) }
	large := func(r *rand.Rand) int { return 100 + r.IntN(300) }
	for _, tt := range []struct {
		name         string
		quota        ratelimit.ModelQuota
		heavy, light func(*rand.Rand) int
		tokens       bool
	}{
		{"requests", ratelimit.ModelQuota{MaxRPM: 600, Burst: time.Second}, small, large, false},
		{"tokens, the heavy one is small", ratelimit.ModelQuota{MaxTPM: 60_000, Burst: time.Second}, small, large, true},
		{"tokens, the heavy one is large", ratelimit.ModelQuota{MaxTPM: 60_000, Burst: time.Second}, large, small, true},
		{"tokens among requests", ratelimit.ModelQuota{MaxTPM: 60_000, MaxRPM: 100_000, MaxInFlight: 50, Burst: time.Second}, large, small, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.quota.MaxInFlight == 0 && racetest.Factor > 1 {
				t.Skip("the race detector sees one of them")
			}
			var c crowd
			c.measure(t, tt.quota, func(ctx context.Context, all *sync.WaitGroup) {
				c.want(ctx, all, "heavy", 100, tt.heavy) // so many that some always wait
				c.want(ctx, all, "light", 100, tt.light)
			})
			got := c.calls
			if tt.tokens {
				got = c.tokens
			}
			share := float64(got["heavy"]) / float64(got["heavy"]+got["light"])
			if share < 0.735 || share > 0.765 { // 2 % of 0.75
				t.Errorf("the share is %.3f, want 0.75: %v", share, got)
			}
		})
	}
}

func TestALoneClassGetsEverything(t *testing.T) {
	var c crowd
	c.measure(t, ratelimit.ModelQuota{MaxRPM: 600, Burst: time.Second}, func(ctx context.Context, all *sync.WaitGroup) {
		c.want(ctx, all, "light", 10, func(*rand.Rand) int { return 1 })
	})
	if n := c.calls["light"]; n < 5940 || n > 6000+600 {
		t.Errorf("%d calls in ten minutes, want 6000", n)
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
