package limit_test

import (
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/limit"
)

var noon = time.Unix(1_800_000_000, 0)

// bucketKinds are the algorithms that decide by one bucket.
var bucketKinds = []struct {
	name string
	make func(rate limit.Rate, capacity int) (limit.Holder, error)
}{
	{"GCRA", func(r limit.Rate, c int) (limit.Holder, error) { return holder(limit.NewGCRA(r, c)) }},
	{"AtomicGCRA", func(r limit.Rate, c int) (limit.Holder, error) { return holder(limit.NewAtomicGCRA(r, c)) }},
	{"Meter", func(r limit.Rate, c int) (limit.Holder, error) { return holder(limit.NewMeter(r, c)) }},
}

func holder[L limit.Holder](l L, err error) (limit.Holder, error) { return l, err }

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// workload is 100 requests in the first second, none in the next, 100 in the tenth of a
// second after 2 s, and 200 in the second after 3 s; each in a slot of its own, at its
// start (0), middle (1) or end (2).
func workload(place int) (arrivals []time.Duration) {
	add := func(from, slot time.Duration, n int) {
		for i := range n {
			arrivals = append(arrivals, from+time.Duration(i)*slot+slot*time.Duration(place)/2)
		}
	}
	add(0, 10*time.Millisecond, 100)
	add(2*time.Second, time.Millisecond, 100)
	add(3*time.Second, 5*time.Millisecond, 200)
	return arrivals
}

func TestBucketsAdmit399OfTheWorkload(t *testing.T) {
	for _, kind := range bucketKinds {
		for place := range 3 {
			l := must(kind.make(limit.PerSecond(100), 100))
			var admitted [3]int
			for i, at := range workload(place) {
				if l.TakeAt(noon.Add(at), 1).OK {
					admitted[min(i/100, 2)]++
				}
			}
			if want := [3]int{100, 100, 199}; admitted != want {
				t.Errorf("%s, place %d: %v admitted, want %v", kind.name, place, admitted, want)
			}
		}
	}
}

func TestBucketsWorkedRows(t *testing.T) {
	const ms = time.Millisecond
	type row struct {
		at   time.Duration
		n    int
		want limit.Decision
	}
	for _, c := range []struct {
		name     string
		rate     limit.Rate
		capacity int
		rows     []row
	}{
		{"the burst and not one more", limit.PerSecond(10), 5, []row{
			{0, 5, limit.Decision{OK: true, ResetAfter: 500 * ms}},
			{0, 1, limit.Decision{RetryAfter: 100 * ms, ResetAfter: 500 * ms}},
			{100*ms - 1, 1, limit.Decision{RetryAfter: 1, ResetAfter: 400*ms + 1}},
			{100 * ms, 1, limit.Decision{OK: true, ResetAfter: 500 * ms}},
		}},
		{"now may be after the theoretical arrival time", limit.PerSecond(10), 2, []row{
			{0, 1, limit.Decision{OK: true, Remaining: 1, ResetAfter: 100 * ms}},
			{time.Hour, 2, limit.Decision{OK: true, ResetAfter: 200 * ms}},
		}},
		{"ten tokens after the burst", limit.PerSecond(100), 100, []row{
			{0, 100, limit.Decision{OK: true, ResetAfter: time.Second}},
			{100 * ms, 0, limit.Decision{OK: true, Remaining: 10, ResetAfter: 900 * ms}},
		}},
		{"five tokens at two seconds", limit.PerSecond(10), 20, []row{
			{0, 20, limit.Decision{OK: true, ResetAfter: 2 * time.Second}},
			{time.Second, 10, limit.Decision{OK: true, ResetAfter: 2 * time.Second}},
			{1500 * ms, 0, limit.Decision{OK: true, Remaining: 5, ResetAfter: 1500 * ms}},
		}},
		{"nothing, less, and too much", limit.PerSecond(10), 5, []row{
			{0, 0, limit.Decision{OK: true, Remaining: 5}},
			{0, -1, limit.Decision{Never: true, Remaining: 5}},
			{0, math.MinInt, limit.Decision{Never: true, Remaining: 5}},
			{0, 6, limit.Decision{Never: true, Remaining: 5}},
			{0, math.MaxInt, limit.Decision{Never: true, Remaining: 5}},
			{0, 5, limit.Decision{OK: true, ResetAfter: 500 * ms}},
			{0, 0, limit.Decision{OK: true, ResetAfter: 500 * ms}},
		}},
		{"an earlier instant has no more room", limit.PerSecond(10), 2, []row{
			{time.Second, 1, limit.Decision{OK: true, Remaining: 1, ResetAfter: 100 * ms}},
			{900 * ms, 1, limit.Decision{RetryAfter: 100 * ms, ResetAfter: 200 * ms}},
			{0, 1, limit.Decision{RetryAfter: time.Second, ResetAfter: 1100 * ms}},
			{1100 * ms, 1, limit.Decision{OK: true, Remaining: 1, ResetAfter: 100 * ms}},
		}},
	} {
		for _, kind := range bucketKinds {
			l := must(kind.make(c.rate, c.capacity))
			for i, r := range c.rows {
				if got := l.TakeAt(noon.Add(r.at), r.n); got != r.want {
					t.Errorf("%s, %s, row %d: %+v, want %+v", kind.name, c.name, i, got, r.want)
				}
			}
		}
	}
}

