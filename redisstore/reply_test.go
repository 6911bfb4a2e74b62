// Replies that are lost, late or cut: what was charged once is charged once.

package redisstore_test

import (
	"testing"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/redisstore"
	"dappco.re/go/core/go-ratelimit/redisstore/internal/redistest"
)

func TestSumIsExactWhenRepliesAreLost(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name        string
		faults      redistest.Faults
		short, long int // calls
		hit         func(redistest.Counts) int64
	}{
		{"closed in place of a reply", redistest.Faults{Close: 20}, 1000, 100_000,
			func(c redistest.Counts) int64 { return c.Closed }},
		{"closed in the middle of a reply", redistest.Faults{Half: 20}, 1000, 100_000,
			func(c redistest.Counts) int64 { return c.Halved }},
		{"closed in place of a request", redistest.Faults{CloseRequest: 20}, 1000, 100_000,
			func(c redistest.Counts) int64 { return c.Unpassed }},
		{"swallowed", redistest.Faults{Lose: 20}, 200, 100_000,
			func(c redistest.Counts) int64 { return c.Lost }},
		{"everything at once", redistest.Faults{Close: 20, Half: 20, Lose: 50, CloseRequest: 20, Delay: time.Millisecond}, 200, 100_000,
			func(c redistest.Counts) int64 { return min(c.Closed, c.Halved, c.Unpassed) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			proxy := redistest.NewProxy(t, server.Addr())
			var limiters []*ratelimit.RateLimiter
			for range 2 {
				m := machine{addr: proxy.Addr(), store: redisstore.Options{Timeout: 400 * time.Millisecond}}
				limiters = append(limiters, m.start(t))
			}
			proxy.Set(tt.faults)
			var a admitted
			done := make(chan struct{})
			for _, rl := range limiters {
				go func() {
					a.work(rl, 8, times(tt.short, tt.long)/len(limiters))
					done <- struct{}{}
				}()
			}
			for range limiters {
				<-done
			}
			proxy.Set(redistest.Faults{})
			if n := tt.hit(proxy.Counts()); n == 0 {
				t.Error("the proxy has done nothing")
			}
			a.check(t, server.Addr(), limiters...)
			t.Logf("%+v, %d denied, %+v", a.sum(), a.denied.Load(), proxy.Counts())
		})
	}
}
