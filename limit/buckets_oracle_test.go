package limit_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
	"dappco.re/go/core/go-ratelimit/limit"
)

// exactBucket is a leaky bucket in whole numbers of any size: its level is in parts, of
// which a unit has num and den drain in a nanosecond.
type exactBucket struct {
	num, den, capacity, level *big.Int
	last                      int64
	a, b                      big.Int // to compute with
}

func newExactBucket(count, per int64, capacity int) *exactBucket {
	e := &exactBucket{num: big.NewInt(per), den: big.NewInt(count), level: new(big.Int)}
	e.capacity = new(big.Int).Mul(e.num, big.NewInt(int64(capacity)))
	return e
}

// take is TakeAt for instants that do not go back and an n that can pass.
func (e *exactBucket) take(now int64, n int) (d limit.Decision) {
	e.level.Sub(e.level, e.a.Mul(e.den, e.b.SetInt64(now-e.last)))
	e.last = now
	if e.level.Sign() < 0 {
		e.level.SetInt64(0)
	}
	e.a.Mul(e.num, e.b.SetInt64(int64(n)))
	e.a.Add(&e.a, e.level)
	if d.OK = e.a.Cmp(e.capacity) <= 0; d.OK {
		e.level.Set(&e.a)
	} else {
		d.RetryAfter = e.ceil(e.a.Sub(&e.a, e.capacity))
	}
	d.Remaining = int(e.b.Div(e.b.Sub(e.capacity, e.level), e.num).Int64())
	d.ResetAfter = e.ceil(e.a.Set(e.level))
	return d
}

// ceil is how long so many parts drain.
func (e *exactBucket) ceil(parts *big.Int) time.Duration {
	parts.Add(parts, e.b.Sub(e.den, big.NewInt(1)))
	return time.Duration(parts.Div(parts, e.den).Int64())
}

