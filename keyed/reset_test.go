package keyed_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/keyed"
	"dappco.re/go/core/go-ratelimit/keyed/keyedtest"
	"dappco.re/go/core/go-ratelimit/limit"
)

func resetAfter(t *testing.T, l *keyed.Limiter, after time.Duration, r keyed.Request) {
	t.Helper()
	if err := l.ResetAt(epoch.Add(after), r.Namespace, r.Key, r.Window); err != nil {
		t.Fatal(err)
	}
}

// After a Reset a counter is a new one, but for its holds; the next window does not know of what it
// was charged either, and its neighbours keep theirs.
func TestReset(t *testing.T) {
	lim := newLimiter(t, keyed.Options{})
	r, other := costing(request("a"), 5), costing(request("b"), 5)
	takeAfter(t, lim, 0, r)
	takeAfter(t, lim, 0, other)
	hold, _, err := lim.HoldAt(background, epoch, costing(r, 3))
	if err != nil {
		t.Fatal(err)
	}
	resetAfter(t, lim, time.Second, r)
	if d, _ := lim.PeekAt(background, epoch.Add(time.Second), r); d != (limit.Decision{OK: true, Remaining: 7}) {
		t.Errorf("with a hold of 3 of 10: %+v", d)
	}
	if d, _ := lim.PeekAt(background, epoch.Add(time.Minute), other); d.Remaining != 5 {
		t.Errorf("another key: %+v", d)
	}
	hold.CommitAt(epoch.Add(time.Second), 4)
	if d := takeAfter(t, lim, time.Minute, costing(r, 0)); d.Remaining != 6 {
		t.Errorf("in the next cell: %+v, want 6 of 10 after the commit of 4", d)
	}
}

// A Reset frees a counter that a clock far ahead has charged.
func TestResetOfTheFuture(t *testing.T) {
	lim := newLimiter(t, keyed.Options{})
	r := costing(request("a"), 10)
	takeAfter(t, lim, 1000*time.Hour, r)
	resetAfter(t, lim, 0, r)
	takeAfter(t, lim, 0, r)
	if d := takeAfter(t, lim, 2*time.Minute, r); !d.OK {
		t.Errorf("two windows later: %+v", d)
	}
}

// A key that may have been evicted is served after a Reset, and others of its shard are not.
func TestResetOfEvicted(t *testing.T) {
	lim := newLimiter(t, keyed.Options{MaxKeys: 2})
	for _, key := range []string{"a", "b", "c"} {
		takeAfter(t, lim, 0, request(key))
	}
	if d := takeAfter(t, lim, 0, request("x")); d.OK {
		t.Fatalf("x is not refused: %+v", d)
	}
	resetAfter(t, lim, 0, request("x"))
	if d := takeAfter(t, lim, 0, request("x")); !d.OK || d.Remaining != 9 {
		t.Errorf("x: %+v", d)
	}
	if d := takeAfter(t, lim, 0, request("y")); d.OK {
		t.Errorf("y: %+v", d)
	}
	if n := lim.Len(); n > 2 {
		t.Errorf("%d counters", n)
	}
}

func TestResetFindsNoRoom(t *testing.T) {
	lim := newLimiter(t, keyed.Options{MaxKeys: 1})
	takeAfter(t, lim, 0, request("a"))
	if _, d, err := lim.HoldAt(background, epoch, request("b")); err != nil || !d.OK {
		t.Fatalf("%+v, %v", d, err)
	}
	x := request("x")
	if err := lim.ResetAt(epoch, x.Namespace, x.Key, x.Window); !errors.Is(err, keyed.ErrFull) {
		t.Errorf("%v, want ErrFull", err)
	}
	if err := lim.ResetAt(epoch.Add(time.Hour), x.Namespace, x.Key, x.Window); err != nil {
		t.Errorf("of a key that cannot have been evicted: %v", err)
	}
}

// A Reset that cannot be kept says so, and changes nothing.
func TestResetRefuses(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := costing(perMinute("a", 10), 7)
		for name, o := range map[string]keyed.Options{
			"origin":   {Origin: keyedtest.NewOrigin()},
			"exchange": {Exchange: keyedtest.NewExchange(), Region: "eu"},
		} {
			l := shared(t, o)
			takeNow(t, l, r)
			if err := l.Reset(r.Namespace, r.Key, r.Window); !errors.Is(err, keyed.ErrShared) {
				t.Errorf("%s: %v, want ErrShared", name, err)
			}
			if d := peekNow(t, l, r); d.Remaining != 3 {
				t.Errorf("%s: %+v", name, d)
			}
		}
		l := shared(t, keyed.Options{})
		for _, bad := range []keyed.Request{{Key: "k", Window: time.Second}, {Namespace: "n", Window: time.Second}, {Namespace: "n", Key: "k"}} {
			if err := l.Reset(bad.Namespace, bad.Key, bad.Window); !errors.Is(err, keyed.ErrInvalid) {
				t.Errorf("%+v: %v, want ErrInvalid", bad, err)
			}
		}
	})
}

// Each Reset gives the limit once more at most, also while others take.
func TestResetMeanwhile(t *testing.T) {
	lim := newLimiter(t, keyed.Options{})
	r := request("a")
	const resets, takers = 50, 4
	var wg sync.WaitGroup
	passed := make([]int, takers)
	for i := range takers {
		wg.Go(func() {
			for range 5000 {
				if d, err := lim.TakeAt(background, epoch, r); err != nil {
					t.Error(err)
				} else if d.OK {
					passed[i]++
				}
			}
		})
	}
	for range resets {
		resetAfter(t, lim, 0, r)
	}
	wg.Wait()
	sum := 0
	for _, n := range passed {
		sum += n
	}
	if most := int(r.Limit) * (resets + 1); sum < int(r.Limit) || sum > most {
		t.Errorf("%d passed, want 10 to %d", sum, most)
	}
}