func TestBucketsRefuseParameters(t *testing.T) {
	for _, kind := range bucketKinds {
		for _, c := range []struct {
			rate     limit.Rate
			capacity int
			ok       bool
		}{
			{limit.Rate{}, 1, false},
			{limit.Rate{Count: 1}, 1, false},
			{limit.Rate{Count: 0, Per: time.Second}, 1, false},
			{limit.Rate{Count: -1, Per: time.Second}, 1, false},
			{limit.Rate{Count: 1, Per: -time.Second}, 1, false},
			{limit.Rate{Count: math.MinInt, Per: math.MinInt64}, math.MinInt, false},
			{limit.Rate{Count: 1, Per: math.MaxInt64}, 1, false},
			{limit.PerSecond(1), 0, false},
			{limit.PerSecond(1), -1, false},
			{limit.Every(time.Hour), 1 << 30, false},
			{limit.Every(1 << 60), 1, true},
			{limit.Every(1 << 60), 2, false},
			{limit.Every(1), 1, true},
			{limit.Rate{Count: 2, Per: 1}, 1, kind.name == "Meter"},
			{limit.Rate{Count: math.MaxInt, Per: 1}, math.MaxInt, kind.name == "Meter"},
		} {
			l, err := kind.make(c.rate, c.capacity)
			if c.ok && err != nil || !c.ok && !errors.Is(err, limit.ErrInvalid) {
				t.Errorf("%s(%v, %d): %v", kind.name, c.rate, c.capacity, err)
			}
			if err == nil && !l.TakeAt(noon, c.capacity).OK {
				t.Errorf("%s(%v, %d): its capacity is refused", kind.name, c.rate, c.capacity)
			}
		}
	}
}

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
	cases := []struct {
		count    int
		per      time.Duration
		capacity int
	}{
		{100, time.Second, 100}, {3, time.Second, 5}, {60, time.Minute, 1}, {7, 100, 4},
		{1, 1, 10}, {1_000_003, time.Hour, 50_000}, {999_999_937, time.Second, 1000}, {1, time.Hour, 100},
	}
	rounds := 1_000_000 / len(cases)
	if testing.Short() || raceEnabled {
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

// With instants that go back, holds that end in any order, and leaps over the ends of
// their time lines, GCRA and AtomicGCRA still say the same.
func TestAtomicGCRADecidesLikeGCRA(t *testing.T) {
	rounds := 1_000_000
	if testing.Short() || raceEnabled {
		rounds /= 10
	}
	rng := rand.New(rand.NewPCG(3, 4))
	var gcra *limit.GCRA
	var word *limit.AtomicGCRA
	var holds [][2]limit.Hold
	var now time.Time
	var interval int64
	var capacity int
	for i := range rounds {
		if i%1000 == 0 {
			interval, capacity = 1+rng.Int64N(1000), 1+rng.IntN(20)
			if i%3000 == 0 {
				interval = 1 << 55
			}
			rate := limit.Every(time.Duration(interval))
			gcra, word = must(limit.NewGCRA(rate, capacity)), must(limit.NewAtomicGCRA(rate, capacity))
			now, holds = noon, nil
		}
		step := time.Duration(pause(rng, interval, capacity))
		if rng.IntN(5) == 0 {
			step = -step
		}
		now = now.Add(step)
		n := units(rng, capacity)
		switch rng.IntN(8) {
		case 0:
			a, d := gcra.HoldAt(now, n)
			b, other := word.HoldAt(now, n)
			if d != other {
				t.Fatalf("round %d: hold of %d: %+v, want %+v", i, n, other, d)
			}
			holds = append(holds, [2]limit.Hold{a, b})
		case 1, 2:
			if len(holds) == 0 {
				continue
			}
			k := rng.IntN(len(holds))
			for _, h := range holds[k] {
				if i%2 == 0 {
					h.Commit()
				} else {
					h.Release()
				}
			}
			holds[k] = holds[len(holds)-1]
			holds = holds[:len(holds)-1]
		default:
			if d, other := gcra.TakeAt(now, n), word.TakeAt(now, n); d != other {
				t.Fatalf("round %d: %d units: %+v, want %+v", i, n, other, d)
			}
		}
	}
}

func TestAtomicGCRAAllowsLikeGCRA(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(5, 6))
		gcra, word := must(limit.NewGCRA(limit.PerSecond(100), 5)), must(limit.NewAtomicGCRA(limit.PerSecond(100), 5))
		var hold [2]limit.Hold
		for i := range 20_000 {
			time.Sleep(time.Duration(rng.IntN(20_000_001)))
			if rng.IntN(10) == 0 {
				hold[0].Commit()
				hold[1].Commit()
				hold[0], _ = gcra.HoldAt(time.Now(), 2)
				hold[1], _ = word.HoldAt(time.Now(), 2)
			}
			if i == 8000 || i == 16_000 {
				time.Sleep(80 * 365 * 24 * time.Hour)
			}
			if a, b := gcra.Allow(), word.Allow(); a != b {
				t.Fatalf("round %d: %v, want %v", i, b, a)
			}
		}
	})
}

