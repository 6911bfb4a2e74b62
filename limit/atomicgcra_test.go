package limit_test

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
	"dappco.re/go/core/go-ratelimit/limit"
)

// Equivalent mutants of atomicgcra.go:
//   - Allow and TakeAt that take the long way, but not the mutex; Allow at far or just after.
//   - takeLine that replaces the cell after a decision without a charge: by the same state.
//   - end that notifies waiters of a hold that had ended before: they look and wait on.
//
// A lost CompareAndSwap that is taken for a won one is found by the concurrent tests, on most
// runs: it needs two goroutines between two instructions.

// With instants that go back, holds that end in any order, and leaps over the ends of
// their time lines, GCRA and AtomicGCRA still say the same.
func TestAtomicGCRADecidesLikeGCRA(t *testing.T) {
	t.Parallel()
	rounds := 1_000_000
	if testing.Short() || racetest.Factor > 1 {
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
					h.Cancel()
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
		if got := [3]bool{g.Allow(), g.Allow(), g.Allow()}; got != [3]bool{true, true, false} {
			t.Error("not the burst, very long after another:", got)
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
						hold.Cancel()
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
	const burst = 100_000
	g := must(limit.NewAtomicGCRA(limit.Every(time.Hour), burst))
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			passed := int64(0)
			for range burst / 5 {
				if g.Allow() {
					passed++
				}
			}
			admitted.Add(passed)
		})
	}
	wg.Wait()
	if n := admitted.Load(); n != burst {
		t.Errorf("%d admitted, want %d", n, burst)
	}
}
