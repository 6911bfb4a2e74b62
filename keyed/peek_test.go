package keyed_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/keyed"
	"dappco.re/go/core/go-ratelimit/keyed/keyedtest"
	"dappco.re/go/core/go-ratelimit/limit"
)

func peekNow(t *testing.T, l *keyed.Limiter, r keyed.Request) limit.Decision {
	t.Helper()
	d, err := l.Peek(t.Context(), r)
	if err != nil {
		t.Fatalf("peek: %v", err)
	}
	return d
}

// A Request without a Cost costs one unit in every call, and one that is Free none.
func TestCostOfNothing(t *testing.T) {
	lim := newLimiter(t, keyed.Options{})
	one := keyed.Request{Namespace: "n", Key: "k", Limit: 100, Window: 10 * time.Second}
	free := one
	free.Cost = keyed.Free
	ds, err := lim.TakeAllAt(background, epoch, one, free, one)
	if err != nil || ds[2].Remaining != 98 {
		t.Errorf("%+v, %v", ds, err)
	}
	takeAfter(t, lim, 0, one)
	takeAfter(t, lim, 0, free)
	hold, _, _ := lim.HoldAt(background, epoch, one)
	_, d, _ := lim.HoldAt(background, epoch, free)
	if d.Remaining != 96 {
		t.Errorf("with a hold: %+v", d)
	}
	hold.CommitAt(epoch, 0)
	if d := takeAfter(t, lim, 0, free); d.Remaining != 97 {
		t.Errorf("after a Commit of 0: %+v", d)
	}
}

// Peeks at keys that nobody uses take no room, and keep nobody out.
func TestPeekTakesNoRoom(t *testing.T) {
	for name, origin := range map[string]keyed.Origin{"alone": nil, "shared": keyedtest.NewOrigin()} {
		bubble(t, func(t *testing.T) {
			l := shared(t, keyed.Options{MaxKeys: 2, Origin: origin})
			takeNow(t, l, perMinute("a", 10))
			for i := range 100 {
				r := perMinute(fmt.Sprint(i), 10)
				if d := peekNow(t, l, r); d != (limit.Decision{OK: true, Remaining: 10}) {
					t.Errorf("%s: %+v", name, d)
				}
				if d := peekNow(t, l, costing(r, 11)); d.OK || !d.Never || d.Remaining != 10 {
					t.Errorf("%s: 11 of 10: %+v", name, d)
				}
			}
			if n := l.Len(); n != 1 {
				t.Errorf("%s: %d counters, want 1", name, n)
			}
			if d := takeNow(t, l, perMinute("a", 10)); d.Remaining != 8 {
				t.Errorf("%s: %+v", name, d)
			}
		})
	}
}

// A peek asks the Origin where a request would, also for a key that this process does not know.
func TestPeekAsks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		origin := keyedtest.NewOrigin()
		one, other := shared(t, keyed.Options{Origin: origin}), shared(t, keyed.Options{Origin: origin})
		r := costing(perMinute("a", 10), 7)
		takeNow(t, one, r)
		synctest.Wait()
		if d := peekNow(t, other, r); d.OK || d.Remaining != 3 || d.RetryAfter == 0 {
			t.Errorf("a key that is not known: %+v", d)
		}
		if d := takeNow(t, other, costing(r, 1)); d.Remaining != 2 {
			t.Errorf("take: %+v", d)
		}
		synctest.Wait()
		before := origin.Calls("Read")
		if d := peekNow(t, one, costing(r, 1)); !d.OK || d.Remaining != 3 {
			t.Errorf("a key that is known and fresh: %+v", d)
		}
		if got := origin.Calls("Read") - before; got != 0 {
			t.Errorf("%d reads of what is fresh", got)
		}
		time.Sleep(6 * time.Second)
		if d := peekNow(t, one, costing(r, 3)); d.OK || d.Remaining != 2 || d.RetryAfter == 0 {
			t.Errorf("a key that is stale: %+v", d)
		}
		if n := other.Len(); n != 1 {
			t.Errorf("%d counters", n)
		}
	})
}

// A counter that left the table with units that the Origin does not have is still known.
func TestPeekAtOrphan(t *testing.T) {
	bubble(t, func(t *testing.T) {
		origin := keyedtest.NewOrigin()
		origin.Set(failing)
		l := shared(t, keyed.Options{Origin: origin, MaxKeys: 1})
		takeNow(t, l, costing(perMinute("a", 10), 7))
		takeNow(t, l, perMinute("b", 10))
		for range 2 {
			if d := peekNow(t, l, perMinute("a", 10)); d.OK && d.Remaining != 3 {
				t.Errorf("%+v", d)
			}
		}
		origin.Set(keyedtest.Faults{})
		time.Sleep(2 * time.Second)
		if got := origin.Total("requests", "a"); got != 7 {
			t.Errorf("the origin counts %d, want 7", got)
		}
	})
}

// A peek sees what other regions charged, also for a key that this process does not know.
func TestPeekSeesRegions(t *testing.T) {
	bubble(t, func(t *testing.T) {
		exchange := keyedtest.NewExchange()
		eu, us := region(t, "eu", exchange), region(t, "us", exchange)
		takeNow(t, eu, costing(perMinute("a", 10), 7))
		time.Sleep(3 * time.Second)
		if d := peekNow(t, us, costing(perMinute("a", 10), 4)); d.OK || d.Remaining != 3 {
			t.Errorf("%+v", d)
		}
	})
}

func TestPeekAfterClose(t *testing.T) {
	l := newLimiter(t, keyed.Options{})
	if err := l.Close(background); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Peek(background, request("a")); !errors.Is(err, keyed.ErrClosed) {
		t.Errorf("%v", err)
	}
}
