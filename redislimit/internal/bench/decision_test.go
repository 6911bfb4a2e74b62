// Package bench measures redislimit against a redis-server on loopback, beside a bare script and
// beside redis_rate, which users of redislimit need not download.
package bench

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"dappco.re/go/core/go-ratelimit/internal/test/redistest"
	"dappco.re/go/core/go-ratelimit/limit"
	"dappco.re/go/core/go-ratelimit/redislimit"
)

const most = 1 << 40 // more than a benchmark takes

// subject is something that asks the server once.
type subject struct {
	name string
	ask  func() error
	best float64 // nanoseconds an ask, of the fastest round
}

func start(b *testing.B, retries int) *redis.Client {
	b.Helper()
	client := redis.NewClient(&redis.Options{Addr: redistest.Start(b).Addr(), MaxRetries: retries})
	b.Cleanup(func() { client.Close() })
	return client
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// measure runs the subjects turn by turn, and reports the fastest round of each as a ratio to the
// first's.
func measure(b *testing.B, subjects []subject) {
	b.Helper()
	for b.Loop() {
		for i := range subjects {
			s := &subjects[i]
			const n = 400
			began := time.Now()
			for range n {
				if err := s.ask(); err != nil {
					b.Fatal(s.name, err)
				}
			}
			if each := float64(time.Since(began)) / n; s.best == 0 || each < s.best {
				s.best = each
			}
		}
	}
	b.ReportMetric(subjects[0].best, subjects[0].name+"-ns")
	for _, s := range subjects[1:] {
		b.ReportMetric(s.best/subjects[0].best, s.name+"-x-"+subjects[0].name)
	}
}

func bare(ctx context.Context, client *redis.Client) subject {
	script := redis.NewScript("return 1")
	return subject{name: "bare", ask: func() error { return script.Run(ctx, client, []string{"k"}, 1).Err() }}
}

// evalsha is what a Take of a FixedWindow sends, sent by the client itself. The hooks
// of a client are heard only if it heeds contexts.
func evalsha(ctx context.Context, client *redis.Client, o redislimit.Options) subject {
	spy := redis.NewClient(&redis.Options{Addr: client.Options().Addr, ContextTimeoutEnabled: true})
	defer spy.Close()
	var sent captured
	spy.AddHook(&sent)
	must(must(redislimit.NewFixedWindow(spy, most, time.Hour, o)).Take(ctx, "e", 1))
	sha, keys, args, n := sent.args[1].(string), []string{sent.args[3].(string), ""}, sent.args[5:], 0
	return subject{name: "evalsha", ask: func() error {
		n++
		keys[1] = keys[0] + ":op:" + strconv.Itoa(n)
		return client.EvalSha(ctx, sha, keys, args...).Err()
	}}
}

// captured is the last command of a client.
type captured struct{ args []any }

func (c *captured) DialHook(next redis.DialHook) redis.DialHook { return next }
func (c *captured) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "evalsha" {
			c.args = cmd.Args()
		}
		return next(ctx, cmd)
	}
}
func (c *captured) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func takes(ctx context.Context, name string, l redislimit.Limiter, want bool) subject {
	return subject{name: name, ask: func() error {
		d, err := l.Take(ctx, "k", 1)
		if err == nil && d.OK != want {
			return fmt.Errorf("%+v", d)
		}
		return err
	}}
}

// BenchmarkAllow is one caller alone whose calls all pass, with a client that sends again what was
// lost, and with one that does not.
func BenchmarkAllow(b *testing.B) {
	for name, retries := range map[string]int{"retries": 3, "once": -1} {
		b.Run(name, func(b *testing.B) { allow(b, start(b, retries)) })
	}
}

func allow(b *testing.B, client *redis.Client) {
	ctx := context.Background()
	o := redislimit.Options{Timeout: 10 * time.Second}
	peer := redis_rate.NewLimiter(client)
	measure(b, []subject{
		bare(ctx, client), evalsha(ctx, client, o),
		takes(ctx, "fixedwindow", must(redislimit.NewFixedWindow(client, most, time.Hour, o)), true),
		takes(ctx, "slidingcounter", must(redislimit.NewSlidingCounter(client, most, time.Hour, o)), true),
		takes(ctx, "slidinglog", must(redislimit.NewSlidingLog(client, most, time.Minute, o)), true),
		takes(ctx, "tokenbucket", must(redislimit.NewTokenBucket(client, limit.PerSecond(1<<20), 1<<20, o)), true),
		{name: "redis_rate", ask: func() error {
			_, err := peer.Allow(ctx, "k", redis_rate.PerSecond(1<<20))
			return err
		}},
	})
}

// BenchmarkDeny is one caller alone whose calls are all refused.
func BenchmarkDeny(b *testing.B) {
	client, ctx := start(b, 3), context.Background()
	o := redislimit.Options{Timeout: 10 * time.Second}
	all := []redislimit.Limiter{
		must(redislimit.NewFixedWindow(client, 1000, 24*time.Hour, o)), must(redislimit.NewSlidingCounter(client, 1000, 24*time.Hour, o)),
		must(redislimit.NewSlidingLog(client, 1000, 24*time.Hour, o)),
		must(redislimit.NewTokenBucket(client, limit.Rate{Count: 1, Per: time.Hour}, 1000, o)),
	}
	for _, l := range all {
		for range 1000 {
			if _, err := l.Take(ctx, "k", 1); err != nil {
				b.Fatal(err)
			}
		}
	}
	cached := must(redislimit.NewFixedWindow(client, 1000, 24*time.Hour, redislimit.Options{Timeout: o.Timeout, CacheDenials: 100}))
	peer := redis_rate.NewLimiter(client)
	measure(b, []subject{
		bare(ctx, client),
		takes(ctx, "fixedwindow", all[0], false), takes(ctx, "slidingcounter", all[1], false),
		takes(ctx, "slidinglog", all[2], false), takes(ctx, "tokenbucket", all[3], false), takes(ctx, "cached", cached, false),
		{name: "redis_rate", ask: func() error {
			_, err := peer.Allow(ctx, "k", redis_rate.PerHour(1))
			return err
		}},
	})
}

// BenchmarkTakeAll is four limiters in one call, for good and to be settled, and the settling.
func BenchmarkTakeAll(b *testing.B) {
	client, ctx := start(b, 3), context.Background()
	o := redislimit.Options{Timeout: 10 * time.Second}
	g := must(redislimit.NewGroup(client, o))
	charges := []redislimit.Charge{
		{Limiter: must(redislimit.NewFixedWindow(client, most, time.Hour, o)), Key: "k", N: 10},
		{Limiter: must(redislimit.NewSlidingCounter(client, most, time.Hour, o)), Key: "k", N: 10},
		{Limiter: must(redislimit.NewSlidingLog(client, most, time.Hour, o)), Key: "k", N: 10},
		{Limiter: must(redislimit.NewTokenBucket(client, limit.PerSecond(1<<30), 1<<40, o)), Key: "k", N: 10},
	}
	var holds []redislimit.Hold
	measure(b, []subject{
		bare(ctx, client),
		{name: "takeall4", ask: func() error {
			_, err := g.TakeAll(ctx, charges...)
			return err
		}},
		{name: "holdall4", ask: func() error {
			h, _, err := g.HoldAll(ctx, charges...)
			holds = append(holds, h)
			return err
		}},
		{name: "commit4", ask: func() error {
			h := holds[len(holds)-1]
			holds = holds[:len(holds)-1]
			return h.Commit(ctx, 7, 7, 7, 7)
		}},
	})
}
