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
		})
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