// GCRA and AtomicGCRA decide like a bucket that drains one unit in T, Meter like one that
// drains Count in Per; in all that they say.
func TestBucketsDecideLikeExactOnes(t *testing.T) {
	t.Parallel()
	cases := []struct {
		count    int
		per      time.Duration
		capacity int
	}{
		{100, time.Second, 100}, {3, time.Second, 5}, {60, time.Minute, 1}, {7, 100, 4},
		{1, 1, 10}, {1_000_003, time.Hour, 50_000}, {999_999_937, time.Second, 1000}, {1, time.Hour, 100},
	}
	rounds := 1_000_000 / len(cases)
	if testing.Short() || racetest.Factor > 1 {
		rounds /= 10
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for _, c := range cases {
		rate := limit.Rate{Count: c.count, Per: c.per}
		interval := (int64(c.per) + int64(c.count) - 1) / int64(c.count)
		gcra, word := must(limit.NewGCRA(rate, c.capacity)), must(limit.NewAtomicGCRA(rate, c.capacity))
		meter := must(limit.NewMeter(rate, c.capacity))
		whole, fractions := newExactBucket(1, interval, c.capacity), newExactBucket(int64(c.count), int64(c.per), c.capacity)
		now := int64(0)
		for range rounds {
			now += pause(rng, interval, c.capacity)
			n := units(rng, c.capacity)
			at := noon.Add(time.Duration(now))
			d := gcra.TakeAt(at, n)
			if want := whole.take(now, n); d != want {
				t.Fatalf("GCRA %v burst %d at %d, %d units: %+v, want %+v", rate, c.capacity, now, n, d, want)
			}
			if other := word.TakeAt(at, n); other != d {
				t.Fatalf("AtomicGCRA %v burst %d at %d, %d units: %+v, want %+v", rate, c.capacity, now, n, other, d)
			}
			if d, want := meter.TakeAt(at, n), fractions.take(now, n); d != want {
				t.Fatalf("Meter %v capacity %d at %d, %d units: %+v, want %+v", rate, c.capacity, now, n, d, want)
			}
		}
	}
}

// pause is how long it takes to the next request: mostly about what a unit takes.
func pause(rng *rand.Rand, interval int64, capacity int) int64 {
	switch rng.IntN(16) {
	case 0:
		return rng.Int64N(2*interval*int64(capacity) + 1)
	case 1, 2, 3:
		return 0
	default:
		return rng.Int64N(4*interval + 1)
	}
}

func units(rng *rand.Rand, capacity int) int {
	if rng.IntN(4) == 0 {
		return rng.IntN(capacity + 1)
	}
	return min(rng.IntN(4), capacity)
}

// historyBucket decides by what was charged and what is on hold, from the beginning each
// time. It counts in parts of a nanosecond. What comes before an open hold counts as of
// that.
type historyBucket struct {
	num, den int64
	capacity int64
	events   []*historyEvent
}

type historyEvent struct {
	at   int64
	n    int64
	open bool
}

func (h *historyBucket) take(at int64, n int64, open bool) (limit.Decision, *historyEvent) {
	at *= h.den
	now := at
	tat, held := int64(math.MinInt64), int64(0)
	for _, e := range h.events {
		if e.open {
			held += e.n
			at = max(at, e.at)
		} else {
			tat = max(tat, e.at) + e.n*h.num
		}
	}
	level := max(0, tat-at)
	if tat == math.MinInt64 {
		level = 0
	}
	d := limit.Decision{OK: n == 0 || level+(held+n)*h.num <= h.capacity*h.num, Never: n < 0 || n > h.capacity}
	if d.Never {
		d.OK = false
	}
	var event *historyEvent
	switch {
	case d.OK && n > 0:
		event = &historyEvent{at, n, open}
		h.events = append(h.events, event)
		if open {
			held += n
		} else {
			level += n * h.num
		}
	case !d.OK && !d.Never && held+n <= h.capacity:
		d.RetryAfter = time.Duration((level + (held+n-h.capacity)*h.num + h.den - 1) / h.den)
	}
	d.Remaining = int(max(0, (h.capacity-held)*h.num-level) / h.num)
	d.ResetAfter = time.Duration((level + h.den - 1) / h.den)
	if d.RetryAfter > 0 {
		d.RetryAfter += time.Duration((at - now) / h.den)
	}
	if d.ResetAfter > 0 {
		d.ResetAfter += time.Duration((at - now) / h.den)
	}
	return d, event
}

// Holds may end in any order, and at any time: the limiter is then as if they had been
// charged when they were made, or never.
func TestBucketsHoldsAreExact(t *testing.T) {
	rounds := 10_000
	if testing.Short() || racetest.Factor > 1 {
		rounds /= 10
	}
	type pair struct {
		hold  limit.Hold
		event *historyEvent
	}
	rng := rand.New(rand.NewPCG(7, 8))
	for round := range rounds {
		kind := bucketKinds[round%len(bucketKinds)]
		count, per, capacity := int64(1+rng.IntN(5)), int64(5+rng.IntN(10)), 1+rng.IntN(8)
		rate := limit.Rate{Count: int(count), Per: time.Duration(per)}
		h := &historyBucket{num: per, den: count, capacity: int64(capacity)}
		if kind.name != "Meter" {
			h.num, h.den = (per+count-1)/count, 1
		}
		l := must(kind.make(rate, capacity))
		var open []pair
		at := int64(0)
		for step := range 40 {
			at += rng.Int64N(8) - 2
			n := rng.IntN(capacity+3) - 1
			now := noon.Add(time.Duration(at))
			if k := rng.IntN(6); k < 2 && len(open) > 0 {
				i := rng.IntN(len(open))
				p := open[i]
				open = append(open[:i], open[i+1:]...)
				p.event.open = false
				if k == 0 {
					p.hold.Commit()
					p.hold.Cancel()
				} else {
					p.event.n = 0
					p.event.at = math.MinInt64
					p.hold.Cancel()
					p.hold.Commit()
				}
				n = 0
			} else if k < 4 {
				hold, d := l.HoldAt(now, n)
				want, event := h.take(at, int64(n), true)
				if d != want {
					t.Fatalf("%s %v %d, round %d, step %d: hold of %d: %+v, want %+v", kind.name, rate, capacity, round, step, n, d, want)
				}
				if event != nil {
					open = append(open, pair{hold, event})
				}
				continue
			}
			want, _ := h.take(at, int64(n), false)
			if d := l.TakeAt(now, n); d != want {
				t.Fatalf("%s %v %d, round %d, step %d: %d units: %+v, want %+v", kind.name, rate, capacity, round, step, n, d, want)
			}
		}
	}
}
