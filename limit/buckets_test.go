package limit_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/limit"
)

// Equivalent mutants of account.go, bucket.go, bucketed.go and timeline.go:
//   - bucket.cost and bucket.units that divide where den is 1: longer ways (internal/bench,
//     BenchmarkLimit). The same holds for allowNowLocked that leaves everything to
//     takeLocked, and for one that goes on beyond a line: in 255 years no sum overflows.
//   - bucket.plus that leaves parts == den: compared and subtracted, it is the next whole
//     nanosecond.
//   - A line that is moved before it has begun, or that begins at 1: nothing lies on it.
//   - endLocked that adds up the charges after a Cancel: the sum is the same.
//   - An instant that counts as itself and is 0 early (timeline.at at -far, momentLocked at
//     the instant of the hold, asOf with 0), and a line that ends at far or just after it.
//   - end that notifies waiters of a hold that had ended before: they look and wait on.

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
			{limit.Every(1 << 40), 1 << 24, false},
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

// A line that begins anew keeps what has not drained yet.
func TestBucketsAcrossTheEndOfTheirLine(t *testing.T) {
	const end = time.Duration(1 << 61)
	for _, kind := range bucketKinds {
		for _, commit := range []bool{false, true} {
			l := must(kind.make(limit.PerSecond(1), 10))
			l.TakeAt(noon, 1) // from here the line lasts until end
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
				hold.Cancel()
			}
			if d := l.TakeAt(noon.Add(end+time.Second), 0); d != want {
				t.Errorf("%s, commit %v: %+v, want %+v", kind.name, commit, d, want)
			}
			// A hold begins the next line.
			next := noon.Add(end + time.Second).Add(end)
			l.TakeAt(next.Add(-time.Second), 5)
			hold, d := l.HoldAt(next, 1)
			if !d.OK || d.Remaining != 5 || d.ResetAfter != 4*time.Second {
				t.Errorf("%s, a hold at the end: %+v", kind.name, d)
			}
			hold.Cancel()
			if d := l.TakeAt(next.Add(math.MaxInt64), 10); !d.OK {
				t.Errorf("%s: long after: %+v", kind.name, d)
			}
		}
	}
}

// A hold stays exact however many lines it outlives, and however much is charged meanwhile:
// when it ends, its own charge has drained for long.
func TestBucketsOfAHoldForCenturies(t *testing.T) {
	const unit = time.Duration(1 << 59)
	for _, kind := range bucketKinds {
		for units := 2; units < 50; units++ {
			for _, commit := range []bool{false, true} {
				l := must(kind.make(limit.Every(unit), 2))
				hold, _ := l.HoldAt(noon, 1)
				now := noon
				for i := range units {
					if d := l.TakeAt(now, 1); !d.OK {
						t.Fatalf("%s, unit %d: %+v", kind.name, i, d)
					}
					now = now.Add(unit + unit/2)
				}
				if commit {
					hold.Commit()
				} else {
					hold.Cancel()
				}
				want := limit.Decision{OK: true, ResetAfter: 2 * unit}
				if d := l.TakeAt(now, 2); d != want {
					t.Errorf("%s, %d units, commit %v: %+v, want %+v", kind.name, units, commit, d, want)
				}
			}
		}
	}
}

// A cancelled hold leaves nothing of its instant behind, even if the line began with it:
// earlier instants count as themselves.
func TestBucketsBeforeTheirFirstInstant(t *testing.T) {
	for _, kind := range bucketKinds {
		for _, c := range []struct {
			name string
			play func(l limit.Holder, at time.Time)
			want int // seconds of what is left to drain
		}{
			{"a hold that is committed", func(l limit.Holder, at time.Time) {
				hold, _ := l.HoldAt(at, 1)
				hold.Commit()
			}, 1},
			{"a hold that is committed after a charge", func(l limit.Holder, at time.Time) {
				hold, _ := l.HoldAt(at, 1)
				l.TakeAt(at, 2)
				hold.Commit()
			}, 3},
			{"a hold that is cancelled", func(l limit.Holder, at time.Time) {
				hold, _ := l.HoldAt(at, 1)
				hold.Cancel()
				l.TakeAt(at, 1)
			}, 1},
			{"holds with nothing between them", func(l limit.Holder, at time.Time) {
				first, _ := l.HoldAt(at, 1)
				second, _ := l.HoldAt(at, 1)
				second.Commit()
				first.Cancel()
			}, 1},
			{"a hold that is committed behind an open one", func(l limit.Holder, at time.Time) {
				first, _ := l.HoldAt(at, 1)
				second, _ := l.HoldAt(at, 1)
				first.Commit()
				second.Cancel()
			}, 1},
		} {
			l := must(kind.make(limit.PerSecond(1), 10))
			hold, _ := l.HoldAt(noon, 1)
			hold.Cancel()
			at := noon.Add(-time.Hour)
			c.play(l, at)
			want := limit.Decision{OK: true, Remaining: 10 - c.want, ResetAfter: time.Duration(c.want) * time.Second}
			if d := l.TakeAt(at, 0); d != want {
				t.Errorf("%s, %s: %+v, want %+v", kind.name, c.name, d, want)
			}
		}
	}
}

// A hold ends once: what was charged since stays.
func TestBucketsHoldsEndOnce(t *testing.T) {
	for _, kind := range bucketKinds {
		for _, end := range []func(limit.Hold){limit.Hold.Commit, limit.Hold.Cancel} {
			l := must(kind.make(limit.PerSecond(1), 10))
			hold, _ := l.HoldAt(noon, 1)
			hold.Commit()
			l.TakeAt(noon, 2)
			end(hold)
			if d := l.TakeAt(noon, 0); d.Remaining != 7 {
				t.Errorf("%s: %d remain, want 7", kind.name, d.Remaining)
			}
		}
	}
}

// Concurrent requests at one instant pass up to the burst, and cancelled units are not
// missing.
func TestBucketsConcurrently(t *testing.T) {
	const burst = 20_000
	for _, kind := range bucketKinds {
		l := must(kind.make(limit.PerSecond(1), burst))
		var charged atomic.Int64
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(g), 9))
				for range 20 * 400 {
					switch rng.IntN(4) {
					case 0:
						if hold, d := l.HoldAt(noon, 2); d.OK {
							if rng.IntN(2) == 0 {
								hold.Commit()
								charged.Add(2)
							} else {
								hold.Cancel()
							}
						}
					case 1:
						if hold, d := l.HoldAt(noon, 1); d.OK {
							l.TakeAt(noon, 0)
							hold.Cancel()
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

// A zero value panics each time: a panic leaves nothing locked.
func TestZeroBucketsPanic(t *testing.T) {
	for _, l := range []interface{ Allow() bool }{new(limit.GCRA), new(limit.AtomicGCRA), new(limit.Meter)} {
		for range 2 {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%T: no panic", l)
					}
				}()
				l.Allow()
			}()
		}
	}
}
