package bench

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/limit"
	"github.com/failsafe-go/failsafe-go/ratelimiter"
	juju "github.com/juju/ratelimit"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
	uber "go.uber.org/ratelimit"
	"golang.org/x/time/rate"
)

// contender is a limiter of one unit a call. Its open one admits every call that can be
// made, and its closed one admits one in an hour. Closed is nil where a refusal blocks.
type contender struct {
	name         string
	open, closed func(testing.TB) (allow func() bool)
}

// The rate and the burst of those that admit every call: faster than calls can come.
const (
	openRate  = 1_000_000_000
	openBurst = 1 << 30
)

var contenders = []contender{
	{"GCRA", paced(limit.NewGCRA, openBurst), pacedClosed(limit.NewGCRA)},
	{"AtomicGCRA", paced(limit.NewAtomicGCRA, openBurst), pacedClosed(limit.NewAtomicGCRA)},
	{"Meter", paced(limit.NewMeter, openBurst), pacedClosed(limit.NewMeter)},
	{"Queue", paced(limit.NewQueue, openBurst), nil},
	{"FixedWindow", windowed(limit.NewFixedWindow, openBurst, time.Hour), windowed(limit.NewFixedWindow, 1, time.Hour)},
	{"AnchoredWindow", windowed(limit.NewAnchoredWindow, openBurst, time.Hour), windowed(limit.NewAnchoredWindow, 1, time.Hour)},
	{"SlidingCounter", windowed(limit.NewSlidingCounter, openBurst, time.Hour), windowed(limit.NewSlidingCounter, 1, time.Hour)},
	{"SlidingLog-100", windowed(limit.NewSlidingLog, 100, 1), windowed(limit.NewSlidingLog, 1, time.Hour)},
	{"Sharded", sharded(openRate, openBurst, time.Second), sharded(2, 2, time.Hour)},
	{"Keyed", keyed(openRate, openBurst), keyed(1, 1)},
	{"TokenBucket",
		func(testing.TB) func() bool { return limit.NewTokenBucket(openRate, openBurst).Allow },
		func(testing.TB) func() bool { return limit.NewTokenBucket(limit.Every(time.Hour).Limit(), 1).Allow }},
	{"x-time",
		func(testing.TB) func() bool { return rate.NewLimiter(openRate, openBurst).Allow },
		func(testing.TB) func() bool { return rate.NewLimiter(rate.Every(time.Hour), 1).Allow }},
	{"failsafe-smooth",
		func(testing.TB) func() bool {
			return ratelimiter.NewSmooth[any](openRate, time.Second).TryAcquirePermit
		},
		func(testing.TB) func() bool {
			return ratelimiter.NewSmoothWithMaxRate[any](time.Hour).TryAcquirePermit
		}},
	{"failsafe-bursty",
		func(testing.TB) func() bool {
			return ratelimiter.NewBursty[any](openBurst, time.Second).TryAcquirePermit
		},
		func(testing.TB) func() bool { return ratelimiter.NewBursty[any](1, time.Hour).TryAcquirePermit }},
	{"uber", func(testing.TB) func() bool {
		l := uber.New(openRate)
		return func() bool { return !l.Take().IsZero() }
	}, nil},
	{"juju",
		func(testing.TB) func() bool { return jujuAllow(juju.NewBucketWithRate(openRate, openBurst)) },
		func(testing.TB) func() bool { return jujuAllow(juju.NewBucket(time.Hour, 1)) }},
	{"sethvargo", sethvargo(openBurst, time.Second), sethvargo(1, time.Hour)},
	{"throttled",
		throttledBy(throttled.RateQuota{MaxRate: throttled.PerSec(openRate), MaxBurst: openBurst}),
		throttledBy(throttled.RateQuota{MaxRate: throttled.PerHour(1)})},
}

type allower interface{ Allow() bool }

// paced makes the open one of a limiter of a rate.
func paced[L allower](make func(limit.Rate, int) (L, error), burst int) func(testing.TB) func() bool {
	return func(tb testing.TB) func() bool { return must(make(limit.PerSecond(openRate), burst))(tb).Allow }
}

// pacedClosed makes the closed one of a limiter of a rate.
func pacedClosed[L allower](make func(limit.Rate, int) (L, error)) func(testing.TB) func() bool {
	return func(tb testing.TB) func() bool { return must(make(limit.Every(time.Hour), 1))(tb).Allow }
}

// windowed makes one of a limiter of a number in a window.
func windowed[L allower](make func(int, time.Duration) (L, error), n int, window time.Duration) func(testing.TB) func() bool {
	return func(tb testing.TB) func() bool { return must(make(n, window))(tb).Allow }
}

// sharded makes one of two shards.
func sharded(count, burst int, per time.Duration) func(testing.TB) func() bool {
	return func(tb testing.TB) func() bool {
		l := must(limit.NewSharded(limit.Rate{Count: count, Per: per}, burst, 2))(tb)
		l.Allow() // of the closed one, the one that is not for the first call
		return l.Allow
	}
}

// keyed makes one of a GCRA for a key.
func keyed(anHour, burst int) func(testing.TB) func() bool {
	return func(tb testing.TB) func() bool {
		k := must(limit.NewKeyed(1000, time.Hour, func(string) (limit.Limiter, error) {
			return limit.NewGCRA(limit.Rate{Count: anHour, Per: time.Hour}, burst)
		}))(tb)
		return func() bool { return k.Allow("key") }
	}
}

