package limit_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/limit"
)

func TestQueueWaitInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := must(limit.NewQueue(limit.PerSecond(1), 6))
		f := newFinishes()
		short, cancel := context.WithTimeout(t.Context(), 4*time.Second-1)
		defer cancel()
		f.wait(t.Context(), q, 1, 1)
		f.wait(t.Context(), q, 2, 2)
		f.wait(t.Context(), q, 3, 1)
		f.wait(short, q, 4, 1)
		if delay, _ := q.ReserveAt(time.Now(), 0); delay != 4*time.Second {
			t.Errorf("who cannot start in time has taken a slot: the next waits %v", delay)
		}
		f.wait(t.Context(), q, 5, 2)
		f.wait(t.Context(), q, 6, 1)
		if d := q.Take(0); d != (limit.Decision{OK: true, Remaining: 0, ResetAfter: 6 * time.Second}) {
			t.Errorf("of all that wait: %+v", d)
		}
		f.wait(t.Context(), q, 7, 7)
		f.wait(t.Context(), q, 8, -1)
		f.wait(t.Context(), q, 9, 0)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		f.wait(ended, q, 10, 1)
		time.Sleep(time.Minute)
		f.want(t, finish{1, 0, nil}, finish{4, 0, limit.ErrDeadline}, finish{6, 0, limit.ErrFull},
			finish{7, 0, limit.ErrNeverFits}, finish{8, 0, limit.ErrNeverFits}, finish{9, 0, nil}, finish{10, 0, context.Canceled},
			finish{2, time.Second, nil}, finish{3, 3 * time.Second, nil}, finish{5, 4 * time.Second, nil})
		if !errors.Is(q.WaitN(short, 1), context.DeadlineExceeded) {
			t.Error("an ended context")
		}
	})
}

// A waiter that gives up frees its slots at once: the waiters behind move up, but reserved
// slots do not.
func TestQueueWaitCancelled(t *testing.T) {
	const half = time.Second / 2
	for _, c := range []struct {
		name   string
		cancel int
		want   []finish
	}{
		{"the first", 2, []finish{{1, 0, nil}, {2, half, context.Canceled}, {3, half * 2, nil}, {4, half * 4, nil}, {5, half * 10, nil}}},
		{"the middle", 3, []finish{{1, 0, nil}, {3, half, context.Canceled}, {2, half * 2, nil}, {4, half * 4, nil}, {5, half * 10, nil}}},
		{"the last before a slot that stays", 4, []finish{{1, 0, nil}, {4, half, context.Canceled}, {2, half * 2, nil}, {3, half * 4, nil}, {5, half * 10, nil}}},
		{"the last", 5, []finish{{1, 0, nil}, {5, half, context.Canceled}, {2, half * 2, nil}, {3, half * 4, nil}, {4, half * 6, nil}}},
	} {
		synctest.Test(t, func(t *testing.T) {
			q := must(limit.NewQueue(limit.PerSecond(1), 10))
			f := newFinishes()
			var cancels [6]context.CancelFunc
			wait := func(who, n int) {
				ctx, cancel := context.WithCancel(t.Context())
				cancels[who] = cancel
				f.wait(ctx, q, who, n)
			}
			wait(1, 1) // at 0
			wait(2, 1) // at 1
			wait(3, 1) // at 2
			wait(4, 1) // at 3
			if delay, d := q.ReserveAt(time.Now(), 1); !d.OK || delay != 4*time.Second {
				t.Errorf("told to start after %v, %+v", delay, d)
			}
			wait(5, 2) // at 5, and it would take two slots to move up
			time.Sleep(half)
			cancels[c.cancel]()
			time.Sleep(time.Minute)
			if f.want(t, c.want...); t.Failed() {
				t.Log(c.name)
			}
			for _, cancel := range cancels[1:] {
				cancel()
			}
		})
	}
}

// A waiter skips a slot on hold, and is woken when that is cancelled.
func TestQueueWaitBehindAHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := must(limit.NewQueue(limit.PerSecond(1), 10))
		hold, _ := q.HoldAt(time.Now(), 2)
		f := newFinishes()
		f.wait(t.Context(), q, 1, 1)
		f.wait(t.Context(), q, 2, 1)
		if q.Allow() {
			t.Error("a slot now, behind those that wait")
		}
		time.Sleep(time.Second / 2)
		hold.Cancel()
		f.want(t, finish{1, time.Second / 2, nil})
		time.Sleep(time.Minute)
		f.want(t, finish{1, time.Second / 2, nil}, finish{2, 3 * time.Second / 2, nil})
	})
}

// On real threads no waiter is forgotten, and none starts early.
func TestQueueOnRealThreads(t *testing.T) {
	const interval = 100 * time.Microsecond
	q := must(limit.NewQueue(limit.Every(interval), 100))
	var wg sync.WaitGroup
	var passed atomic.Int64
	begin := time.Now()
	for i := range 100 {
		wg.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if i%5 == 0 {
				defer time.AfterFunc(time.Duration(i)*interval/2, cancel).Stop()
			}
			if q.Wait(ctx) == nil {
				passed.Add(1)
			}
		})
	}
	wg.Wait()
	if n := passed.Load(); n < 80 {
		t.Errorf("%d have started, 80 had no reason not to", n)
	} else if least, took := time.Duration(n-1)*interval, time.Since(begin); took < least {
		t.Errorf("%d have started in %v, want at least %v", n, took, least)
	}
}

// A deadline that is late enough does not stop a wait.
func TestQueueWaitInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := must(limit.NewQueue(limit.PerSecond(1), 2))
		q.Take(1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second+1)
		defer cancel()
		begin := time.Now()
		if err := q.Wait(ctx); err != nil || time.Since(begin) != time.Second {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
	})
}

// The line of a queue goes on under a single waiter, too.
func TestQueueOneWaitsBesideTheFuture(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := must(limit.NewQueue(limit.PerSecond(1), 10))
		q.Take(1)
		f := newFinishes()
		f.wait(t.Context(), q, 1, 1)
		q.TakeAt(time.Now().Add(80*years), 1)
		time.Sleep(time.Minute)
		f.want(t, finish{1, time.Second, nil})
	})
}

// A slot that is taken in the future does not move the waiters, even if one gives up.
func TestQueueWaitsOnBesideTheFuture(t *testing.T) {
	for _, away := range []time.Duration{time.Hour, 80 * years, 100 * years, 290 * years} {
		synctest.Test(t, func(t *testing.T) {
			q := must(limit.NewQueue(limit.PerSecond(1), 10))
			q.Take(1)
			begin := time.Now()
			var wg sync.WaitGroup
			ctx, cancel := context.WithCancel(t.Context())
			for i := 1; i <= 4; i++ {
				wg.Go(func() {
					if i == 2 {
						if err := q.Wait(ctx); err != context.Canceled {
							t.Errorf("%v: waiter %d: %v", away, i, err)
						}
						return
					}
					err := q.Wait(t.Context())
					if since := time.Since(begin); err != nil || since != time.Duration(i)*time.Second {
						t.Errorf("%v: waiter %d started after %v: %v", away, i, since, err)
					}
				})
				synctest.Wait()
			}
			if !q.TakeAt(begin.Add(away), 1).OK {
				t.Error("refused where nothing is taken")
			}
			cancel()
			wg.Wait()
		})
	}
}
