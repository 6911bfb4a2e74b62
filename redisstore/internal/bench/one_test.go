package bench

import (
	"context"
	"testing"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"dappco.re/go/core/go-ratelimit"
)

// timed runs f n times and returns nanoseconds for each.
func timed(n int, f func()) float64 {
	began := time.Now()
	for range n {
		f()
	}
	return float64(time.Since(began)) / float64(n)
}

// BenchmarkOne is one caller alone: a call of an empty script, Reserve, Commit, and redis_rate,
// turn by turn in one run.
func BenchmarkOne(b *testing.B) {
	address := startServer(b)
	rl, client := newLimiter(b, address, "one"), newClient(b, address)
	empty := redis.NewScript("return 1")
	peer := redis_rate.NewLimiter(client)
	ctx := context.Background()
	if err := empty.Run(ctx, client, nil).Err(); err != nil {
		b.Fatal(err)
	}
	var bare, reserve, commit, rate float64
	rounds := 0
	for b.Loop() {
		const n = 50
		bare += timed(n, func() { client.EvalSha(ctx, empty.Hash(), nil) })
		var held []*ratelimit.Reservation
		reserve += timed(n, func() {
			r, d := rl.Reserve("m", 100, 10)
			if r == nil {
				b.Fatal(d)
			}
			held = append(held, r)
		})
		i := 0
		commit += timed(n, func() { held[i].Commit(90, 5); i++ })
		rate += timed(n, func() { peer.Allow(ctx, "m", redis_rate.PerMinute(1<<20)) })
		rounds++
	}
	b.ReportMetric(bare/float64(rounds), "bare-ns")
	b.ReportMetric(reserve/float64(rounds), "reserve-ns")
	b.ReportMetric(commit/float64(rounds), "commit-ns")
	b.ReportMetric(reserve/bare, "reserve-x-bare")
	b.ReportMetric(commit/bare, "commit-x-bare")
	b.ReportMetric(rate/bare, "redis_rate-x-bare")
}

// BenchmarkRead is CanSend and Decide with memory that is fresh, beside a limiter that shares
// nothing.
func BenchmarkRead(b *testing.B) {
	rl := newLimiter(b, startServer(b), "read")
	alone, err := ratelimit.NewWithConfig(ratelimit.Config{FilePath: b.TempDir() + "/alone.yaml", Quotas: quotas})
	if err != nil {
		b.Fatal(err)
	}
	defer alone.Close()
	for _, rl := range []*ratelimit.RateLimiter{rl, alone} {
		for range 100 {
			rl.RecordUsage("m", 10, 10)
		}
	}
	var canSend, decide, canSendAlone, decideAlone float64
	for b.Loop() {
		const n = 1000
		canSend += timed(n, func() { rl.CanSend("m", 10) })
		canSendAlone += timed(n, func() { alone.CanSend("m", 10) })
		decide += timed(n, func() { rl.Decide("m", 10) })
		decideAlone += timed(n, func() { alone.Decide("m", 10) })
	}
	b.ReportMetric(canSend/canSendAlone, "cansend-x-alone")
	b.ReportMetric(decide/decideAlone, "decide-x-alone")
}