// must returns what a constructor made, or ends the test.
func must[L any](l L, err error) func(testing.TB) L {
	return func(tb testing.TB) L {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
		return l
	}
}

func jujuAllow(b *juju.Bucket) func() bool {
	return func() bool { return b.TakeAvailable(1) == 1 }
}

func sethvargo(tokens uint64, interval time.Duration) func(testing.TB) func() bool {
	return func(tb testing.TB) func() bool {
		store := must(memorystore.New(&memorystore.Config{Tokens: tokens, Interval: interval}))(tb)
		ctx := context.Background()
		tb.Cleanup(func() { store.Close(ctx) })
		return func() bool {
			_, _, _, ok, err := store.Take(ctx, "key")
			return ok && err == nil
		}
	}
}

func throttledBy(quota throttled.RateQuota) func(testing.TB) func() bool {
	return func(tb testing.TB) func() bool {
		l := must(throttled.NewGCRARateLimiterCtx(must(memstore.NewCtx(1))(tb), quota))(tb)
		ctx := context.Background()
		return func() bool {
			limited, _, err := l.RateLimitCtx(ctx, "key", 1)
			return !limited && err == nil
		}
	}
}

// each calls f for every contender that admits, or refuses, with its first call made.
func each(admits bool, f func(name string, start func(testing.TB) func() bool)) {
	for _, c := range contenders {
		start := c.open
		if !admits {
			start = c.closed
		}
		if start != nil {
			f(c.name, func(tb testing.TB) func() bool {
				allow := start(tb)
				if !allow() {
					tb.Fatal("the first call was refused")
				}
				return allow
			})
		}
	}
}

var sides = []struct {
	name   string
	admits bool
}{{"admitted", true}, {"denied", false}}

// Every contender does on its side of the benchmarks what its name says.
func TestContenders(t *testing.T) {
	for _, side := range sides {
		each(side.admits, func(name string, start func(testing.TB) func() bool) {
			t.Run(side.name+"/"+name, func(t *testing.T) {
				allow := start(t)
				for i := range 1000 {
					if allow() != side.admits {
						t.Fatalf("call %d: %v", i+2, !side.admits)
					}
				}
			})
		})
	}
}

// BenchmarkLimit is one call of every limiter: by one goroutine, and by each of two that
// share it. Where sharing costs nothing, both figures are the same.
func BenchmarkLimit(b *testing.B) {
	for _, side := range sides {
		for goroutines, suffix := range []string{1: "", 2: "/two"} {
			if goroutines == 0 {
				continue
			}
			each(side.admits, func(name string, start func(testing.TB) func() bool) {
				b.Run(side.name+"/"+name+suffix, func(b *testing.B) {
					allow := start(b)
					b.ReportAllocs()
					b.ResetTimer()
					if goroutines == 1 {
						for range b.N {
							allow()
						}
						return
					}
					var wg sync.WaitGroup
					for range goroutines {
						wg.Go(func() {
							for range b.N {
								allow()
							}
						})
					}
					wg.Wait()
				})
			})
		}
	}
}

// BenchmarkSlidingLog is one decision of a log that is full: one that an entry leaves for,
// and one that is refused.
func BenchmarkSlidingLog(b *testing.B) {
	for _, n := range []int{100, 10_000, 1_000_000} {
		now := time.Now()
		full := func(b *testing.B) *limit.SlidingLog {
			l := must(limit.NewSlidingLog(n, time.Duration(n)*time.Microsecond))(b)
			for range n {
				now = now.Add(time.Microsecond)
				l.TakeAt(now, 1)
			}
			b.ReportAllocs()
			b.ResetTimer()
			return l
		}
		b.Run(fmt.Sprintf("admitted/%d", n), func(b *testing.B) {
			l := full(b)
			for range b.N {
				now = now.Add(time.Microsecond)
				if !l.TakeAt(now, 1).OK {
					b.Fatal("refused")
				}
			}
		})
		b.Run(fmt.Sprintf("denied/%d", n), func(b *testing.B) {
			l := full(b)
			for range b.N {
				if l.TakeAt(now, 1).OK {
					b.Fatal("admitted")
				}
			}
		})
	}
}

// BenchmarkLimitRatio has the ratio of every limiter to x/time's, of medians of turns that
// alternate. The project holds itself to at most 1 of TokenBucket, 0.5 of AtomicGCRA, and 1 of
// AtomicGCRA beside failsafe-go's smooth limiter.
func BenchmarkLimitRatio(b *testing.B) {
	for _, side := range sides {
		xtime := rate.NewLimiter(openRate, openBurst)
		if !side.admits {
			xtime = rate.NewLimiter(rate.Every(time.Hour), 1)
			xtime.Allow()
		}
		each(side.admits, func(name string, start func(testing.TB) func() bool) {
			b.Run(side.name+"/"+name, func(b *testing.B) {
				allow := start(b)
				compareWith(b, "xtime", func() { xtime.Allow() }, func() { allow() })
			})
		})
	}
	b.Run("AtomicGCRA-failsafe-smooth", func(b *testing.B) {
		smooth := ratelimiter.NewSmooth[any](openRate, time.Second)
		l := must(limit.NewAtomicGCRA(limit.PerSecond(openRate), openBurst))(b)
		compareWith(b, "failsafe-smooth", func() { smooth.TryAcquirePermit() }, func() { l.Allow() })
	})
}
