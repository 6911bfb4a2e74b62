package limit_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
	"dappco.re/go/core/go-ratelimit/limit"
)

// lull is how long nothing comes.
func lull(rng *rand.Rand) time.Duration {
	switch rng.IntN(5) {
	case 0:
		return 0
	case 1:
		return 1
	case 2:
		return time.Duration(rng.Int64N(int64(3 * window(sevens))))
	}
	return time.Duration(rng.Int64N(int64(time.Second / 5)))
}

// Requests for nothing, for less than nothing, for too much and for units that are not
// there leave no trace, at any instant. A refused request passes after RetryAfter, and not
// a nanosecond sooner.
func TestConformingDecisions(t *testing.T) {
	onConforming(t, func(t *testing.T, kind conforming, rng *rand.Rand) {
		l := kind.make(sevens)
		now, retries := noon, 0
		for range 20_000 / racetest.Factor {
			now = now.Add(lull(rng))
			before := l.TakeAt(now, 0)
			if !before.OK || before.Never || before.RetryAfter != 0 || before.Remaining < 0 {
				t.Fatalf("a peek: %+v", before)
			}
			l.TakeAt(now.Add(time.Duration(rng.Int64N(int64(time.Hour)))), 0)
			n := 1 + rng.IntN(atOnce)
			if rng.IntN(8) == 0 {
				n = []int{-1, math.MinInt, atOnce + 1, math.MaxInt, math.MaxInt - atOnce, math.MaxInt32, -math.MaxInt}[rng.IntN(7)]
			}
			d := l.TakeAt(now, n)
			if d.OK {
				if left := before.Remaining - n; n < 1 || n > atOnce || d.Never || d.RetryAfter != 0 ||
					d.Remaining > left || !kind.queues && d.Remaining != left {
					t.Fatalf("%d of %+v: %+v", n, before, d)
				}
				continue
			}
			if refused := (limit.Decision{Remaining: before.Remaining, ResetAfter: before.ResetAfter, RetryAfter: d.RetryAfter, Never: n < 0 || n > atOnce}); d != refused {
				t.Fatalf("%d of %+v: %+v, want %+v", n, before, d, refused)
			}
			if after := l.TakeAt(now, 0); after != before {
				t.Fatalf("%d were refused, and changed %+v to %+v", n, before, after)
			}
			if d.Never {
				continue
			}
			retries++
			if d.RetryAfter < 1 {
				t.Fatalf("%d of %+v: %+v", n, before, d)
			}
			now = now.Add(d.RetryAfter - 1)
			if d := l.TakeAt(now, n); d.OK || d.RetryAfter != 1 {
				t.Fatalf("%d, a nanosecond early: %+v", n, d)
			}
			now = now.Add(1)
			if d := l.TakeAt(now, n); !d.OK {
				t.Fatalf("%d, when they should pass: %+v", n, d)
			}
		}
		if retries < 50 {
			t.Errorf("only %d retries", retries)
		}
	})
}

// In no interval passes more than there may, also when the clock goes back: what passes
// then counts as of the latest instant.
func TestConformingBounds(t *testing.T) {
	t.Parallel()
	onConforming(t, func(t *testing.T, kind conforming, rng *rand.Rand) {
		for _, back := range []time.Duration{0, 1, time.Second, time.Hour} {
			full := false
			for range max(1, 40/racetest.Factor) {
				l := kind.make(sevens)
				latest := noon.Add(time.Duration(rng.Int64N(int64(time.Second))))
				var seen time.Time // the latest instant at which something passed
				var instants []time.Time
				var charged []int
				for range 300 {
					latest = latest.Add(lull(rng) / 2)
					now := latest
					if back > 0 && rng.IntN(3) == 0 {
						now = now.Add(-time.Duration(rng.Int64N(int64(back))) - 1)
					}
					if n := 1 + rng.IntN(atOnce)*rng.IntN(2); l.TakeAt(now, n).OK {
						if now.After(seen) {
							seen = now
						}
						instants, charged = append(instants, seen), append(charged, n)
					}
				}
				for i := range instants {
					sum := 0
					for j := i; j < len(instants); j++ {
						sum += charged[j]
						took := instants[j].Sub(instants[i])
						bound := kind.most(sevens, took)
						if sum > bound {
							t.Fatalf("back by up to %v: %d passed in %v, want at most %d", back, sum, took, bound)
						}
						full = full || sum == bound && took > time.Second
					}
				}
			}
			if back == 0 && !full && slices.Contains([]string{"GCRA", "Meter", "SlidingLog"}, kind.name) {
				t.Error("the bound was never reached, so this shows little")
			}
		}
	})
}

// A caller that takes all, goes back an hour, takes, and comes back, gains nothing.
func TestConformingClockGoesBack(t *testing.T) {
	drain := func(l limit.Limiter, now time.Time) (passed int) {
		for l.TakeAt(now, 1).OK {
			passed++
		}
		return passed
	}
	onConforming(t, func(t *testing.T, kind conforming, rng *rand.Rand) {
		jumps, stays := kind.make(eights), kind.make(eights)
		now := noon
		for round := range 200 {
			want := drain(stays, now)
			passed := 0
			if round%2 == 0 {
				passed = drain(jumps, now)
				if d := jumps.TakeAt(now.Add(-time.Hour), 1); d.OK {
					t.Fatalf("round %d: in the past of a full one: %+v", round, d)
				}
			} else {
				for range rng.IntN(atOnce) {
					if jumps.TakeAt(now, 1).OK {
						passed++
					}
				}
				passed += drain(jumps, now.Add(-time.Hour))
				passed += drain(jumps, now)
			}
			if passed != want {
				t.Fatalf("round %d: %d passed, %d without the jump", round, passed, want)
			}
			now = now.Add(time.Duration(rng.Int64N(int64(2 * window(eights)))))
		}
	})
}

