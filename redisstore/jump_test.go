// The server's clock dates the events: where it jumps, windows neither open early nor stay closed.

package redisstore_test

import (
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/redisstore/internal/redistest"
)

// jumps are how far the clock jumps. In the short form of a test it is the first three.
var jumps = []time.Duration{time.Hour, -time.Hour, 5 * time.Second, -5 * time.Second, 200 * time.Millisecond}[:times(3, 5)]

// full is a quota of a few requests, all of which used uses.
var full = map[string]ratelimit.ModelQuota{model: {MaxRPM: 3, MaxRPD: 100}}

// use uses the quota full up, and returns when the first of its charges was made.
func use(t testing.TB, rl *ratelimit.RateLimiter) (began time.Time) {
	t.Helper()
	began = time.Now()
	for range 3 {
		r, d := rl.Reserve(model, 1, 0)
		if r == nil {
			t.Fatalf("Reserve: %s", d.Reason)
		}
		r.Commit(1, 0)
	}
	return began
}

// isFull checks that a limiter denies for the rest of the minute, and no longer.
func isFull(t testing.TB, what string, rl *ratelimit.RateLimiter, began time.Time) {
	t.Helper()
	_, d := rl.Reserve(model, 1, 0)
	least := time.Minute - time.Since(began)
	if d.Code != ratelimit.DecisionRPMLimit || d.RetryAfter < least-slack || d.RetryAfter > time.Minute {
		t.Errorf("%s: %q for %v, want at least %v", what, d.Code, d.RetryAfter, least)
	}
	if day := d.Stats.RPD; day != 3 {
		t.Errorf("%s: %d requests in the day, want 3", what, day)
	}
}

func TestServerClockJumps(t *testing.T) {
	t.Parallel()
	for _, by := range jumps {
		t.Run(fmt.Sprint("by ", by), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, redistest.Ahead(0))
			m := machine{addr: server.Addr(), limiter: ratelimit.Config{Quotas: full}}
			one, two := m.start(t), m.start(t)
			began := use(t, one)
			isFull(t, "before the jump", two, began)
			server.SetAhead(by)
			isFull(t, "who has charged", one, began)
			isFull(t, "who has read", two, began)
			isFull(t, "who comes after the jump", m.start(t), began)
			server.SetAhead(-by)
			isFull(t, "who has read, after the second jump", two, began)
			isFull(t, "who comes after the second jump", m.start(t), began)
		})
	}
}

// A limiter that nobody calls notices the jump for those who come later. Only who comes before
// that, within a second of the jump, cannot know of it.
func TestServerClockJumpsWhileNobodyCalls(t *testing.T) {
	t.Parallel()
	for _, by := range jumps {
		t.Run(fmt.Sprint("by ", by), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, redistest.Ahead(0))
			m := machine{addr: server.Addr(), limiter: ratelimit.Config{Quotas: full}}
			began := use(t, m.start(t))
			server.SetAhead(by)
			isFull(t, "who comes after the jump", m.start(t), began)
		})
	}
}

// A replica with another clock takes over.
func TestFailoverToAnotherClock(t *testing.T) {
	t.Parallel()
	for _, by := range jumps {
		t.Run(fmt.Sprint("by ", by), func(t *testing.T) {
			t.Parallel()
			master, replica := redistest.Start(t), redistest.Start(t, redistest.Ahead(by))
			replica.Do("REPLICAOF", "127.0.0.1", strconv.Itoa(master.Port()))
			proxy := redistest.NewProxy(t, master.Addr())
			m := machine{addr: proxy.Addr(), limiter: ratelimit.Config{Quotas: full}}
			one, two := m.start(t), m.start(t)
			began := use(t, one)
			isFull(t, "before the failover", two, began)
			redistest.Eventually(t, "the replica has everything", func() bool {
				return replica.Do("ROLE").([]any)[3] == "connected" && replica.Do("ROLE").([]any)[4] == master.Do("ROLE").([]any)[1]
			})
			replica.Do("REPLICAOF", "NO", "ONE")
			proxy.Retarget(replica.Addr())
			isFull(t, "who has charged", one, began)
			isFull(t, "who has read", two, began)
			isFull(t, "who comes after the failover", m.start(t), began)
		})
	}
}

// Slots are kept, and leases run on, when the clock jumps.
func TestServerClockJumpsWhileSlotsAreHeld(t *testing.T) {
	t.Parallel()
	for _, by := range jumps {
		t.Run(fmt.Sprint("by ", by), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, redistest.Ahead(0))
			m := machine{addr: server.Addr(), limiter: ratelimit.Config{
				LeaseTTL: 3 * lease, Quotas: map[string]ratelimit.ModelQuota{model: {MaxInFlight: 1}},
			}}
			one, two := m.start(t), m.start(t)
			held, _ := one.Reserve(model, 1, 0)
			server.SetAhead(by)
			until := time.Now().Add(4 * lease)
			for time.Now().Before(until) { // in which the lease is renewed several times, or ends
				if r, _ := two.Reserve(model, 1, 0); r != nil {
					t.Fatal("a slot was given twice")
				}
				time.Sleep(lease / 50)
			}
			held.Commit(1, 0)
			awaitStore(t, one)
			redistest.Eventually(t, "the slot is free", func() bool {
				r, _ := two.Reserve(model, 1, 0)
				return r != nil
			})
		})
	}
}

// The estimate of the time is late by the way of a reply, and so before the last event of another
// process. A jump is noticed nonetheless.
func TestServerClockJumpsForWhoHearsLate(t *testing.T) {
	t.Parallel()
	for _, by := range jumps[:2] {
		t.Run(fmt.Sprint("by ", by), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, redistest.Ahead(0))
			proxy := redistest.NewProxy(t, server.Addr())
			proxy.Set(redistest.Faults{Delay: 100 * time.Millisecond})
			slot := ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{model: {MaxInFlight: 1}}}
			near := machine{addr: server.Addr(), limiter: slot}.start(t)
			far := machine{addr: proxy.Addr(), limiter: slot}.start(t)
			held, d := near.Reserve(model, 1, 0)
			if held == nil {
				t.Fatal(d.Reason)
			}
			server.SetAhead(by)
			if r, _ := far.Reserve(model, 1, 0); r != nil {
				t.Error("a slot was given twice")
			}
			runtime.KeepAlive(held) // dropped, it is released
		})
	}
}
