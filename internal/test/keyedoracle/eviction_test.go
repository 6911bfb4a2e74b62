// A limiter that is full, in one process.

package keyedoracle_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/keyed"
)

// Of many more keys than are kept, none ever passes that the model denies: an evicted key does not
// come back fresh. What is refused although the model admits it, is refused for a time: at its end
// it passes, and a nanosecond earlier it does not.
func TestEvictedKeysDoNotComeBackFresh(t *testing.T) {
	admitted, refused := 0, 0
	for seed := range uint64(times(60, 3000)) {
		synctest.Test(t, func(t *testing.T) {
			a, r := useFew(t, seed)
			admitted += a
			refused += r
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Logf("%d admitted, %d refused although they fit", admitted, refused)
	if admitted == 0 || refused == 0 {
		t.Error("nothing was compared")
	}
}

func useFew(t *testing.T, seed uint64) (admitted, refused int) {
	random := rand.New(rand.NewPCG(seed, 9))
	most := []int{1, 4, 64}[seed%3]
	lim, m := newLimiter(t, keyed.Options{MaxKeys: most}), newModel()
	lengths := []time.Duration{time.Second, 10 * time.Second}[:1+seed%2]
	for range 600 {
		r := keyed.Request{
			Namespace: "n", Key: fmt.Sprint(random.IntN(4 * most)), Limit: 5,
			Window: lengths[random.IntN(len(lengths))], Cost: int(1 + random.Int64N(3)),
		}
		if random.IntN(8) == 0 {
			time.Sleep(time.Duration(random.Int64N(int64(r.Window))))
		}
		now := time.Now()
		d := take(t, lim, now, r)
		want := m.decide(now, r)
		switch {
		case d.OK && !want.OK:
			t.Errorf("%s passes with %+v, and the model has %+v", describeRequest(r), d, want)
			return
		case d.OK:
			m.take(now, r)
			admitted++
		case want.OK:
			refused++
			if longest := 2 * lengths[len(lengths)-1]; d.RetryAfter <= 0 || d.RetryAfter > longest || d.Never {
				t.Errorf("%s: %+v, want a wait of at most %v", describeRequest(r), d, longest)
				return
			}
			if random.IntN(4) == 0 {
				waitFor(t, lim, m, r, d.RetryAfter)
			}
		}
		if n := lim.Len(); n > most {
			t.Errorf("%d counters, want at most %d", n, most)
		}
	}
	return admitted, refused
}

// waitFor asks again a nanosecond before a wait is over, and then.
func waitFor(t *testing.T, lim *keyed.Limiter, m *model, r keyed.Request, wait time.Duration) {
	time.Sleep(wait - 1)
	if d := take(t, lim, time.Now(), r); d.OK {
		t.Errorf("%s passes 1 ns before %v are over", describeRequest(r), wait)
	} else if d.RetryAfter != 1 {
		t.Errorf("%s: a wait of %v is %v long 1 ns before its end", describeRequest(r), wait, d.RetryAfter)
	}
	time.Sleep(1 * time.Nanosecond)
	if d := take(t, lim, time.Now(), r); !d.OK {
		t.Errorf("%s: %+v after a wait of %v", describeRequest(r), d, wait)
	}
	if m.decide(time.Now(), r).OK {
		m.take(time.Now(), r)
	}
}
