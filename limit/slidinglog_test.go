package limit_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
	"dappco.re/go/core/go-ratelimit/limit"
)

// Equivalent mutants of slidinglog.go and ring.go:
//   - end that inserts a charge which has left the window: since and after pass it by.
//   - An instant at the latest that is 0 behind, and a line that ends at far or just after it.
//   - ring.insert before charges of the same instant: their sums are the same.
//   - ring.head at len(entries): get takes it for 0.
//   - end that notifies waiters of a hold that had ended before: they look and wait on.

// A refused request waits for as many of the oldest units as it needs, and no longer.
func TestSlidingLogWaitsForTheOldest(t *testing.T) {
	start := time.Unix(1_800_000_000, 0)
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	l, _ := limit.NewSlidingLog(10, time.Minute)
	for _, c := range []struct{ at, n int }{{0, 2}, {10, 1}, {20, 4}, {30, 3}} {
		l.TakeAt(at(c.at), c.n)
	}
	for _, c := range []struct{ at, n, wait int }{
		{40, 1, 20}, {40, 2, 20}, {40, 3, 30}, {40, 4, 40}, {40, 7, 40}, {40, 8, 50}, {40, 10, 50},
		{60, 3, 10}, {70, 4, 10}, {80, 8, 10},
		{35, 1, 25},             // 35 has not been charged at yet
		{20, 1, 40}, {0, 3, 70}, // before the latest
	} {
		if d := l.TakeAt(at(c.at), c.n); d.OK || d.RetryAfter != time.Duration(c.wait)*time.Second {
			t.Errorf("at %d, %d units: %+v, want to wait %d s", c.at, c.n, d, c.wait)
		}
	}
	want := limit.Decision{OK: true, Remaining: 3, ResetAfter: 20 * time.Second}
	if d := l.TakeAt(at(70), 0); d != want {
		t.Errorf("at 70: %+v, want %+v", d, want)
	}
}

// A hold that is committed late enters the log at its instant, between what came before
// and after, at any place of a log that has come round and grown.
func TestSlidingLogCommitsAtTheInstant(t *testing.T) {
	start := time.Unix(1_800_000_000, 0)
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	for _, size := range []int{3, 64, 65, 100, 128, 129, 500} {
		for _, first := range []int{0, size / 3, size - 1} { // how far the log has come round
			for place := range min(size, 9) {
				place = place * size / 9
				held, _ := limit.NewSlidingLog(2*size, time.Hour)
				plain, _ := limit.NewSlidingLog(2*size, time.Hour)
				for range first {
					held.TakeAt(at(-7200), 1)
					plain.TakeAt(at(-7200), 1)
				}
				var hold limit.Hold
				for i := range size {
					if i == place {
						hold, _ = held.HoldAt(at(i), size)
						plain.TakeAt(at(i), size)
						continue
					}
					held.TakeAt(at(i), 1)
					plain.TakeAt(at(i), 1)
				}
				hold.Commit()
				for s := 3600; s <= 3600+size; s++ {
					for _, n := range []int{0, size, 2 * size} {
						// Not charged where it does not pass, and asked of a copy of nothing.
						if n > 0 && plain.TakeAt(at(s), 0).Remaining >= n {
							continue
						}
						if a, b := held.TakeAt(at(s), n), plain.TakeAt(at(s), n); a != b {
							t.Fatalf("size %d, hold at %d, %d at %d: %+v, want %+v", size, place, n, s, a, b)
						}
					}
				}
			}
		}
	}
}

// A log of a large limit has memory for what is in it, not for its limit, and comes round
// in it.
func TestSlidingLogOfALargeLimit(t *testing.T) {
	l, err := limit.NewSlidingLog(math.MaxInt, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1_800_000_000, 0)
	if d := l.TakeAt(now, math.MaxInt-1); !d.OK || d.Remaining != 1 {
		t.Errorf("all but one: %+v", d)
	}
	if d := l.TakeAt(now, 2); d.OK || d.RetryAfter != time.Second {
		t.Errorf("two more: %+v", d)
	}
	if d := l.TakeAt(now.Add(time.Second), math.MaxInt); !d.OK || d.Remaining != 0 {
		t.Errorf("all: %+v", d)
	}
	now = now.Add(time.Minute)
	for i := range 10_000 {
		now = now.Add(time.Millisecond)
		if d := l.TakeAt(now, 1); d.Remaining != math.MaxInt-min(i+1, 1000) {
			t.Fatalf("charge %d: %+v", i, d)
		}
	}
}

// When the line begins anew, once in 73 years, a charge lies at its very beginning.
func TestSlidingLogAcrossTheEndOfItsLine(t *testing.T) {
	s := must(limit.NewSlidingLog(3, time.Minute))
	s.TakeAt(noon, 1)
	later := noon.Add(74 * years)
	s.TakeAt(later, 1)
	want := limit.Decision{OK: true, Remaining: 2, ResetAfter: time.Minute}
	if d := s.TakeAt(later, 0); d != want {
		t.Errorf("%+v, want %+v", d, want)
	}
}

// In no time as long as the window, with its beginning left out, more than the limit is
// admitted: the log grows, shrinks and comes round.
func TestSlidingLogNeverExceedsTheLimit(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 2))
	for _, most := range []int{1, 63, 64, 65, 127, 129, 1000} {
		l, _ := limit.NewSlidingLog(most, time.Duration(most))
		var at []int64 // of each unit
		oldest, now := 0, int64(0)
		for range 50_000 / racetest.Factor {
			switch r.IntN(1000) {
			case 0:
				now += int64(3 * most)
			case 1, 2, 3:
				now += r.Int64N(int64(most) + 1)
			default:
				now += r.Int64N(3)
			}
			n := 1 + r.IntN(2)
			for oldest < len(at) && at[oldest] <= now-int64(most) {
				oldest++
			}
			want := len(at)-oldest+n <= most
			if d := l.TakeAt(time.Unix(0, now), n); d.OK != want {
				t.Fatalf("limit %d, %d units at %d: %+v, want %v", most, n, now, d, want)
			}
			if want {
				for range n {
					at = append(at, now)
				}
			}
		}
	}
}