// Allow follows a limiter whose first instant is in the future, or has no monotonic
// reading.
func TestAtomicGCRAAllowOnAnyLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := must(limit.NewAtomicGCRA(limit.PerSecond(1), 2))
		g.TakeAt(time.Now().Add(100*365*24*time.Hour), 2)
		if g.Allow() {
			t.Error("allowed before an instant at which nothing was left")
		}
		g = must(limit.NewAtomicGCRA(limit.PerSecond(1), 2))
		g.TakeAt(time.Unix(1<<40, 0), 2) // farther than a Duration reaches
		if g.Allow() {
			t.Error("allowed very long before an instant at which nothing was left")
		}
		g = must(limit.NewAtomicGCRA(limit.PerSecond(1), 2))
		g.TakeAt(time.Time{}, 2)
		if !g.Allow() || !g.Allow() || g.Allow() {
			t.Error("not the burst, very long after another")
		}
		g = must(limit.NewAtomicGCRA(limit.PerSecond(1), 2))
		g.TakeAt(time.Now().Round(0), 1)
		if !g.Allow() || g.Allow() {
			t.Error("a line of the wall clock is not followed")
		}
		time.Sleep(time.Second)
		if !g.Allow() || g.Allow() {
			t.Error("a line of the wall clock is not followed after a second")
		}
	})
}