// Also behind what is on hold the clock may go back, and nothing is won by that.
func TestConformingClockGoesBackBehindAHold(t *testing.T) {
	onConforming(t, func(t *testing.T, kind conforming, _ *rand.Rand) {
		l := kind.make(eights)
		all := l.TakeAt(noon, 0).Remaining
		hold, d := l.HoldAt(noon, 1)
		if !d.OK {
			t.Fatal(d)
		}
		passed := 1
		drain := func(now time.Time) {
			for l.TakeAt(now, 1).OK {
				passed++
			}
		}
		drain(noon.Add(-time.Hour))
		drain(noon)
		hold.Commit()
		drain(noon)
		if passed != all {
			t.Errorf("%d passed, want %d", passed, all)
		}
	})
}

// What is on hold takes its place. Once committed it is as if it had been taken, and once
// cancelled as if it had never been.
func TestConformingHolds(t *testing.T) {
	const tick = time.Second / 512 // floats are exact in such times
	onConforming(t, func(t *testing.T, kind conforming, rng *rand.Rand) {
		if kind.byChance {
			t.Skip("two of them cannot be compared")
		}
		l, plain := kind.make(eights), kind.make(eights)
		now, held := noon, 0
		for range 20_000 / racetest.Factor {
			now = now.Add(tick * time.Duration(rng.IntN(100)))
			n := rng.IntN(atOnce + 2)
			hold, d := l.HoldAt(now, n)
			if !d.OK || n == 0 {
				if want := plain.TakeAt(now, n); d != want || hold != (limit.Hold{}) {
					t.Fatalf("%d on hold: %+v, taken: %+v", n, d, want)
				}
				continue
			}
			held++
			later := now.Add(tick * time.Duration(rng.IntN(300)*rng.IntN(2)))
			free := plain.TakeAt(later, 0).Remaining
			during := l.TakeAt(later, 0)
			if !kind.queues && during.Remaining > free-n {
				t.Fatalf("%d of %d are on hold: %+v", n, free, during)
			}
			if commit := rng.IntN(2) == 0; commit {
				if want := plain.TakeAt(now, n); !want.OK || want.Remaining != d.Remaining {
					t.Fatalf("%d on hold: %+v, taken: %+v", n, d, want)
				}
				hold.Commit()
			} else {
				hold.Cancel()
			}
			hold.Commit()
			hold.Cancel()
			if d, want := l.TakeAt(later, 0), plain.TakeAt(later, 0); d != want {
				t.Fatalf("after a hold of %d: %+v, want %+v", n, d, want)
			}
		}
		if held < 100 {
			t.Errorf("only %d holds", held)
		}
	})
}

// Wait returns when RetryAfter is over, and what it cannot wait for it says at once.
func TestConformingWait(t *testing.T) {
	onConforming(t, func(t *testing.T, kind conforming, _ *rand.Rand) {
		synctest.Test(t, func(t *testing.T) {
			l := kind.make(eights)
			for n := 1; n < atOnce || n == atOnce && !kind.queues; n++ {
				time.Sleep(time.Minute + 12_345_678)
				for range atOnce * 2 {
					if d := l.Take(0); !kind.queues || d.Remaining > n { // leave room to wait in
						l.Take(1)
					}
				}
				want := l.Take(0).ResetAfter
				if !kind.queues {
					want = l.Take(n).RetryAfter
				}
				refuse := func(ctx context.Context, n int, want error) {
					t.Helper()
					before, begin := l.Take(0), time.Now()
					if err := l.WaitN(ctx, n); !errors.Is(err, want) || time.Since(begin) != 0 || l.Take(0) != before {
						t.Errorf("%d: %v after %v, want %v; %+v was %+v", n, err, time.Since(begin), want, l.Take(0), before)
					}
				}
				soon, cancel := context.WithTimeout(t.Context(), want-1)
				defer cancel()
				refuse(soon, n, limit.ErrDeadline)
				refuse(soon, n, context.DeadlineExceeded)
				refuse(t.Context(), atOnce+1, limit.ErrNeverFits)
				if !kind.givesBack {
					refuse(t.Context(), -n, limit.ErrNeverFits)
				}
				refuse(t.Context(), 0, nil)

				begin := time.Now()
				if err := l.WaitN(t.Context(), n); err != nil || time.Since(begin) != want || want == 0 {
					t.Errorf("waited for %d: %v after %v, want %v", n, err, time.Since(begin), want)
				}
			}
		})
	})
}

// Nothing is allocated, whether it passes or not.
func TestConformingAllocations(t *testing.T) {
	onConforming(t, func(t *testing.T, kind conforming, _ *rand.Rand) {
		l := kind.make(eights)
		now := noon
		if allocs := testing.AllocsPerRun(500, func() {
			now = now.Add(time.Second / 20)
			l.TakeAt(now, 1)
			l.TakeAt(now, 2)
			l.TakeAt(now, 0)
			l.TakeAt(now, atOnce+1)
		}); allocs != 0 {
			t.Errorf("TakeAt: %v allocations", allocs)
		}
		l = kind.make(eights)
		if allocs := testing.AllocsPerRun(500, func() {
			l.Take(1)
			l.Take(0)
			l.Allow()
		}); allocs != 0 {
			t.Errorf("Take and Allow: %v allocations", allocs)
		}
	})
}
