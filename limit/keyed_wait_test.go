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

// takeOnly hides everything but TakeAt, so that a Keyed waits in its stead.
type takeOnly struct{ of limit.Limiter }

func (l takeOnly) TakeAt(now time.Time, n int) limit.Decision { return l.of.TakeAt(now, n) }

// Waits charge what they ask for, in the order in which they came, whether the limiter waits
// itself or the Keyed waits for it.
func TestKeyedWaitCharges(t *testing.T) {
	for _, own := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			k := must(limit.NewKeyed(2, keyedIdle, func(string) (limit.Limiter, error) {
				g, err := limit.NewGCRA(limit.PerSecond(1), 3)
				if own {
					return takeOnly{g}, err
				}
				return g, err
			}))
			if err := k.Wait(t.Context(), "key"); err != nil {
				t.Error(err)
			}
			if d := must(k.Take("key", 0)); d.Remaining != 2 {
				t.Errorf("own %v: %d remain, want 2", own, d.Remaining)
			}
			f := newFinishes()
			f.wait(t.Context(), ofKey{k}, 1, 3) // at 1 s
			f.wait(t.Context(), ofKey{k}, 2, 2) // at 3 s, though 2 are there
			time.Sleep(time.Minute)
			f.want(t, finish{1, time.Second, nil}, finish{2, 3 * time.Second, nil})
		})
	}
}

// A Keyed waits with the methods of the limiter, which learn of the end of a hold at once.
func TestKeyedWaitForAHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keyed[string](t, 1, keyedIdle, limit.PerSecond(1), 1)
		hold, _, err := k.HoldAt("a", time.Now(), 1)
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		time.AfterFunc(time.Millisecond, hold.Cancel)
		if err := k.Wait(t.Context(), "a"); err != nil || time.Since(begin) != time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
	})
}

func TestKeyedWait(t *testing.T) {
	t.Run("for its limiter", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			k := keyed[string](t, 1, keyedIdle, limit.PerSecond(1), 1)
			start := time.Now()
			for i := range 3 {
				if err := k.Wait(t.Context(), "a"); err != nil || time.Since(start) != time.Duration(i)*time.Second {
					t.Errorf("%v after %v", err, time.Since(start))
				}
			}
			// It was charged at 2 s, so its place is free at 3 s.
			if d, _ := k.Take("b", 1); d.RetryAfter != time.Second {
				t.Errorf("%+v", d)
			}
			if err := k.WaitN(t.Context(), "a", 2); !errors.Is(err, limit.ErrNeverFits) {
				t.Error(err)
			}
		})
	})
	t.Run("for a place", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			k := keyed[string](t, 1, keyedIdle, limit.PerSecond(1), 1)
			k.Allow("a")
			start := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second-1)
			defer cancel()
			if err := k.Wait(ctx, "b"); !errors.Is(err, limit.ErrDeadline) || time.Since(start) != 0 {
				t.Errorf("%v after %v", err, time.Since(start))
			}
			if err := k.WaitN(t.Context(), "b", -1); !errors.Is(err, limit.ErrNeverFits) {
				t.Error(err)
			}
			if err := k.WaitN(t.Context(), "b", 0); err != nil || time.Since(start) != 0 {
				t.Errorf("nothing: %v after %v", err, time.Since(start))
			}
			if err := k.Wait(t.Context(), "b"); err != nil || time.Since(start) != time.Second {
				t.Errorf("%v after %v", err, time.Since(start))
			}
			time.Sleep(time.Second / 3)
			if err := k.Wait(t.Context(), "c"); err != nil || time.Since(start) != 2*time.Second {
				t.Errorf("%v after %v", err, time.Since(start))
			}
		})
	})
	t.Run("with a context that has ended", func(t *testing.T) {
		made := 0
		k := must(limit.NewKeyed(1, keyedIdle, func(string) (limit.Limiter, error) {
			made++
			return limit.NewGCRA(limit.PerSecond(1), 1)
		}))
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := k.Wait(ended, "a"); err != context.Canceled || made != 0 {
			t.Errorf("%v, and %d limiters were made", err, made)
		}
	})
	t.Run("for a place that is on hold", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			k := keyed[string](t, 1, keyedIdle, limit.PerSecond(1), 1)
			start := time.Now()
			hold, d, err := k.HoldAt("a", start, 1)
			if err != nil || !d.OK {
				t.Fatalf("%+v, %v", d, err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if err := k.Wait(ctx, "b"); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 10*time.Second {
				t.Errorf("%v after %v", err, time.Since(start))
			}
			time.AfterFunc(10*time.Millisecond, hold.Commit)
			if err := k.Wait(t.Context(), "b"); err != nil || time.Since(start) != 10*time.Second+100*time.Millisecond {
				t.Errorf("%v after %v", err, time.Since(start))
			}
		})
	})
	t.Run("keeps its limiter", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var left atomic.Int64
			k, err := limit.NewKeyed(1, time.Second, func(key string) (limit.Limiter, error) {
				if key == "own" {
					return ownLimiter(func(_ time.Time, n int) limit.Decision {
						return limit.Decision{OK: int64(n) <= left.Load(), RetryAfter: 10 * time.Second}
					}), nil
				}
				return limit.NewGCRA(limit.PerSecond(1), 1)
			})
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			var group sync.WaitGroup
			group.Go(func() {
				if err := k.Wait(t.Context(), "own"); err != nil || time.Since(start) != 10*time.Second {
					t.Errorf("%v after %v", err, time.Since(start))
				}
			})
			time.Sleep(5 * time.Second)
			if d, err := k.Take("a", 1); d != (limit.Decision{}) || err != nil {
				t.Errorf("somebody waits in the only place: %+v, %v", d, err)
			}
			left.Store(1)
			group.Wait()
			if !k.Allow("a") {
				t.Error("nobody waits any more")
			}
		})
	})
}
