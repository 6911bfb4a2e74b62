// Claims: what the documents promise, each tried from outside.

package redislimit_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"dappco.re/go/core/go-ratelimit/internal/test/redistest"
	"dappco.re/go/core/go-ratelimit/keyed"
	"dappco.re/go/core/go-ratelimit/limit"
	"dappco.re/go/core/go-ratelimit/redislimit"
)

func TestClaimKeysAndNumbers(t *testing.T) {
	onServers(t, func(t *testing.T, s standing) {
		s.setTime(epoch)
		for name, l := range kinds(s, redislimit.Options{Timeout: patience, CacheDenials: 100}) {
			for _, key := range []string{"{a}b", "a}b{c", "{", "{{a}}", " ", "a b", "\x00", "a\x00b", "a\r\nb", "é", "%s", strings.Repeat("k", 10000), "a:b", "a:b:c"} {
				d, err := l.Take(t.Context(), key, 1)
				if err != nil || !d.OK || d.Remaining != 99 {
					t.Errorf("%s %q: %+v %v", name, key, d, err)
				}
			}
			if _, err := l.Take(t.Context(), "", 1); !errors.Is(err, limit.ErrInvalid) {
				t.Error(name, err)
			}
			for _, n := range []int{-1, math.MinInt} {
				if d, err := l.Take(t.Context(), "n", n); !errors.Is(err, limit.ErrInvalid) || d.OK {
					t.Error(name, d, err)
				}
			}
			for _, n := range []int{101, min(1<<50, math.MaxInt), min(1<<50+1, math.MaxInt), math.MaxInt} {
				d, err := l.Take(t.Context(), "n", n)
				if err != nil || d.OK || !d.Never || d.Remaining != 100 {
					t.Errorf("%s %d %+v %v", name, n, d, err)
				}
			}
			d, err := l.Take(t.Context(), "n", 0)
			if err != nil || !d.OK || d.Remaining != 100 || d.ResetAfter != 0 {
				t.Errorf("%s %+v %v", name, d, err)
			}
			if d, err := l.Take(t.Context(), "n", 100); err != nil || !d.OK {
				t.Errorf("%s %+v %v", name, d, err)
			}
			// refused, exactly so long
			d, err = l.Take(t.Context(), "n", 7)
			if err != nil || d.OK || d.RetryAfter <= 0 {
				t.Fatalf("%s %+v %v", name, d, err)
			}
			for _, fresh := range kindsOf(name, s) {
				s.setTime(epoch.Add(d.RetryAfter - time.Microsecond))
				early, _ := fresh.Take(t.Context(), "n", 7)
				s.setTime(epoch.Add(d.RetryAfter))
				at, _ := fresh.Take(t.Context(), "n", 7)
				if early.OK || !at.OK {
					t.Errorf("%s wait %v: early %+v at %+v", name, d.RetryAfter, early, at)
				}
			}
			s.setTime(epoch)
		}
	})
}

func kindsOf(name string, s standing) []redislimit.Limiter {
	return []redislimit.Limiter{kinds(s, redislimit.Options{Timeout: patience})[name]}
}

func TestClaimOperationWithAnotherNumber(t *testing.T) {
	onServers(t, func(t *testing.T, s standing) {
		s.setTime(epoch)
		for name, l := range kinds(s, redislimit.Options{Timeout: patience}) {
			take(t, l, "k", 90)
			ctx := redislimit.WithOperation(t.Context(), "op")
			d, err := l.Take(ctx, "k", 5)
			if err != nil || !d.OK {
				t.Fatal(d, err)
			}
			again, err := l.Take(ctx, "k", 50)
			if err != nil || !again.OK {
				t.Errorf("%s: a repeat with another n: %+v %v, want the first answer", name, again, err)
			}
			if left := take(t, l, "k", 0).Remaining; left != 5 {
				t.Errorf("%s: %d left", name, left)
			}
		}
	})
}

