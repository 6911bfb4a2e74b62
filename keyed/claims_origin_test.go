// Claims about an Origin: what the documents promise, each tried from outside.

package keyed_test

import (
	"context"
	"errors"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/keyed"
	"dappco.re/go/core/go-ratelimit/keyed/keyedtest"
	"dappco.re/go/core/go-ratelimit/limit"
)

type claimOrigin struct {
	read        func(ctx context.Context, cells []keyed.Cell) ([]int64, error)
	add         func(ctx context.Context, r keyed.Replay) ([]int64, error)
	reads, adds atomic.Int64
}

func (o *claimOrigin) Read(ctx context.Context, cells []keyed.Cell) ([]int64, error) {
	o.reads.Add(1)
	return o.read(ctx, cells)
}

func (o *claimOrigin) Add(ctx context.Context, r keyed.Replay) ([]int64, error) {
	o.adds.Add(1)
	return o.add(ctx, r)
}

func claimHang[T any](ctx context.Context, _ T) ([]int64, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func claimFail[T any](ctx context.Context, _ T) ([]int64, error) { return nil, errors.New("down") }

func claimZero(_ context.Context, c []keyed.Cell) ([]int64, error) { return make([]int64, len(c)), nil }

func claimEcho(_ context.Context, r keyed.Replay) ([]int64, error) {
	c := make([]int64, len(r.Deltas))
	for i := range c {
		c[i] = r.Deltas[i].Add
	}
	return c, nil
}

func TestClaimRetry299(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &claimOrigin{read: claimFail[[]keyed.Cell], add: claimEcho}
		l := claimNew(t, keyed.Options{Origin: o})
		take := func() { l.Take(t.Context(), claimReq("k", 100, time.Hour, 1)) }
		take()
		if o.reads.Load() != 1 {
			t.Fatal(o.reads.Load())
		}
		time.Sleep(299 * time.Millisecond)
		take()
		if o.reads.Load() != 1 {
			t.Fatal("299", o.reads.Load())
		}
		time.Sleep(time.Millisecond)
		take()
		if o.reads.Load() != 2 {
			t.Fatal("300", o.reads.Load())
		}
		l.Close(t.Context())
	})
}

func TestClaimHangCosts300(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, ignore := range []bool{false, true} {
			block := make(chan struct{})
			o := &claimOrigin{read: claimHang[[]keyed.Cell], add: claimHang[keyed.Replay]}
			if ignore {
				o.read = func(context.Context, []keyed.Cell) ([]int64, error) { <-block; return nil, errors.New("x") }
			}
			l := claimNew(t, keyed.Options{Origin: o})
			start := time.Now()
			d, err := l.Take(t.Context(), claimReq("k", 100, time.Hour, 1))
			if took := time.Since(start); took > 300*time.Millisecond || err != nil || !d.OK {
				t.Error(took, d, err)
			}
			// 299 ms after the end no read, 300 ms after it one
			n := o.reads.Load()
			time.Sleep(299 * time.Millisecond)
			l.Take(t.Context(), claimReq("k", 100, time.Hour, 1))
			if o.reads.Load() != n {
				t.Error("read again after 299 ms")
			}
			time.Sleep(time.Millisecond)
			l.Take(t.Context(), claimReq("k", 100, time.Hour, 1))
			if o.reads.Load() != n+1 {
				t.Error("not read again after 300 ms")
			}
			// TakeAll, Hold
			start = time.Now()
			l.TakeAll(t.Context(), claimReq("m1", 100, time.Hour, 1), claimReq("m2", 100, time.Minute, 1), claimReq("m3", 100, time.Second, 1))
			if took := time.Since(start); took > 300*time.Millisecond {
				t.Error("many", took)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			start = time.Now()
			if err := l.Close(ctx); err == nil {
				t.Error("Close of ended ctx with a hanging origin: nil")
			}
			if took := time.Since(start); took > 0 {
				t.Error("close took", took)
			}
			ctx, cancel = context.WithTimeout(t.Context(), time.Second)
			if err := l.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			cancel()
			if _, err := l.Take(t.Context(), claimReq("k", 1, time.Hour, 1)); !errors.Is(err, keyed.ErrClosed) {
				t.Error(err)
			}
			if _, err := l.TakeAll(t.Context(), claimReq("k", 1, time.Hour, 1)); !errors.Is(err, keyed.ErrClosed) {
				t.Error(err)
			}
			close(block)
			synctest.Wait()
		}
	})
}