// A line that begins anew keeps what has not drained yet.
func TestBucketsAcrossTheEndOfTheirLine(t *testing.T) {
	const end = time.Duration(1 << 61)
	for _, kind := range bucketKinds {
		for _, commit := range []bool{false, true} {
			l := must(kind.make(limit.PerSecond(1), 10))
			l.TakeAt(noon, 0)
			hold, _ := l.HoldAt(noon.Add(end-1), 4)
			l.TakeAt(noon.Add(end-1), 6)
			if d := l.TakeAt(noon.Add(end+time.Second), 1); !d.OK || d.Remaining != 0 {
				t.Errorf("%s: %+v", kind.name, d)
			}
			want := limit.Decision{OK: true, Remaining: 4, ResetAfter: 6*time.Second - 1}
			if commit {
				hold.Commit()
				want = limit.Decision{OK: true, Remaining: 0, ResetAfter: 10*time.Second - 1}
			} else {
				hold.Release()
			}
			if d := l.TakeAt(noon.Add(end+time.Second), 0); d != want {
				t.Errorf("%s, commit %v: %+v, want %+v", kind.name, commit, d, want)
			}
			if d := l.TakeAt(noon.Add(end+time.Second).Add(math.MaxInt64), 10); !d.OK {
				t.Errorf("%s: long after: %+v", kind.name, d)
			}
		}
	}
}

// historyBucket decides by what was charged and what is on hold, from the beginning each
// time. It counts in parts of a nanosecond.
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
	tat, held := int64(math.MinInt64), int64(0)
	for _, e := range h.events {
		if e.open {
			held += e.n
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
	return d, event
}

// Holds may end in any order, and at any time: the limiter is then as if they had been
// charged when they were made, or never.
func TestBucketsHoldsAreExact(t *testing.T) {
	rounds := 10_000
	if testing.Short() || raceEnabled {
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
					p.hold.Release()
				} else {
					p.event.n = 0
					p.event.at = math.MinInt64
					p.hold.Release()
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

// However many ask at once, what is admitted at one instant is the burst, and what was
// released is not missing.
func TestBucketsConcurrently(t *testing.T) {
	const burst = 1000
	for _, kind := range bucketKinds {
		l := must(kind.make(limit.PerSecond(1), burst))
		var charged atomic.Int64
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(g), 9))
				for range 400 {
					switch rng.IntN(4) {
					case 0:
						if hold, d := l.HoldAt(noon, 2); d.OK {
							if rng.IntN(2) == 0 {
								hold.Commit()
								charged.Add(2)
							} else {
								hold.Release()
							}
						}
					case 1:
						if hold, d := l.HoldAt(noon, 1); d.OK {
							l.TakeAt(noon, 0)
							hold.Release()
						}
					default:
						if l.TakeAt(noon, 1).OK {
							charged.Add(1)
						}
					}
				}
			})
		}
		wg.Wait()
		for l.TakeAt(noon, 1).OK {
			charged.Add(1)
		}
		if n := charged.Load(); n != burst {
			t.Errorf("%s: %d charged, want %d", kind.name, n, burst)
		}
	}
}

// While cells are replaced, because lines begin anew and holds come and go, no charge is
// lost: at each of the instants the burst passes, and no more.
func TestAtomicGCRAReplacesCellsConcurrently(t *testing.T) {
	const burst, lines = 50, 20
	g := must(limit.NewAtomicGCRA(limit.PerSecond(1), burst))
	for line := range lines {
		now := noon
		for range line {
			now = now.Add(1 << 61)
		}
		var charged atomic.Int64
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range burst {
					if g.TakeAt(now, 1).OK {
						charged.Add(1)
					}
					if hold, d := g.HoldAt(now, 1); d.OK {
						hold.Release()
					}
				}
			})
		}
		wg.Wait()
		if n := charged.Load(); n > burst || n < burst-4 {
			t.Errorf("line %d: %d charged, want %d", line, n, burst)
		}
	}
}

