package limit_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
	"dappco.re/go/core/go-ratelimit/limit"
)

// wholeBucket is a token bucket in integers: nanotokens, of which perSecond come in a
// nanosecond.
type wholeBucket struct {
	perSecond, burst int64
	level            int64 // at last
	last             int64
	held             int64 // tokens
}

func (w *wholeBucket) at(now int64) int64 {
	return min(w.level+(max(now, w.last)-w.last)*w.perSecond, w.burst*1e9)
}

// free is what n tokens leave at now, in nanotokens.
func (w *wholeBucket) free(now, n int64) int64 { return w.at(now) - (w.held+n)*1e9 }

func (w *wholeBucket) charge(now, n int64) {
	w.level = w.at(now) - n*1e9
	w.last = max(w.last, now)
}

// rounding is how many nanotokens the sums of floats are off at most.
const rounding = 10

// What a bucket admits, and when, is what one in integers does, but for rounding: for
// TakeAt, and for holds that end in any order. AllowN is up to a nanosecond generous.
func TestTokenBucketDecidesLikeOneInIntegers(t *testing.T) {
	t.Parallel()
	steps := 1_000_000 / racetest.Factor
	if testing.Short() {
		steps /= 10
	}
	const seed = 11
	r := rand.New(rand.NewPCG(seed, 0))
	for done := 0; done < steps; {
		w := &wholeBucket{perSecond: 1 + r.Int64N(300), burst: 1 + r.Int64N(20)}
		w.level = w.burst * 1e9
		b := limit.NewTokenBucket(limit.Limit(w.perSecond), int(w.burst))
		b.AllowN(after(0), 0) // from here on, earlier is as now
		for range 100 {
			done++
			if err := takeLike(r, b, w); err != nil {
				t.Fatalf("step %d, %d a second, burst %d: %v", done, w.perSecond, w.burst, err)
			}
			endHold(r, w)
		}
		openHolds = openHolds[:0]
	}
}

// openHolds are those of the bucket of the oracle's test.
var openHolds []struct {
	limit.Hold
	n int64
}

// endHold ends one in some steps.
func endHold(r *rand.Rand, w *wholeBucket) {
	if len(openHolds) == 0 || r.IntN(3) > 0 {
		return
	}
	i := r.IntN(len(openHolds))
	h := openHolds[i]
	openHolds = append(openHolds[:i], openHolds[i+1:]...)
	w.held -= h.n
	if r.IntN(2) == 0 {
		h.Commit()
		w.level -= h.n * 1e9
	} else {
		h.Cancel()
	}
}

// takeLike asks both for the same, and says how they differ.
func takeLike(r *rand.Rand, b *limit.TokenBucket, w *wholeBucket) error {
	interval := int64(1e9) / w.perSecond
	now := w.last
	switch r.IntN(4) {
	case 0:
		now += r.Int64N(interval * (w.burst + 2))
	case 1:
		now += r.Int64N(2 * interval)
	case 2:
		now -= r.Int64N(interval) // as the latest
	}
	n := r.Int64N(w.burst) * r.Int64N(2)
	n = max(n, 1)
	at, free := after(time.Duration(now)), w.free(now, n)
	generous := int64(0) // nanotokens
	var hold limit.Hold
	var d limit.Decision
	kind := r.IntN(4)
	switch {
	case kind == 0:
		hold, d = b.HoldAt(at, int(n))
	case kind == 1 && now >= w.last:
		generous = w.perSecond
		d.OK = b.AllowN(at, int(n))
	default:
		kind = 2
		d = b.TakeAt(at, int(n))
	}
	if d.OK && free < -rounding-generous || !d.OK && free > rounding {
		return fmt.Errorf("kind %d: %d tokens at %d: OK %v, with %d nanotokens free", kind, n, now, d.OK, free)
	}
	if d.OK {
		if kind == 0 {
			openHolds = append(openHolds, struct {
				limit.Hold
				n int64
			}{hold, n})
			w.level, w.last = w.at(now), max(w.last, now)
			w.held += n
		} else {
			w.charge(now, n)
		}
	}
	if kind == 1 {
		return nil
	}
	if left := w.free(now, 0); math.Abs(float64(left)/1e9-float64(d.Remaining)-0.5) > 0.5+1e-6 && left > 0 {
		return fmt.Errorf("%d remain of %d nanotokens", d.Remaining, left)
	}
	early := max(w.last-now, 0)
	if want := early + (w.burst*1e9-w.at(now)+w.perSecond-1)/w.perSecond; want > early && math.Abs(float64(want-int64(d.ResetAfter))) > 1 {
		return fmt.Errorf("reset after %d, want %d", d.ResetAfter, want)
	}
	want := int64(0)
	if !d.OK && n <= w.burst-w.held {
		want = early + (-free+w.perSecond-1)/w.perSecond
	}
	if math.Abs(float64(want-int64(d.RetryAfter))) > 1 || d.Never {
		return fmt.Errorf("%d tokens at %d: %+v, want to retry after %d", n, now, d, want)
	}
	if d.RetryAfter > 0 && b.TakeAt(at.Add(d.RetryAfter-1), int(n)).OK {
		return fmt.Errorf("%d tokens at %d pass before %d", n, now, d.RetryAfter)
	}
	if d.RetryAfter > 0 && r.IntN(4) == 0 {
		if !b.TakeAt(at.Add(d.RetryAfter), int(n)).OK {
			return fmt.Errorf("%d tokens at %d do not pass after %d", n, now, d.RetryAfter)
		}
		w.charge(now+int64(d.RetryAfter), n)
	}
	return nil
}

