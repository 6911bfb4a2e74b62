package keyed_test

import (
	"errors"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/keyed"
)

// Two requests with any keys, costs and times: their decisions are those of the naive model, what
// is refused passes after RetryAfter and not 1 ns earlier, and names that differ do not share a
// counter.
func FuzzTake(f *testing.F) {
	f.Add("a-b", "c", "a", "b-c", int64(10), int64(time.Second), int64(5), int64(6), int64(1e18), int64(1e9))
	f.Add("n", "k", "n", "k", int64(1)<<62, int64(time.Millisecond), int64(1)<<62, int64(1)<<62, int64(0), int64(0))
	f.Add("n", "k", "n", "k", int64(1<<63-1), int64(400*24*time.Hour), int64(1)<<62, int64(1)<<62, int64(1), int64(-1))
	f.Add("", "k", "n", "", int64(0), int64(0), int64(-1), int64(3), int64(7), int64(7))
	f.Fuzz(func(t *testing.T, ns1, key1, ns2, key2 string, most, window, cost1, cost2, at, later int64) {
		lim, err := keyed.New(keyed.Options{})
		if err != nil {
			t.Fatal(err)
		}
		a := keyed.Request{Namespace: ns1, Key: key1, Limit: int(most), Window: time.Duration(window), Cost: int(cost1)}
		b := keyed.Request{Namespace: ns2, Key: key2, Limit: int(most), Window: time.Duration(window), Cost: int(cost2)}
		at &= 1<<62 - 1
		later %= 1 << 61
		r := &run{t: t, lim: lim, model: newModel(), nanos: at}
		for _, q := range []keyed.Request{a, b, a} {
			valid := q.Namespace != "" && q.Key != "" && q.Limit > 0 && q.Cost >= keyed.Free &&
				q.Window >= time.Millisecond && q.Window <= 400*24*time.Hour
			d, err := lim.TakeAt(background, time.Unix(0, r.nanos), q)
			if valid != (err == nil) || err != nil && !errors.Is(err, keyed.ErrInvalid) {
				t.Fatalf("%+v: error %v", q, err)
			}
			if !valid {
				return
			}
			q = resolved(q)
			r.check(q, 0, d, d.OK)
			if d.OK {
				r.model.charge(name(q), r.nanos, int64(q.Cost))
			}
			if r.nanos += later; r.nanos < 0 {
				return
			}
		}
	})
}
