package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/fakestore"
)

// A limiter that comes back from an outage as another one takes it out of the lines has its
// waiters in the lines once, for all: a place that nobody leaves would stop everybody behind it.
func TestOutageLeavesNoPlacesBehind(t *testing.T) {
	for round := range times(6, 2, 300) { // one in twelve met the moment
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, outageWithWaiters)
		})
	}
}

func outageWithWaiters(t *testing.T) {
	const limiters, callers, outage = 3, 3, 30 * time.Second
	quotas := map[string]ratelimit.ModelQuota{"m": {MaxRPM: 120, Burst: 500 * time.Millisecond}}
	fake := fakestore.New()
	ctx, cancel := context.WithCancel(t.Context())
	var passed atomic.Int32
	var under sync.WaitGroup
	var all []*ratelimit.RateLimiter
	for range limiters {
		rl := overStore(t, fake, ratelimit.Config{Quotas: quotas})
		all = append(all, rl)
		for range callers {
			under.Go(func() {
				for {
					r, err := rl.Acquire(ctx, "m", 0, 0)
					if err != nil {
						return
					}
					passed.Add(1)
					r.Commit(0, 0)
				}
			})
		}
	}
	time.Sleep(outage)
	fake.Fail(errors.New("down"))
	time.Sleep(outage)
	fake.Fail(nil)
	time.Sleep(4 * outage)
	passed.Store(0)
	time.Sleep(outage)
	if passed.Load() == 0 {
		t.Error("nobody passes")
	}
	for i, rl := range all {
		if n := rl.Stats("m").Waiting; n > limiters*callers {
			t.Errorf("limiter %d: %d wait, of %d", i, n, limiters*callers)
		}
	}
	cancel()
	under.Wait()
}
