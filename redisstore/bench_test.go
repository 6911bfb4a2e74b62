package redisstore

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"dappco.re/go/core/go-ratelimit/internal/store"
	"dappco.re/go/core/go-ratelimit/redisstore/internal/redistest"
)

// BenchmarkAppend is an append by one caller beside bare calls of scripts by the same client, in
// turns: one that does nothing, and one that adds a row of the same size to a stream.
func BenchmarkAppend(b *testing.B) {
	client := redis.NewClient(&redis.Options{Addr: redistest.Start(b).Addr(), ContextTimeoutEnabled: true})
	b.Cleanup(func() { client.Close() })
	s, err := New(b.Context(), client, Options{Prefix: "test", Timeout: 10 * time.Second})
	if err != nil {
		b.Fatal(err)
	}
	l, err := s.Open(b.Context(), store.Options{Process: 1, Keep: time.Hour})
	if err != nil {
		b.Fatal(err)
	}
	if err := l.Begin(b.Context(), 0, start); err != nil {
		b.Fatal(err)
	}
	ctx, at, n := b.Context(), start.At, int64(0)
	batch := []store.Entry{{Process: 1, Command: make([]byte, 24)}}
	row := string(encodeRow(batch))
	empty, add := redis.NewScript("return 1"), redis.NewScript("return redis.call('XADD', KEYS[1], '*', 'b', ARGV[1])")
	var took [3]time.Duration
	turn := func(i int, call func() error) {
		began := time.Now()
		for range 20 {
			if err := call(); err != nil {
				b.Fatal(err)
			}
		}
		took[i] += time.Since(began)
	}
	for b.Loop() {
		turn(0, func() error { return empty.Run(ctx, client, nil).Err() })
		turn(1, func() error { return add.Run(ctx, client, []string{"bare"}, row).Err() })
		turn(2, func() error {
			n++
			batch[0].N = n
			news, err := l.Append(ctx, at, batch)
			at = news.End(at)
			return err
		})
	}
	b.ReportMetric(float64(took[2])/float64(b.N)/20, "append-ns")
	b.ReportMetric(float64(took[2])/float64(took[0]), "x-empty")
	b.ReportMetric(float64(took[2])/float64(took[1]), "x-add")
}