func TestClaimGroupSettle(t *testing.T) {
	onServers(t, func(t *testing.T, s standing) {
		s.setTime(epoch)
		ctx := t.Context()
		g, of := newGroup(s), kinds(s, redislimit.Options{Timeout: patience})
		all := charges(of, "k", 10, 10, 10, 10)
		h, _, err := g.HoldAll(ctx, all...)
		if err != nil || h.ID() == "" {
			t.Fatal(h, err)
		}
		if err := h.Commit(ctx, -1); !errors.Is(err, limit.ErrInvalid) {
			t.Error(err)
		}
		if err := h.Commit(ctx, 1, 2, 3, 4, 5); !errors.Is(err, limit.ErrInvalid) {
			t.Error(err)
		}
		if err := h.Commit(ctx, math.MaxInt); !errors.Is(err, limit.ErrInvalid) {
			t.Error(err)
		}
		if got := fmt.Sprint(remaining(t, all)); got != "[90 90 90 90]" {
			t.Error(got)
		}
		if err := h.Commit(ctx, 5, 20, 0, 10); err != nil {
			t.Error(err)
		}
		for range 2 {
			if err := h.Commit(ctx, 50, 50, 50, 50); err != nil {
				t.Error(err)
			}
			if err := h.Cancel(ctx); err != nil {
				t.Error(err)
			}
		}
		if got := fmt.Sprint(remaining(t, all)); got != "[95 80 100 90]" {
			t.Error(got)
		}
		for _, bad := range []string{"x", "e30", h.ID()[:len(h.ID())-4], strings.Repeat("A", 1<<16)} {
			if _, err := g.Held(bad); err == nil {
				t.Errorf("%.20s: nil", bad)
			}
		}
		h, _, _ = g.HoldAll(ctx, all...)
		s.flush(t)
		if err := h.Cancel(ctx); !errors.Is(err, redislimit.ErrNotHeld) {
			t.Error(err)
		}
		if got := fmt.Sprint(remaining(t, all)); got != "[100 100 100 100]" {
			t.Error(got)
		}
		// more than the limit, then nothing passes but all recovers
		h, _, _ = g.HoldAll(ctx, all...)
		much := min(1<<50, math.MaxInt-1)
		if err := h.Commit(ctx, much, much, much, much); err != nil {
			t.Error(err)
		}
		for _, c := range all {
			if d := take(t, c.Limiter, c.Key, 1); d.OK || d.RetryAfter <= 0 {
				t.Errorf("%+v", d)
			}
		}
	})
}

func TestClaimGroupBad(t *testing.T) {
	onServers(t, func(t *testing.T, s standing) {
		s.setTime(epoch)
		ctx := t.Context()
		g, of := newGroup(s), kinds(s, redislimit.Options{Timeout: patience})
		all := charges(of, "k", 10, 10, -10, 10)
		if _, err := g.TakeAll(ctx, all...); !errors.Is(err, limit.ErrInvalid) {
			t.Error(err)
		}
		if _, err := g.TakeAll(ctx, redislimit.Charge{}); !errors.Is(err, limit.ErrInvalid) {
			t.Error(err)
		}
		all[2].N = 0
		if got := fmt.Sprint(remaining(t, all)); got != "[100 100 100 100]" {
			t.Error(got)
		}
		all[0].N = math.MaxInt
		h, ds, err := g.HoldAll(ctx, all[0], all[0], all[1])
		if err != nil || h.ID() != "" || ds[0].OK || !ds[0].Never || !ds[1].Never {
			t.Error(h, ds, err)
		}
		if got := fmt.Sprint(remaining(t, all)); got != "[100 100 100 100]" {
			t.Error(got)
		}
	})
}

func TestClaimTypedNil(t *testing.T) {
	onServers(t, func(t *testing.T, s standing) {
		defer func() {
			if v := recover(); v != nil {
				t.Errorf("a nil *FixedWindow in a Charge panics: %v", v)
			}
		}()
		var none *redislimit.FixedWindow
		if _, err := newGroup(s).TakeAll(t.Context(), redislimit.Charge{Limiter: none, Key: "k", N: 1}); !errors.Is(err, limit.ErrInvalid) {
			t.Error(err)
		}
	})
}

func TestClaimExactMany(t *testing.T) {
	server := redistest.Start(t)
	client := newClient(t, server.Addr())
	for name, l := range kinds(standing{client: client}, redislimit.Options{Timeout: patience}) {
		_ = name
		if name == "token bucket" {
			continue
		}
		var n atomic.Int64
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				for range 40 {
					d, err := l.Take(t.Context(), "exact", 1)
					if err != nil {
						t.Error(err)
					}
					if d.OK {
						n.Add(1)
					}
				}
			})
		}
		wg.Wait()
		if n.Load() > 200 || n.Load() < 100 {
			t.Error(name, n.Load())
		}
	}
}