func TestClaimFresh5s(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &claimOrigin{read: claimZero, add: claimEcho}
		l := claimNew(t, keyed.Options{Origin: o})
		base := time.Now()
		at := func(d time.Duration) int64 {
			l.TakeAt(t.Context(), base.Add(d), claimReq("k", 1000, time.Hour, 1))
			return o.reads.Load()
		}
		if at(0) != 1 || at(5*time.Second-1) != 1 || at(5*time.Second) != 2 {
			t.Error(o.reads.Load())
		}
		l.Close(t.Context())
	})
}

func TestClaimOneReadManyCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cells atomic.Int64
		o := &claimOrigin{add: claimEcho}
		o.read = func(ctx context.Context, c []keyed.Cell) ([]int64, error) {
			cells.Store(int64(len(c)))
			time.Sleep(100 * time.Millisecond)
			return make([]int64, len(c)), nil
		}
		l := claimNew(t, keyed.Options{Origin: o})
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() { l.Take(t.Context(), claimReq("k", 1000, time.Hour, 1)) })
		}
		wg.Wait()
		if o.reads.Load() != 1 || cells.Load() != 2 {
			t.Error(o.reads.Load(), cells.Load())
		}
		l.Close(t.Context())
	})
}

func TestClaimBreaker(t *testing.T) {
	for _, tt := range []struct {
		calls, failures int
		open            bool
	}{{19, 19, false}, {20, 20, true}, {20, 10, true}, {100, 49, false}, {20, 9, false}} {
		synctest.Test(t, func(t *testing.T) {
			n := 0
			var failing atomic.Bool
			o := &claimOrigin{add: claimEcho}
			o.read = func(ctx context.Context, c []keyed.Cell) ([]int64, error) {
				if failing.Load() {
					return nil, errors.New("down")
				}
				return make([]int64, len(c)), nil
			}
			l := claimNew(t, keyed.Options{Origin: o})
			now := time.Now()
			take := func(at time.Time) {
				n++
				l.TakeAt(t.Context(), at, claimReq(string(rune(0x4e00+n)), 1000, time.Hour, 1))
			}
			for i := range tt.calls {
				failing.Store(i >= tt.calls-tt.failures)
				take(now)
			}
			before := o.reads.Load()
			take(now)
			open := o.reads.Load() == before
			if open != tt.open {
				t.Errorf("%+v: open %v", tt, open)
			}
			if tt.open {
				failing.Store(false)
				take(now.Add(5*time.Second - time.Millisecond))
				if o.reads.Load() != before {
					t.Error("4.999 s")
				}
				take(now.Add(5 * time.Second))
				if o.reads.Load() != before+1 {
					t.Error("5 s")
				}
				take(now.Add(5 * time.Second))
				if o.reads.Load() != before+2 {
					t.Error("not closed after a success")
				}
			}
			l.Close(t.Context())
		})
	}
}

