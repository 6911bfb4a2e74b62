// Replies that are lost, late or cut: what was charged once is charged once.

package redisstore_test

import (
	"math/rand/v2"
	"sync"
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
			// The more calls share an append, the fewer replies there are to be hit.
			for round := 0; round == 0 || round < 50 && tt.hit(proxy.Counts()) == 0; round++ {
				var all sync.WaitGroup
				for _, rl := range limiters {
					all.Go(func() { a.work(rl, 8, times(tt.short, tt.long)/len(limiters)) })
				}
				all.Wait()
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

// Calls that fall into outages of all kinds, of any length, are charged once.
func TestSumIsExactThroughOutages(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	var limiters []*ratelimit.RateLimiter
	for range 3 {
		m := machine{addr: proxy.Addr(), store: redisstore.Options{Timeout: 100 * time.Millisecond}}
		limiters = append(limiters, m.start(t))
	}
	faults := []redistest.Faults{
		{Down: true}, {Swallow: true}, {Delay: 40 * time.Millisecond}, {Close: 2}, {Half: 2}, {Lose: 2}, {CloseRequest: 2},
	}
	var a admitted
	stop := make(chan struct{})
	var all sync.WaitGroup
	for _, rl := range limiters {
		for range 2 {
			all.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-stop:
						return
					case <-time.After(time.Millisecond):
						a.call(rl, i)
					}
				}
			})
		}
	}
	for range times(12, 1000) {
		proxy.Set(faults[rand.IntN(len(faults))])
		time.Sleep(rand.N(200 * time.Millisecond)) // how long an outage takes is what this is about
		proxy.Set(redistest.Faults{})
		time.Sleep(rand.N(200 * time.Millisecond))
	}
	close(stop)
	all.Wait()
	a.check(t, server.Addr(), limiters...)
	t.Logf("%+v, %d denied, %+v", a.sum(), a.denied.Load(), proxy.Counts())
}
