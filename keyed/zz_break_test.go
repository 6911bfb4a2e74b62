package keyed_test

import (
	"context"
	"errors"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/keyed"
	"dappco.re/go/core/go-ratelimit/keyed/keyedtest"
	"dappco.re/go/core/go-ratelimit/limit"
)

func zzNew(t *testing.T, o keyed.Options) *keyed.Limiter {
	t.Helper()
	l, err := keyed.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func zzReq(key string, lim int64, w time.Duration, cost int64) keyed.Request {
	return keyed.Request{Namespace: "chat", Key: key, Limit: lim, Window: w, Cost: cost}
}

func TestZZTwice262(t *testing.T) {
	l := zzNew(t, keyed.Options{})
	now := time.Unix(1_700_000_000, 0)
	r := zzReq("k", 1<<62, time.Minute, 1<<62)
	d1, err1 := l.TakeAt(t.Context(), now, r)
	d2, err2 := l.TakeAt(t.Context(), now, r)
	if err1 != nil || err2 != nil || !d1.OK || d2.OK {
		t.Errorf("%+v %v %+v %v", d1, err1, d2, err2)
	}
	l = zzNew(t, keyed.Options{})
	ds, err := l.TakeManyAt(t.Context(), now, r, r)
	if err != nil || ds[0].OK && ds[1].OK {
		t.Errorf("%+v %v", ds, err)
	}
	if d, _ := l.TakeAt(t.Context(), now, r); !d.OK {
		t.Errorf("batch left something: %+v", d)
	}
	r2 := r
	r2.Key, r2.Limit, r2.Cost = "z", math.MaxInt64, math.MaxInt64
	ds, _ = l.TakeManyAt(t.Context(), now, r2, r2, r2)
	if ds[0].OK && ds[1].OK && ds[2].OK {
		t.Error("3 x MaxInt64")
	}
}

func TestZZBadInput(t *testing.T) {
	l := zzNew(t, keyed.Options{})
	ctx := t.Context()
	good := zzReq("k", 5, time.Minute, 1)
	bads := []keyed.Request{}
	for _, f := range []func(*keyed.Request){
		func(r *keyed.Request) { r.Key = "" }, func(r *keyed.Request) { r.Namespace = "" },
		func(r *keyed.Request) { r.Limit = 0 }, func(r *keyed.Request) { r.Limit = math.MinInt64 },
		func(r *keyed.Request) { r.Cost = -1 }, func(r *keyed.Request) { r.Cost = math.MinInt64 },
		func(r *keyed.Request) { r.Window = 0 }, func(r *keyed.Request) { r.Window = time.Millisecond - 1 },
		func(r *keyed.Request) { r.Window = 400*24*time.Hour + 1 }, func(r *keyed.Request) { r.Window = -time.Hour },
	} {
		b := good
		f(&b)
		bads = append(bads, b)
	}
	for _, b := range bads {
		if d, err := l.Take(ctx, b); !errors.Is(err, limit.ErrInvalid) || d.OK {
			t.Errorf("%+v: %+v %v", b, d, err)
		}
		if ds, err := l.TakeMany(ctx, good, b, good); !errors.Is(err, limit.ErrInvalid) || len(ds) != 0 {
			t.Errorf("%+v: %+v %v", b, ds, err)
		}
		h, d, err := l.Hold(ctx, b)
		if !errors.Is(err, limit.ErrInvalid) || d.OK {
			t.Errorf("%+v: %+v %v", b, d, err)
		}
		h.Commit(3)
		h.Release()
	}
	if l.Len() != 0 {
		t.Error("bad input changed something", l.Len())
	}
	now := time.Now()
	for _, w := range []time.Duration{time.Millisecond, 400 * 24 * time.Hour} {
		r := zzReq("w", 1, w, 1)
		d1, err := l.TakeAt(ctx, now, r)
		d2, _ := l.TakeAt(ctx, now, r)
		if err != nil || !d1.OK || d2.OK || d2.RetryAfter <= 0 {
			t.Errorf("%v %+v %+v %v", w, d1, d2, err)
		}
		early, _ := l.TakeAt(ctx, now.Add(d2.RetryAfter-1), r)
		at, _ := l.TakeAt(ctx, now.Add(d2.RetryAfter), r)
		if early.OK || !at.OK {
			t.Errorf("%v early %+v at %+v wait %v", w, early, at, d2.RetryAfter)
		}
	}
}

func TestZZSlice(t *testing.T) {
	l := zzNew(t, keyed.Options{})
	rs := []keyed.Request{zzReq("b", 5, time.Minute, 1), zzReq("a", 5, time.Minute, 2), zzReq("b", 5, time.Minute, 1)}
	c := slices.Clone(rs)
	l.TakeMany(t.Context(), rs...)
	l.TakeMany(t.Context(), rs...)
	l.TakeMany(t.Context(), rs...)
	if !slices.Equal(rs, c) {
		t.Error(rs)
	}
}

func TestZZParts(t *testing.T) {
	l := zzNew(t, keyed.Options{})
	names := [][2]string{{"a-b", "c"}, {"a", "b-c"}, {"a\x00", "b"}, {"a", "\x00b"}, {"ab", ""}, {"a", "b"}, {"b", "a"}, {"aa", "a"}, {"a", "aa"}, {"x", "x"}, {"y", "y"},
		{"1:a", "b"}, {"1", ":ab"}, {strings.Repeat("n", 300), strings.Repeat("k", 300)}, {strings.Repeat("n", 300), strings.Repeat("k", 299)}, {strings.Repeat("n", 299), strings.Repeat("k", 300)}, {"a", strings.Repeat("k", 46)}, {"a", strings.Repeat("k", 47)}}
	for _, n := range names {
		if n[1] == "" {
			continue
		}
		for _, w := range []time.Duration{time.Minute, time.Hour} {
			d, err := l.Take(t.Context(), keyed.Request{Namespace: n[0], Key: n[1], Limit: 1, Window: w, Cost: 1})
			if err != nil || !d.OK {
				t.Errorf("%q %v %+v %v", n, w, d, err)
			}
		}
	}
}

func TestZZInstants(t *testing.T) {
	for _, start := range []time.Time{time.Unix(-1, 5), time.Unix(0, 0), time.Unix(0, -1), time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC), {}, time.Date(-5000, 1, 1, 0, 0, 0, 7, time.UTC),
		time.Date(2262, 4, 11, 23, 47, 16, 0, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 999, time.UTC), time.Date(200000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(1677, 9, 21, 0, 12, 43, 0, time.UTC)} {
		for _, w := range []time.Duration{time.Millisecond, 7 * time.Millisecond, time.Second, time.Minute, 400 * 24 * time.Hour} {
			l := zzNew(t, keyed.Options{})
			r := zzReq("k", 7, w, 1)
			now := start
			for range 30 {
				d, err := l.TakeAt(t.Context(), now, r)
				if err != nil {
					t.Fatal(err)
				}
				if d.OK {
					continue
				}
				if d.RetryAfter <= 0 {
					t.Fatalf("%v %v %+v", start, w, d)
				}
				e, _ := l.TakeAt(t.Context(), now.Add(d.RetryAfter-1), r)
				if e.OK {
					t.Fatalf("%v %v early %+v", start, w, d)
				}
				p := r
				p.Cost = 0
				now = now.Add(d.RetryAfter)
				a, _ := l.TakeAt(t.Context(), now, r)
				if !a.OK {
					t.Fatalf("%v %v at %+v: %+v", start, w, d, a)
				}
			}
		}
	}
}

// count of admitted in cells with mixed ops, including hold.
func TestZZHoldWait(t *testing.T) {
	l := zzNew(t, keyed.Options{})
	now := time.Unix(1_700_000_040, 0)
	r := zzReq("k", 10, time.Minute, 4)
	l.TakeAt(t.Context(), now, r)
	h, d, err := l.HoldAt(t.Context(), now, r)
	if err != nil || !d.OK || d.Remaining != 2 {
		t.Fatalf("%+v %v", d, err)
	}
	d, _ = l.TakeAt(t.Context(), now, r)
	if d.OK || d.Remaining != 2 || d.RetryAfter <= 0 {
		t.Errorf("%+v", d)
	}
	e, _ := l.TakeAt(t.Context(), now.Add(d.RetryAfter-1), r)
	a, _ := l.TakeAt(t.Context(), now.Add(d.RetryAfter), r)
	if e.OK || !a.OK {
		t.Errorf("%+v %+v %+v", d, e, a)
	}
	h.CommitAt(now, 100)
	h.Release()
	h.Commit(7)
}

func TestZZExact(t *testing.T) {
	for _, L := range []int64{1, 7, 1000} {
		l := zzNew(t, keyed.Options{})
		now := time.Unix(1_700_000_000, 0)
		var n atomic.Int64
		var wg sync.WaitGroup
		for g := range 16 {
			wg.Go(func() {
				for range 300 {
					switch g % 4 {
					case 0, 1:
						d, _ := l.TakeAt(t.Context(), now, zzReq("k", L, time.Minute, 1))
						if d.OK {
							n.Add(1)
						}
					case 2:
						ds, _ := l.TakeManyAt(t.Context(), now, zzReq("k", L, time.Minute, 1), zzReq("o", 1e6, time.Minute, 1))
						if ds[0].OK && ds[1].OK {
							n.Add(1)
						}
					default:
						h, d, _ := l.HoldAt(t.Context(), now, zzReq("k", L, time.Minute, 1))
						if d.OK {
							h.CommitAt(now, 1)
							n.Add(1)
						}
					}
				}
			})
		}
		wg.Wait()
		if n.Load() != L {
			t.Errorf("L %d got %d", L, n.Load())
		}
	}
}

func TestZZMaxKeys1(t *testing.T) {
	l := zzNew(t, keyed.Options{MaxKeys: 1})
	now := time.Unix(1_700_000_000, 0)
	ok := map[string]int{}
	for i := range 1000 {
		k := string(rune('a' + i%3))
		d, err := l.TakeAt(t.Context(), now, zzReq(k, 5, time.Minute, 1))
		if err != nil {
			t.Fatal(err)
		}
		if d.OK {
			ok[k]++
		}
		if l.Len() > 1 {
			t.Fatal(l.Len())
		}
	}
	for k, n := range ok {
		if n > 5 {
			t.Errorf("%s %d", k, n)
		}
	}
	t.Log(ok)
}

func TestZZBatchMoreThanMaxKeys(t *testing.T) {
	l := zzNew(t, keyed.Options{MaxKeys: 1})
	now := time.Unix(1_700_000_000, 0)
	ds, err := l.TakeManyAt(t.Context(), now, zzReq("a", 5, time.Minute, 1), zzReq("b", 5, time.Minute, 1))
	t.Logf("%+v %v", ds, err)
	d, _ := l.TakeAt(t.Context(), now, zzReq("c", 5, time.Minute, 5))
	if !d.OK {
		t.Errorf("after a failed batch: %+v", d)
	}
}

func TestZZInterleaving(t *testing.T) {
	// hold 3 on 5, merge 10, release must leave 10; a request of 3 at limit 10 then refused.
	synctest.Test(t, func(t *testing.T) {
		o := keyedtest.NewOrigin()
		l := zzNew(t, keyed.Options{Origin: o})
		now := time.Now()
		r := zzReq("k", 10, time.Minute, 5)
		if d, _ := l.TakeAt(t.Context(), now, r); !d.OK {
			t.Fatal(d)
		}
		synctest.Wait()
		h, d, _ := l.HoldAt(t.Context(), now, zzReq("k", 10, time.Minute, 3))
		if !d.OK {
			t.Fatal(d)
		}
		o.Charge(keyed.Cell{Namespace: "chat", Key: "k", Window: time.Minute, Sequence: now.UnixNano() / int64(time.Minute)}, 5)
		time.Sleep(6 * time.Second)
		l.TakeAt(t.Context(), time.Now(), zzReq("k", 100, time.Minute, 0))
		h.Release()
		d, _ = l.TakeAt(t.Context(), time.Now(), zzReq("k", 20, time.Minute, 0))
		if d.Remaining != 10 {
			t.Errorf("want 10 counted: %+v", d)
		}
		d, _ = l.TakeAt(t.Context(), time.Now(), zzReq("k", 10, time.Minute, 3))
		if d.OK {
			t.Errorf("%+v", d)
		}
		l.Close(t.Context())
	})
}

type zzOrigin struct {
	read        func(ctx context.Context, cells []keyed.Cell) ([]int64, error)
	add         func(ctx context.Context, r keyed.Replay) ([]int64, error)
	reads, adds atomic.Int64
}

func (o *zzOrigin) Read(ctx context.Context, cells []keyed.Cell) ([]int64, error) {
	o.reads.Add(1)
	return o.read(ctx, cells)
}

func (o *zzOrigin) Add(ctx context.Context, r keyed.Replay) ([]int64, error) {
	o.adds.Add(1)
	return o.add(ctx, r)
}

func zzHang[T any](ctx context.Context, _ T) ([]int64, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func zzFail[T any](ctx context.Context, _ T) ([]int64, error) { return nil, errors.New("down") }

func zzZero(_ context.Context, c []keyed.Cell) ([]int64, error) { return make([]int64, len(c)), nil }

func zzEcho(_ context.Context, r keyed.Replay) ([]int64, error) {
	c := make([]int64, len(r.Deltas))
	for i := range c {
		c[i] = r.Deltas[i].Add
	}
	return c, nil
}

func TestZZRetry299(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &zzOrigin{read: zzFail[[]keyed.Cell], add: zzEcho}
		l := zzNew(t, keyed.Options{Origin: o})
		take := func() { l.Take(t.Context(), zzReq("k", 100, time.Hour, 1)) }
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

func TestZZHangCosts300(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, ignore := range []bool{false, true} {
			block := make(chan struct{})
			o := &zzOrigin{read: zzHang[[]keyed.Cell], add: zzHang[keyed.Replay]}
			if ignore {
				o.read = func(context.Context, []keyed.Cell) ([]int64, error) { <-block; return nil, errors.New("x") }
			}
			l := zzNew(t, keyed.Options{Origin: o})
			start := time.Now()
			d, err := l.Take(t.Context(), zzReq("k", 100, time.Hour, 1))
			if took := time.Since(start); took > 300*time.Millisecond || err != nil || !d.OK {
				t.Error(took, d, err)
			}
			// hang then 299 ms after the end no read, 300 yes
			start = time.Now()
			n := o.reads.Load()
			time.Sleep(299 * time.Millisecond)
			l.Take(t.Context(), zzReq("k", 100, time.Hour, 1))
			if o.reads.Load() != n {
				t.Error("read again after 299 ms")
			}
			time.Sleep(time.Millisecond)
			l.Take(t.Context(), zzReq("k", 100, time.Hour, 1))
			if o.reads.Load() != n+1 {
				t.Error("not read again after 300 ms")
			}
			// TakeMany, Hold
			start = time.Now()
			l.TakeMany(t.Context(), zzReq("m1", 100, time.Hour, 1), zzReq("m2", 100, time.Minute, 1), zzReq("m3", 100, time.Second, 1))
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
			if _, err := l.Take(t.Context(), zzReq("k", 1, time.Hour, 1)); !errors.Is(err, keyed.ErrClosed) {
				t.Error(err)
			}
			if _, err := l.TakeMany(t.Context(), zzReq("k", 1, time.Hour, 1)); !errors.Is(err, keyed.ErrClosed) {
				t.Error(err)
			}
			close(block)
			synctest.Wait()
		}
	})
}

func TestZZFresh5s(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &zzOrigin{read: zzZero, add: zzEcho}
		l := zzNew(t, keyed.Options{Origin: o})
		base := time.Now()
		at := func(d time.Duration) int64 {
			l.TakeAt(t.Context(), base.Add(d), zzReq("k", 1000, time.Hour, 1))
			return o.reads.Load()
		}
		if at(0) != 1 || at(5*time.Second-1) != 1 || at(5*time.Second) != 2 {
			t.Error(o.reads.Load())
		}
		l.Close(t.Context())
	})
}

func TestZZOneReadManyCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cells atomic.Int64
		o := &zzOrigin{add: zzEcho}
		o.read = func(ctx context.Context, c []keyed.Cell) ([]int64, error) {
			cells.Store(int64(len(c)))
			time.Sleep(100 * time.Millisecond)
			return make([]int64, len(c)), nil
		}
		l := zzNew(t, keyed.Options{Origin: o})
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() { l.Take(t.Context(), zzReq("k", 1000, time.Hour, 1)) })
		}
		wg.Wait()
		if o.reads.Load() != 1 || cells.Load() != 2 {
			t.Error(o.reads.Load(), cells.Load())
		}
		l.Close(t.Context())
	})
}

func TestZZBreaker(t *testing.T) {
	for _, tt := range []struct {
		calls, failures int
		open            bool
	}{{19, 19, false}, {20, 20, true}, {20, 10, true}, {100, 49, false}, {20, 9, false}} {
		synctest.Test(t, func(t *testing.T) {
			n := 0
			var failing atomic.Bool
			o := &zzOrigin{add: zzEcho}
			o.read = func(ctx context.Context, c []keyed.Cell) ([]int64, error) {
				if failing.Load() {
					return nil, errors.New("down")
				}
				return make([]int64, len(c)), nil
			}
			l := zzNew(t, keyed.Options{Origin: o})
			now := time.Now()
			take := func(at time.Time) {
				n++
				l.TakeAt(t.Context(), at, zzReq(string(rune(0x4e00+n)), 1000, time.Hour, 1))
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

func TestZZLyingOrigin(t *testing.T) {
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
					o := &zzOrigin{read: honest.Read, add: honest.Add}
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
					l := zzNew(t, keyed.Options{Origin: o})
					ok := 0
					for range 20 {
						d, err := l.Take(t.Context(), zzReq("k", 10, time.Hour, 1))
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
					d, _ := l.Take(t.Context(), zzReq("k", 20, time.Hour, 10))
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

func TestZZStrict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &zzOrigin{read: zzZero, add: zzEcho}
		l := zzNew(t, keyed.Options{Origin: o})
		take := func(cost int64) limit.Decision {
			d, _ := l.Take(t.Context(), zzReq("k", 10, time.Minute, cost))
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
		l.TakeMany(t.Context(), zzReq("k", 10, time.Minute, 6), zzReq("k", 10, time.Minute, 6))
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

func TestZZGoroutines(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 20 {
		l := zzNew(t, keyed.Options{Origin: keyedtest.NewOrigin(), Exchange: keyedtest.NewExchange(), Region: "eu", ExchangeEvery: time.Millisecond})
		l.Take(t.Context(), zzReq("k", 1, time.Hour, 1))
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

func TestZZEmptyBatch(t *testing.T) {
	l := zzNew(t, keyed.Options{})
	ds, err := l.TakeMany(t.Context())
	if err != nil || len(ds) != 0 {
		t.Error(ds, err)
	}
	l.Close(t.Context())
	if _, err := l.TakeMany(t.Context()); !errors.Is(err, keyed.ErrClosed) {
		t.Errorf("empty batch after Close: %v", err)
	}
}
