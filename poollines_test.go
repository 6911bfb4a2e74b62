package ratelimit_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// A waiter that its own model denies keeps no other model out of the pool.
func TestPoolLineIsOfThoseThatThePoolDenies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, ratelimit.Config{
			Quotas: map[string]ratelimit.ModelQuota{"a": {MaxRPM: 1}, "b": {MaxRPM: 10}},
			Pools:  map[string]ratelimit.Pool{"p": {Models: []string{"*"}, Quota: ratelimit.ModelQuota{MaxInFlight: 2}}},
		})
		first, _ := l.rl.Reserve("a", 1, 1)
		l.comes("a", ratelimit.Request{Model: "a"})
		if r, d := l.rl.Reserve("b", 1, 1); r == nil {
			t.Errorf("%+v, want b beside the one that waits for a", d)
		} else {
			r.Cancel()
		}
		if d := l.rl.Decide("b", 1); !d.Allowed || !l.rl.CanSend("b", 1) {
			t.Errorf("%+v, want b", d)
		}
		l.comes("b0", ratelimit.Request{Model: "b"})
		l.expect("b0")
		l.comes("b1", ratelimit.Request{Model: "b"}) // two are in flight
		l.comes("c", ratelimit.Request{Model: "c"})
		if r, d := l.rl.Reserve("d", 1, 1); r != nil || d.Code != ratelimit.DecisionQueued || d.Pool != "p" {
			t.Errorf("%+v, want the line of the pool", d)
		}
		l.cancelLast()
		l.expect("b0 b1")
		time.Sleep(time.Minute + 1) // a has room, and its waiter came first
		first.Commit(1, 1)
		l.expect("b0 b1 a")
		l.cancelLast()
		l.expect("b0 b1 a c")
		l.wg.Wait()
		for range 2 {
			l.cancelLast()
		}
	})
}

// Each service costs as much with ten thousand waiters for a thousand models of a pool.
func BenchmarkPoolLine(b *testing.B) {
	for _, waiters := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprint(waiters), func(b *testing.B) { servePoolLine(b, waiters) })
	}
}

func servePoolLine(b *testing.B, waiters int) {
	rl := newLimiterWith(b, ratelimit.Config{
		Quotas: map[string]ratelimit.ModelQuota{"*": {MaxRPM: 1_000_000}},
		Pools:  map[string]ratelimit.Pool{"p": {Models: []string{"*"}, Quota: ratelimit.ModelQuota{MaxInFlight: 1}}},
	})
	held, _ := rl.Reserve("m0", 1, 1)
	served := make(chan *ratelimit.Reservation, waiters)
	var all sync.WaitGroup
	wait := func(i int) {
		all.Go(func() {
			r, err := rl.Acquire(b.Context(), fmt.Sprint("m", i%1000), 1, 1)
			if err == nil {
				served <- r
			}
		})
	}
	for i := range waiters {
		wait(i)
	}
	for rl.PoolStats("p").Waiting < waiters {
		time.Sleep(time.Millisecond)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		held.Cancel()
		held = <-served
		wait(i)
	}
	b.StopTimer()
	held.Cancel()
	for range waiters {
		(<-served).Cancel()
	}
	all.Wait()
}