// With any parameters and requests, a bucket does not panic, Remaining is within the burst,
// and a request passes after RetryAfter, and not before.
func FuzzTokenBucket(f *testing.F) {
	script := func(steps ...any) (script []byte) {
		for _, s := range steps {
			switch s := s.(type) {
			case int:
				script = append(script, byte(s))
			case int64:
				script = binary.LittleEndian.AppendUint64(script, uint64(s))
			}
		}
		return script
	}
	f.Add(10.0, 3, script(0, int64(0), int64(2), 1, int64(5), int64(1), 0, int64(6), int64(3), 6, int64(0), int64(0)))
	f.Add(1e-9, 1, script(0, int64(0), int64(1), 0, int64(math.MaxInt64), int64(1), 0, int64(math.MinInt64), int64(1)))
	f.Add(math.NaN(), math.MaxInt, script(2, int64(0), int64(math.MaxInt64), 2, int64(0), int64(math.MaxInt64), 0, int64(1), int64(math.MaxInt64)))
	f.Add(1e300, math.MaxInt, script(1, int64(0), int64(math.MaxInt64), 1, int64(0), int64(math.MaxInt64), 4, int64(1), int64(math.MinInt64)))
	f.Add(math.Inf(1), math.MinInt, script(5, int64(0), int64(math.MaxInt64), 0, int64(0), int64(1)))
	f.Add(0.0, 0, script(4, int64(7), int64(0x4024000000000000), 5, int64(8), int64(3), 0, int64(1e9), int64(2)))
	f.Fuzz(func(t *testing.T, rate float64, burst int, script []byte) {
		b := limit.NewTokenBucket(limit.Limit(rate), burst)
		var holds []limit.Hold
		var last *limit.Reservation
		for ; len(script) >= 17; script = script[17:] {
			now := after(time.Duration(binary.LittleEndian.Uint64(script[1:])))
			n := int(int64(binary.LittleEndian.Uint64(script[9:])))
			switch script[0] % 8 {
			case 0:
				checkTake(t, b, now, n, len(holds) > 0)
			case 1:
				if h, d := b.HoldAt(now, n); d.OK {
					holds = append(holds, h)
				}
			case 2:
				b.AllowN(now, n)
			case 3:
				last = b.ReserveN(now, n)
				if d := last.DelayFrom(now); d < 0 || last.OK() && n > b.Burst() && b.Limit() != limit.Inf {
					t.Fatalf("%d tokens: OK %v, delay %v", n, last.OK(), d)
				}
			case 4:
				b.SetLimitAt(now, limit.Limit(math.Float64frombits(uint64(n))))
			case 5:
				b.SetBurstAt(now, n)
			case 6:
				if len(holds) > 0 {
					holds[0].Commit()
					holds = holds[1:]
				}
			case 7:
				if last != nil {
					last.CancelAt(now)
				} else if len(holds) > 0 {
					holds[0].Cancel()
					holds = holds[1:]
				}
			}
			if tokens := b.TokensAt(now); math.IsNaN(tokens) {
				t.Fatal("the tokens are not a number")
			}
		}
	})
}

// checkTake takes, and tries whether the answer holds.
func checkTake(t *testing.T, b *limit.TokenBucket, now time.Time, n int, held bool) {
	inf := b.Limit() == limit.Inf
	d := b.TakeAt(now, n)
	switch {
	case d.Remaining < 0 || d.Remaining > max(b.Burst(), 0) && !inf:
		t.Fatalf("%+v of a burst of %d", d, b.Burst())
	case d.OK && (d.Never || d.RetryAfter != 0) || d.Never && d.RetryAfter != 0 || d.RetryAfter < 0 || d.ResetAfter < 0:
		t.Fatalf("%d tokens: %+v", n, d)
	case n == 0 && !d.OK, (n < 0 || n > b.Burst() && !inf) && n != 0 && !d.Never:
		t.Fatalf("%d tokens: %+v", n, d)
	case !d.OK && !d.Never && d.RetryAfter == 0 && !held:
		t.Fatalf("%d tokens: %+v, and nothing on hold", n, d)
	case d.RetryAfter == 0:
		return
	}
	if early := b.TakeAt(now.Add(d.RetryAfter-1), n); early.OK {
		t.Fatalf("%d tokens: %+v, but a nanosecond early %+v", n, d, early)
	}
	if in := b.TakeAt(now.Add(d.RetryAfter), n); !in.OK {
		t.Fatalf("%d tokens: %+v, but then %+v", n, d, in)
	}
}
