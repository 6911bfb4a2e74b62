// Processes that are killed, while they hold slots, lead the line, or write.

package redisstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/redisstore/internal/redistest"
)

// lease is the LeaseTTL of the tests. What a killed process held is free after that, and a tenth
// more; nobody may wait for longer than the slack of a slow machine beyond that.
const lease = time.Second

// The slots of a killed process are back within its lease, and wake who waits for them.
func TestKilledHolderOfSlots(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	o := orders{Addr: server.Addr(), Quota: ratelimit.ModelQuota{MaxInFlight: 3}, LeaseTTL: lease, Do: "hold"}
	rl := machine{addr: server.Addr(), limiter: o.config()}.start(t)
	c := startChild(t, o)
	for range 3 {
		c.tell("reserve")
		c.expect("ok")
	}
	if _, d := rl.Reserve(model, 1, 0); d.Code != ratelimit.DecisionInFlightLimit {
		t.Errorf("%q while another process holds all slots", d.Code)
	}
	c.tell("commit")
	c.expect("committed")
	mine, d := rl.Reserve(model, 1, 0)
	if mine == nil {
		t.Errorf("the slot is not free: %q", d.Code)
	}
	c.kill()
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), lease+slack)
	defer cancel()
	var all sync.WaitGroup
	var others [2]*ratelimit.Reservation
	for i := range others {
		all.Go(func() {
			var err error
			if others[i], err = rl.Acquire(ctx, model, 1, 0); err != nil {
				t.Errorf("after %v: %v", time.Since(began), err)
			}
		})
	}
	all.Wait()
	t.Logf("the slots were back after %v, with a lease of %v", time.Since(began), lease)
	if stats := rl.Stats(model); stats.InFlight != 3 || stats.RPM != 6 {
		t.Errorf("%d in flight and %d requests, want 3 and 6", stats.InFlight, stats.RPM)
	}
	runtime.KeepAlive(mine) // what the program drops is settled
	runtime.KeepAlive(&others)
}

// A process that stands first in line and is killed lets those behind it pass.
func TestKilledHeadOfTheLine(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	o := orders{Addr: server.Addr(), Quota: ratelimit.ModelQuota{MaxInFlight: 1}, LeaseTTL: lease, Do: "hold"}
	rl := machine{addr: server.Addr(), limiter: o.config()}.start(t)
	held, _ := rl.Reserve(model, 1, 0)
	c := startChild(t, o)
	c.tell("acquire")
	c.expect("waits")
	behind := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), lease+slack)
	defer cancel()
	go func() {
		_, err := rl.Acquire(ctx, model, 1, 0)
		behind <- err
	}()
	redistest.Eventually(t, "two wait", func() bool { return rl.Stats(model).Waiting == 2 })
	c.kill()
	began := time.Now()
	held.Commit(1, 0)
	if err := <-behind; err != nil {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
	t.Logf("who was behind passed after %v, with a lease of %v", time.Since(began), lease)
}

// A process that is stopped loses its place in line, and its slots once its lease is over. When it
// goes on it is one of all again.
func TestStoppedProcess(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	o := orders{Addr: server.Addr(), Quota: ratelimit.ModelQuota{MaxInFlight: 2}, LeaseTTL: lease, Do: "hold"}
	rl := machine{addr: server.Addr(), limiter: o.config()}.start(t)
	c := startChild(t, o)
	for range 2 {
		c.tell("reserve")
		c.expect("ok")
	}
	redistest.Stop(t, c.cmd.Process)
	ctx, cancel := context.WithTimeout(t.Context(), lease+slack)
	defer cancel()
	mine, err := rl.Acquire(ctx, model, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	redistest.Continue(t, c.cmd.Process)
	c.tell("reserve")
	if got, _ := c.line(); got != string(ratelimit.DecisionAllowed) && got != string(ratelimit.DecisionInFlightLimit) {
		t.Errorf("a process that goes on is answered %q", got)
	}
	mine.Commit(1, 0)
	c.tell("commit")
	c.expect("committed")
}

// What a process was told was admitted is counted when it is killed at any instant, and no more
// than one thing that it was not told of.
func TestKilledInTheMiddle(t *testing.T) {
	t.Parallel()
	const children = 2
	server := redistest.Start(t)
	var least, most sum
	for range times(5, 500) {
		var all sync.WaitGroup
		var mu sync.Mutex
		for range children {
			c := startChild(t, orders{Addr: server.Addr(), Quota: plenty[model], LeaseTTL: lease, Do: "hammer"})
			// How long a process lives is what this is about, so it is no wait for something.
			time.AfterFunc(time.Duration(5+rand.IntN(60))*time.Millisecond, func() { c.cmd.Process.Kill() })
			all.Go(func() {
				reserved, committed := 0, 0
				for line, ok := c.line(); ok; line, ok = c.line() {
					var what string
					var n int
					if _, err := fmt.Sscan(line, &what, &n); err != nil {
						t.Errorf("a process said %q", line)
						return
					}
					if reserved = n; what == "committed" {
						committed = n
					}
				}
				c.cmd.Wait()
				mu.Lock()
				defer mu.Unlock()
				tokens := committed * (committed + 1)
				if reserved > committed { // its commit may be written
					least = sum{least.requests + reserved, least.tokens + tokens + reserved}
					most = sum{most.requests + reserved, most.tokens + tokens + 2*reserved}
					return
				}
				least = sum{least.requests + reserved, least.tokens + tokens}
				most = sum{most.requests + reserved + 1, most.tokens + tokens + reserved + 1}
			})
		}
		all.Wait()
	}
	got := minuteOf(limiterOf(t, server.Addr()).Stats(model))
	if isLong() {
		got = dayOf(limiterOf(t, server.Addr()).Stats(model))
	}
	if got.requests < least.requests || got.requests > most.requests || got.tokens < least.tokens || got.tokens > most.tokens {
		t.Errorf("counted %+v, want %+v to %+v", got, least, most)
	}
	redistest.Eventually(t, "the slots are back", func() bool {
		rl := limiterOf(t, server.Addr())
		defer rl.Close()
		return rl.Stats(model).InFlight == 0
	})
	t.Logf("counted %+v of %+v to %+v", got, least, most)
}