func TestClaimLyingOrigin(t *testing.T) {
	lies := map[string]func(n int) []int64{
		"negative": func(n int) []int64 { return slices.Repeat([]int64{-5}, n) },
		"min":      func(n int) []int64 { return slices.Repeat([]int64{math.MinInt64}, n) },
		"nil":      func(n int) []int64 { return nil },
		"more":     func(n int) []int64 { return make([]int64, n+1) },
	}
	for name, lie := range lies {
		for _, phase := range []string{"read", "add", "both"} {
			t.Run(name+" "+phase, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					honest := keyedtest.NewOrigin()
					var lying atomic.Bool
					lying.Store(true)
					o := &claimOrigin{read: honest.Read, add: honest.Add}
					if phase != "add" {
						o.read = func(ctx context.Context, c []keyed.Cell) ([]int64, error) {
							if lying.Load() {
								return lie(len(c)), nil
							}
							return honest.Read(ctx, c)
						}
					}
					if phase != "read" {
						o.add = func(ctx context.Context, r keyed.Replay) ([]int64, error) {
							counts, err := honest.Add(ctx, r)
							if lying.Load() {
								return lie(len(r.Deltas)), nil
							}
							return counts, err
						}
					}
					l := claimNew(t, keyed.Options{Origin: o})
					ok := 0
					for range 20 {
						d, err := l.Take(t.Context(), claimReq("k", 10, time.Hour, 1))
						if err != nil {
							t.Fatal(err)
						}
						if d.OK {
							ok++
						}
						time.Sleep(400 * time.Millisecond)
					}
					if ok != 10 {
						t.Errorf("admitted %d of a limit of 10", ok)
					}
					lying.Store(false)
					time.Sleep(20 * time.Second)
					d, _ := l.Take(t.Context(), claimReq("k", 20, time.Hour, 10))
					if ok == 10 && !d.OK {
						t.Errorf("honest again: %+v", d)
					}
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					if err := l.Close(ctx); err != nil {
						t.Error(err)
					}
					if err := l.Close(ctx); err != nil {
						t.Error(err)
					}
					if n := honest.Total("chat", "k"); n != 20 {
						t.Errorf("origin has %d, want 20", n)
					}
				})
			})
		}
	}
}

func TestClaimStrict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &claimOrigin{read: claimZero, add: claimEcho}
		l := claimNew(t, keyed.Options{Origin: o})
		take := func(cost int) limit.Decision {
			d, _ := l.Take(t.Context(), claimReq("k", 10, time.Minute, cost))
			return d
		}
		take(1)
		n := o.reads.Load()
		if d := take(11); !d.Never {
			t.Error(d)
		}
		take(1)
		if o.reads.Load() != n {
			t.Error("oversized put into strict mode")
		}
		l.TakeAll(t.Context(), claimReq("k", 10, time.Minute, 6), claimReq("k", 10, time.Minute, 6))
		take(1)
		if o.reads.Load() != n {
			t.Error("oversized batch put into strict mode")
		}
		if d := take(10); d.OK {
			t.Error(d)
		}
		if o.reads.Load() != n {
			t.Error("a denial asked")
		}
		take(1)
		if o.reads.Load() != n+1 {
			t.Error("an allow in strict mode did not ask")
		}
		take(10)
		if o.reads.Load() != n+1 {
			t.Error("a local denial in strict mode asked")
		}
		l.Close(t.Context())
	})
}

func TestClaimGoroutines(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 20 {
		l := claimNew(t, keyed.Options{Origin: keyedtest.NewOrigin(), Exchange: keyedtest.NewExchange(), Region: "eu", ExchangeEvery: time.Millisecond})
		l.Take(t.Context(), claimReq("k", 1, time.Hour, 1))
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	time.Sleep(50 * time.Millisecond)
	if n := runtime.NumGoroutine(); n > before+1 {
		t.Error(before, n)
	}
}

func TestClaimEmptyBatch(t *testing.T) {
	l := claimNew(t, keyed.Options{})
	ds, err := l.TakeAll(t.Context())
	if err != nil || len(ds) != 0 {
		t.Error(ds, err)
	}
	l.Close(t.Context())
	if _, err := l.TakeAll(t.Context()); !errors.Is(err, keyed.ErrClosed) {
		t.Errorf("empty batch after Close: %v", err)
	}
}