// Allow of many goroutines never admits more than the burst and the rate.
func TestAtomicGCRAAllowsConcurrently(t *testing.T) {
	g := must(limit.NewAtomicGCRA(limit.Every(time.Hour), 500))
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				if g.Allow() {
					admitted.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if n := admitted.Load(); n != 500 {
		t.Errorf("%d admitted, want 500", n)
	}
}

func TestBucketsAllocateNothing(t *testing.T) {
	for _, kind := range bucketKinds {
		l := must(kind.make(limit.PerSecond(100), 10))
		now := noon
		if n := testing.AllocsPerRun(1000, func() {
			now = now.Add(3 * time.Millisecond)
			l.TakeAt(now, 1)
			l.TakeAt(now, 3)
		}); n != 0 {
			t.Errorf("%s.TakeAt: %v allocations", kind.name, n)
		}
	}
	g := must(limit.NewAtomicGCRA(limit.PerSecond(100), 10))
	if n := testing.AllocsPerRun(1000, func() { g.Allow() }); n != 0 {
		t.Errorf("AtomicGCRA.Allow: %v allocations", n)
	}
}

// Whatever the parameters and the times are, nothing panics, and what a decision says is
// so.
func FuzzBuckets(f *testing.F) {
	f.Add(100, int64(time.Second), 100, int64(0), 1, int64(5), 100)
	f.Add(math.MaxInt, int64(1), math.MaxInt, int64(math.MaxInt64), math.MaxInt, int64(math.MinInt64), 1)
	f.Add(math.MaxInt, int64(7), 3, int64(1), 3, int64(0), 3)
	f.Add(1, int64(1<<60), 1, int64(1<<61), 1, int64(-1<<61), 1)
	f.Add(3, int64(time.Second), 5, int64(-1), 5, int64(333_333_333), 2)
	f.Fuzz(func(t *testing.T, count int, per int64, capacity int, step1 int64, n1 int, step2 int64, n2 int) {
		for _, kind := range bucketKinds {
			l, err := kind.make(limit.Rate{Count: count, Per: time.Duration(per)}, capacity)
			if err != nil {
				if !errors.Is(err, limit.ErrInvalid) {
					t.Fatal(err)
				}
				continue
			}
			checkFuzzed(t, kind.name, l, capacity, []time.Time{
				noon, noon.Add(time.Duration(step1)), noon.Add(time.Duration(step2)), {}, time.Unix(math.MaxInt64, 0),
			}, []int{n1, n2, capacity})
		}
	})
}

// checkFuzzed takes all n at all times, and checks what each decision says.
func checkFuzzed(t *testing.T, name string, l limit.Holder, capacity int, times []time.Time, ns []int) {
	for _, now := range times {
		for _, n := range ns {
			d := l.TakeAt(now, n)
			switch {
			case d.Remaining < 0 || d.Remaining > capacity, d.RetryAfter < 0, d.ResetAfter < 0:
				t.Fatalf("%s: %d units of %d at %v: %+v", name, n, capacity, now, d)
			case d.Never != (n < 0 || n > capacity), d.Never && d.OK, n == 0 && !d.OK:
				t.Fatalf("%s: %d units of %d at %v: %+v", name, n, capacity, now, d)
			case d.OK != (d.RetryAfter == 0) && !d.Never:
				t.Fatalf("%s: %d units of %d at %v: %+v", name, n, capacity, now, d)
			}
			// Far before the first instant all instants are one.
			if d.OK || d.Never || now.Sub(times[0]) < -1<<60 {
				continue
			}
			if early := l.TakeAt(now.Add(d.RetryAfter-1), n); early.OK || early.RetryAfter != 1 {
				t.Fatalf("%s: %d units of %d at %v: %+v, a nanosecond early %+v", name, n, capacity, now, d, early)
			}
			if hold, late := l.HoldAt(now.Add(d.RetryAfter), n); !late.OK {
				t.Fatalf("%s: %d units of %d at %v: %+v, then %+v", name, n, capacity, now, d, late)
			} else {
				hold.Release()
			}
		}
	}
}
