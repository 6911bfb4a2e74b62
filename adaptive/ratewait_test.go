package adaptive_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/adaptive"
	"dappco.re/go/core/go-ratelimit/limit"
)

// Waiters pass in the order in which they came, each when a unit is there.
func TestRateWaitIsFIFO(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRate(t, func(c *adaptive.RateConfig) { c.Ceiling = c.Floor })
		start := time.Now()
		var mu sync.Mutex
		var order []int
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() {
				if err := r.Wait(t.Context()); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				if took := time.Since(start); took != time.Duration(i)*time.Second {
					t.Errorf("waiter %d passed after %v", i, took)
				}
				order = append(order, i)
			})
			synctest.Wait()
		}
		wg.Wait()
		for i, n := range order {
			if i != n {
				t.Fatalf("order %v", order)
			}
		}
	})
}

// A waiter that gives up takes nothing, and the next one moves up.
func TestRateWaitCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRate(t, nil)
		r.Allow()
		start := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		first := make(chan error, 1)
		go func() { first <- r.Wait(ctx) }()
		synctest.Wait()
		second := make(chan error, 1)
		go func() { second <- r.Wait(t.Context()) }()
		synctest.Wait()
		cancel()
		if err := <-first; !errors.Is(err, context.Canceled) {
			t.Errorf("the first: %v", err)
		}
		if err := <-second; err != nil || time.Since(start) != time.Second {
			t.Errorf("the second: %v after %v", err, time.Since(start))
		}
		if err := r.Wait(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("after the end of the context: %v", err)
		}
	})
}

// A newcomer does not pass one that waits for more.
func TestRateWaitNobodyPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRate(t, func(c *adaptive.RateConfig) { c.Burst = 2 })
		r.Take(1)
		start := time.Now()
		first := make(chan time.Duration, 1)
		go func() {
			if err := r.WaitN(t.Context(), 2); err != nil {
				t.Error(err)
			}
			first <- time.Since(start)
		}()
		synctest.Wait()
		if err := r.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		if took := <-first; took != time.Second || time.Since(start) <= took {
			t.Errorf("the first passed after %v, the newcomer after %v", took, time.Since(start))
		}
	})
}

func TestRateWaitErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRate(t, func(c *adaptive.RateConfig) { c.Burst = 2 })
		if err := r.WaitN(t.Context(), 0); err != nil {
			t.Errorf("for nothing: %v", err)
		}
		for _, n := range []int{-1, 3} {
			if err := r.WaitN(t.Context(), n); !errors.Is(err, limit.ErrNeverFits) {
				t.Errorf("for %d: %v", n, err)
			}
		}
		r.Take(2)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second-1)
		defer cancel()
		start := time.Now()
		if err := r.Wait(ctx); !errors.Is(err, limit.ErrDeadline) || time.Since(start) > 0 {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

// A refusal that is reported while one waits adds to the wait.
func TestRateWaitHeedsTheGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRate(t, nil)
		r.Allow()
		start := time.Now()
		done := make(chan error, 2)
		go func() { done <- r.Wait(t.Context()) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		r.Refused(adaptive.Refusal{RetryAfter: 10 * time.Second})
		if err := r.Wait(ctx); !errors.Is(err, limit.ErrDeadline) {
			t.Errorf("with less time than the gate: %v", err)
		}
		if err := <-done; err != nil || time.Since(start) < 10*time.Second || time.Since(start) > 11250*time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

// Many goroutines take, wait, refuse and look. In no time passes more than the ceiling allows.
func TestRateRace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRate(t, func(c *adaptive.RateConfig) { c.Ceiling = limit.PerSecond(100) })
		ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
		defer cancel()
		var mu sync.Mutex
		var passed []time.Time
		var wg sync.WaitGroup
		for i := range 16 {
			wg.Go(func() {
				for n := 0; ctx.Err() == nil; {
					if i%2 == 0 && !r.Allow() {
						time.Sleep(time.Millisecond * time.Duration(i+1))
						continue
					} else if i%2 == 1 && r.Wait(ctx) != nil {
						return
					}
					mu.Lock()
					passed = append(passed, time.Now())
					mu.Unlock()
					if n++; n%97 == 96 {
						r.Refused(adaptive.Refusal{Sent: time.Now(), RetryAfter: time.Millisecond})
					}
					r.Restore(adaptive.RateState{}, time.Now())
					r.State()
				}
			})
		}
		wg.Wait()
		for i := range passed[1:] {
			if gap := passed[i+1].Sub(passed[i]); gap < 10*time.Millisecond {
				t.Fatalf("%v between two", gap)
			}
		}
		if len(passed) < 500 {
			t.Errorf("only %d passed", len(passed))
		}
	})
}
