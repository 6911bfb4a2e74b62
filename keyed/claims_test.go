// Claims: what the documents promise, each tried from outside.

package keyed_test

import (
	"errors"
	"math"
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

func claimNew(t *testing.T, o keyed.Options) *keyed.Limiter {
	t.Helper()
	l, err := keyed.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func claimReq(key string, lim int, w time.Duration, cost int) keyed.Request {
	return costing(keyed.Request{Namespace: "chat", Key: key, Limit: lim, Window: w}, cost)
}

func TestClaimTwice262(t *testing.T) {
	l := claimNew(t, keyed.Options{})
	now := time.Unix(1_700_000_000, 0)
	r := claimReq("k", math.MaxInt/2+1, time.Minute, math.MaxInt/2+1)
	d1, err1 := l.TakeAt(t.Context(), now, r)
	d2, err2 := l.TakeAt(t.Context(), now, r)
	if err1 != nil || err2 != nil || !d1.OK || d2.OK {
		t.Errorf("%+v %v %+v %v", d1, err1, d2, err2)
	}
	l = claimNew(t, keyed.Options{})
	ds, err := l.TakeAllAt(t.Context(), now, r, r)
	if err != nil || ds[0].OK && ds[1].OK {
		t.Errorf("%+v %v", ds, err)
	}
	if d, _ := l.TakeAt(t.Context(), now, r); !d.OK {
		t.Errorf("batch left something: %+v", d)
	}
	r2 := r
	r2.Key, r2.Limit, r2.Cost = "z", math.MaxInt, math.MaxInt
	ds, _ = l.TakeAllAt(t.Context(), now, r2, r2, r2)
	if ds[0].OK && ds[1].OK && ds[2].OK {
		t.Error("3 x MaxInt")
	}
}

func TestClaimBadInput(t *testing.T) {
	l := claimNew(t, keyed.Options{})
	ctx := t.Context()
	good := claimReq("k", 5, time.Minute, 1)
	bads := []keyed.Request{}
	for _, f := range []func(*keyed.Request){
		func(r *keyed.Request) { r.Key = "" }, func(r *keyed.Request) { r.Namespace = "" },
		func(r *keyed.Request) { r.Limit = 0 }, func(r *keyed.Request) { r.Limit = math.MinInt },
		func(r *keyed.Request) { r.Cost = -2 }, func(r *keyed.Request) { r.Cost = math.MinInt },
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
		if ds, err := l.TakeAll(ctx, good, b, good); !errors.Is(err, limit.ErrInvalid) || len(ds) != 0 {
			t.Errorf("%+v: %+v %v", b, ds, err)
		}
		h, d, err := l.Hold(ctx, b)
		if !errors.Is(err, limit.ErrInvalid) || d.OK {
			t.Errorf("%+v: %+v %v", b, d, err)
		}
		h.Commit(3)
		h.Cancel()
	}
	if l.Len() != 0 {
		t.Error("bad input changed something", l.Len())
	}
	now := time.Now()
	for _, w := range []time.Duration{time.Millisecond, 400 * 24 * time.Hour} {
		r := claimReq("w", 1, w, 1)
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

func TestClaimSlice(t *testing.T) {
	l := claimNew(t, keyed.Options{})
	rs := []keyed.Request{claimReq("b", 5, time.Minute, 1), claimReq("a", 5, time.Minute, 2), claimReq("b", 5, time.Minute, 1)}
	c := slices.Clone(rs)
	l.TakeAll(t.Context(), rs...)
	l.TakeAll(t.Context(), rs...)
	l.TakeAll(t.Context(), rs...)
	if !slices.Equal(rs, c) {
		t.Error(rs)
	}
}

func TestClaimParts(t *testing.T) {
	l := claimNew(t, keyed.Options{})
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

func TestClaimInstants(t *testing.T) {
	for _, start := range []time.Time{time.Unix(-1, 5), time.Unix(0, 0), time.Unix(0, -1), time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC), {}, time.Date(-5000, 1, 1, 0, 0, 0, 7, time.UTC),
		time.Date(2262, 4, 11, 23, 47, 16, 0, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 999, time.UTC), time.Date(200000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(1677, 9, 21, 0, 12, 43, 0, time.UTC)} {
		for _, w := range []time.Duration{time.Millisecond, 7 * time.Millisecond, time.Second, time.Minute, 400 * 24 * time.Hour} {
			l := claimNew(t, keyed.Options{})
			r := claimReq("k", 7, w, 1)
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
func TestClaimHoldWait(t *testing.T) {
	l := claimNew(t, keyed.Options{})
	now := time.Unix(1_700_000_040, 0)
	r := claimReq("k", 10, time.Minute, 4)
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
	h.Cancel()
	h.Commit(7)
}

func TestClaimExact(t *testing.T) {
	for _, L := range []int{1, 7, 1000} {
		l := claimNew(t, keyed.Options{})
		now := time.Unix(1_700_000_000, 0)
		var n atomic.Int64
		var wg sync.WaitGroup
		for g := range 16 {
			wg.Go(func() {
				for range 300 {
					switch g % 4 {
					case 0, 1:
						d, _ := l.TakeAt(t.Context(), now, claimReq("k", L, time.Minute, 1))
						if d.OK {
							n.Add(1)
						}
					case 2:
						ds, _ := l.TakeAllAt(t.Context(), now, claimReq("k", L, time.Minute, 1), claimReq("o", 1e6, time.Minute, 1))
						if ds[0].OK && ds[1].OK {
							n.Add(1)
						}
					default:
						h, d, _ := l.HoldAt(t.Context(), now, claimReq("k", L, time.Minute, 1))
						if d.OK {
							h.CommitAt(now, 1)
							n.Add(1)
						}
					}
				}
			})
		}
		wg.Wait()
		if int(n.Load()) != L {
			t.Errorf("L %d got %d", L, n.Load())
		}
	}
}

func TestClaimMaxKeys1(t *testing.T) {
	l := claimNew(t, keyed.Options{MaxKeys: 1})
	now := time.Unix(1_700_000_000, 0)
	ok := map[string]int{}
	for i := range 1000 {
		k := string(rune('a' + i%3))
		d, err := l.TakeAt(t.Context(), now, claimReq(k, 5, time.Minute, 1))
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

func TestClaimBatchMoreThanMaxKeys(t *testing.T) {
	l := claimNew(t, keyed.Options{MaxKeys: 1})
	now := time.Unix(1_700_000_000, 0)
	ds, err := l.TakeAllAt(t.Context(), now, claimReq("a", 5, time.Minute, 1), claimReq("b", 5, time.Minute, 1))
	t.Logf("%+v %v", ds, err)
	d, _ := l.TakeAt(t.Context(), now, claimReq("c", 5, time.Minute, 5))
	if !d.OK {
		t.Errorf("after a failed batch: %+v", d)
	}
}

func TestClaimInterleaving(t *testing.T) {
	// hold 3 on 5, merge 10, cancel must leave 10; a request of 3 at limit 10 then refused.
	synctest.Test(t, func(t *testing.T) {
		o := keyedtest.NewOrigin()
		l := claimNew(t, keyed.Options{Origin: o})
		now := time.Now()
		r := claimReq("k", 10, time.Minute, 5)
		if d, _ := l.TakeAt(t.Context(), now, r); !d.OK {
			t.Fatal(d)
		}
		synctest.Wait()
		h, d, _ := l.HoldAt(t.Context(), now, claimReq("k", 10, time.Minute, 3))
		if !d.OK {
			t.Fatal(d)
		}
		o.Charge(keyed.Cell{Namespace: "chat", Key: "k", Window: time.Minute, Sequence: now.UnixNano() / int64(time.Minute)}, 5)
		time.Sleep(6 * time.Second)
		l.TakeAt(t.Context(), time.Now(), claimReq("k", 100, time.Minute, 0))
		h.Cancel()
		d, _ = l.TakeAt(t.Context(), time.Now(), claimReq("k", 20, time.Minute, 0))
		if d.Remaining != 10 {
			t.Errorf("want 10 counted: %+v", d)
		}
		d, _ = l.TakeAt(t.Context(), time.Now(), claimReq("k", 10, time.Minute, 3))
		if d.OK {
			t.Errorf("%+v", d)
		}
		l.Close(t.Context())
	})
}
