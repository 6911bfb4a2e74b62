// Any keys, limits, costs, windows and times.

package keyedoracle_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/keyed"
)

// isValid says which requests are no error.
func isValid(r keyed.Request) bool {
	return r.Namespace != "" && r.Key != "" && r.Limit >= 1 && r.Cost >= keyed.Free &&
		r.Window >= time.Millisecond && r.Window <= 400*day
}

// FuzzTake makes two requests at two instants, and asks for both counters again. A year that has
// no nanoseconds since the epoch is beyond the model: there nothing may pass twice that fits once.
func FuzzTake(f *testing.F) {
	f.Add("n", "k", "n", "k", int64(10), int64(3), int64(8), int64(time.Minute), int64(1_800_000_000), int64(5), int64(time.Second))
	f.Add("a-b", "c", "a", "b-c", int64(1<<62), int64(1<<62), int64(1<<62), int64(time.Millisecond), int64(0), int64(0), int64(1))
	f.Add("a", "b", "a", "b", int64(math.MaxInt64), int64(math.MaxInt64), int64(1), int64(400*day), int64(math.MaxInt64), int64(999), int64(0))
	f.Add("", "b", "a", "", int64(0), int64(-1), int64(1), int64(0), int64(math.MinInt64), int64(-1), int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, n1, k1, n2, k2 string, limit, cost1, cost2, window, seconds, nanos, pause int64) {
		first := keyed.Request{Namespace: n1, Key: k1, Limit: int(limit), Window: time.Duration(window), Cost: int(cost1)}
		second := keyed.Request{Namespace: n2, Key: k2, Limit: int(limit), Window: time.Duration(window), Cost: int(cost2)}
		lim := newLimiter(t, keyed.Options{})
		at := time.Unix(seconds, nanos)
		later := at.Add(time.Duration(max(0, pause)))
		m, charged := newModel(), int64(0)
		exact := at.Year() > 1700 && later.Year() < 2200
		for _, c := range []struct {
			now     time.Time
			request keyed.Request
		}{{at, first}, {later, second}, {later, first}, {later, second}} {
			d, err := lim.TakeAt(context.Background(), c.now, c.request)
			if isValid(c.request) != (err == nil) || err != nil && !errors.Is(err, keyed.ErrInvalid) {
				t.Fatalf("%s: %v", describeRequest(c.request), err)
			}
			switch {
			case err != nil && d.OK:
				t.Fatalf("%s passes, with %v", describeRequest(c.request), err)
			case err == nil && exact:
				if want := m.take(c.now, c.request); d != want {
					t.Fatalf("%s at %v:\ngot  %+v\nwant %+v", describeRequest(c.request), c.now, d, want)
				}
			case err == nil && d.OK && pause <= 0 && idOf(c.request) == idOf(first):
				if charged > limit-units(c.request) {
					t.Fatalf("%s at %v passes, after %d", describeRequest(c.request), c.now, charged)
				}
				charged += units(c.request)
			}
		}
	})
}