func TestClaimCrossSlot(t *testing.T) {
	nodes := redistest.Cluster(t)
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: nodes.Addrs(), ContextTimeoutEnabled: true})
	defer client.Close()
	o := redislimit.Options{Timeout: patience}
	l := must(redislimit.NewFixedWindow(client, 5, time.Hour, o))
	g := must(redislimit.NewGroup(client, o))
	if _, err := g.TakeAll(t.Context(), redislimit.Charge{Limiter: l, Key: "a", N: 1}, redislimit.Charge{Limiter: l, Key: "b", N: 1}); !errors.Is(err, limit.ErrInvalid) {
		t.Error(err)
	}
	for _, k := range [][2]string{{"{x}a", "{x}b"}, {"a", "a}b"}, {"{{x}a", "{{x}b"}} {
		h, ds, err := g.HoldAll(t.Context(), redislimit.Charge{Limiter: l, Key: k[0], N: 1}, redislimit.Charge{Limiter: l, Key: k[1], N: 1})
		if err != nil || h.ID() == "" {
			t.Error(k, h, ds, err)
		}
		if err := h.Commit(t.Context(), 0, 2); err != nil {
			t.Error(k, err)
		}
	}
	for _, k := range []string{"{}", "{}a", "{", "a}", "\x00", "{a", "{{}}"} {
		d, err := l.Take(t.Context(), k, 1)
		if err != nil || !d.OK {
			t.Errorf("%q %+v %v", k, d, err)
		}
		d, err = l.Take(redislimit.WithOperation(t.Context(), "op"+fmt.Sprint(len(k))), k, 1)
		if err != nil || !d.OK {
			t.Errorf("%q %+v %v", k, d, err)
		}
	}
	o1, _ := redislimit.NewOrigin(client, "p")
	var cells []keyed.Cell
	for i := range 2500 {
		cells = append(cells, keyed.Cell{Namespace: "n", Key: fmt.Sprint("{", i, "}"), Window: time.Minute, Sequence: int64(i)})
	}
	if counts, err := o1.Read(t.Context(), cells); err != nil || len(counts) != 2500 {
		t.Error(len(counts), err)
	}
	var deltas []keyed.Delta
	for _, c := range cells {
		deltas = append(deltas, keyed.Delta{Cell: c, Add: math.MaxInt})
	}
	for n := range int64(2) {
		counts, err := o1.Add(t.Context(), keyed.Replay{Process: "p", Number: n + 1, Deltas: deltas})
		if err != nil || counts[2499] != math.MaxInt {
			t.Error(err)
		}
	}
}

func TestClaimACL(t *testing.T) {
	server := redistest.Start(t)
	admin := newClient(t, server.Addr())
	if err := admin.Do(t.Context(), "ACL", "SETUSER", "poor", "on", ">x", "~{k}*", "+@read", "+@write", "+@connection", "+evalsha", "+eval", "+time").Err(); err != nil {
		t.Skip(err)
	}
	poor := redis.NewClient(&redis.Options{Addr: server.Addr(), Username: "poor", Password: "x", ContextTimeoutEnabled: true})
	defer poor.Close()
	for name, l := range kinds(standing{client: poor}, redislimit.Options{Timeout: patience}) {
		for range 3 {
			d, err := l.Take(t.Context(), "k", 1)
			if err != nil || !d.OK {
				t.Errorf("%s %+v %v", name, d, err)
			}
		}
		for range 30 {
			if d, err := l.Take(t.Context(), "other", 1); err == nil || d.OK {
				t.Errorf("%s %+v %v", name, d, err)
			}
		}
		d, err := l.Take(t.Context(), "k", 1)
		if err != nil || !d.OK {
			t.Errorf("%s after refusals for another key: %+v %v", name, d, err)
		}
	}
}

// A repeat of an operation that was admitted gets that answer, also if the limiter remembers a
// denial.
func TestClaimOperationAndCachedDenial(t *testing.T) {
	onServers(t, func(t *testing.T, s standing) {
		s.setTime(epoch)
		for name, l := range kinds(s, redislimit.Options{Timeout: patience, CacheDenials: 10}) {
			ctx := redislimit.WithOperation(t.Context(), "op")
			if d, err := l.Take(ctx, "k", 60); err != nil || !d.OK {
				t.Fatal(d, err)
			}
			if d := take(t, l, "k", 60); d.OK {
				t.Fatal(d)
			}
			if d, err := l.Take(ctx, "k", 60); err != nil || !d.OK {
				t.Errorf("%s: %+v %v", name, d, err)
			}
		}
	})
}

// The same operation of a group with fewer charges is a repeat, too.
func TestClaimGroupOperation(t *testing.T) {
	onServers(t, func(t *testing.T, s standing) {
		s.setTime(epoch)
		g, of := newGroup(s), kinds(s, redislimit.Options{})
		ctx := redislimit.WithOperation(t.Context(), "op")
		all := charges(of, "k", 60, 60, 60, 60)
		h, ds, err := g.HoldAll(ctx, all...)
		again, ds2, err2 := g.HoldAll(ctx, all...)
		if err != nil || err2 != nil || h.ID() != again.ID() || fmt.Sprint(ds) != fmt.Sprint(ds2) {
			t.Error(h.ID() == again.ID(), ds, ds2, err, err2)
		}
		more := charges(of, "k", 90, 90, 90, 90)
		_, ds2, err2 = g.HoldAll(ctx, more...)
		t.Log("more units:", ds2, err2)
		if _, ds2, err2 = g.HoldAll(ctx, all[:2]...); !errors.Is(err2, limit.ErrInvalid) {
			t.Error("fewer charges:", ds2, err2)
		}
	})
}
