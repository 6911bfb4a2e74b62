package limit_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
	"dappco.re/go/core/go-ratelimit/limit"
)

// The last of 200 requests in the second after a full one passes because the estimate is
// rounded down. An estimate that is not, of which one request more may be at most the
// limit, admits one less.
func TestSlidingCounterRoundsTheEstimateDown(t *testing.T) {
	const second = int64(time.Second)
	play := func(passes func(at int64) bool) (admitted int) {
		for i := range int64(100) {
			if passes(2*second + i*second/1000) {
				admitted++
			}
		}
		for i := range int64(200) {
			if passes(3*second + i*second/200 + second/400) {
				admitted++
			}
		}
		return admitted
	}
	s, _ := limit.NewSlidingCounter(100, time.Second)
	if n := play(func(at int64) bool { return s.TakeAt(time.Unix(0, at), 1).OK }); n != 200 {
		t.Errorf("admitted %d, want 200", n)
	}
	cells := map[int64]int64{}
	strict := func(at int64) bool {
		cell, elapsed := at/second, at%second
		if cells[cell-1]*(second-elapsed)+(cells[cell]+1)*second > 100*second {
			return false
		}
		cells[cell]++
		return true
	}
	if n := play(strict); n != 199 {
		t.Errorf("without rounding %d, want 199", n)
	}
}

// A cell of the calendar never holds more than the limit, and the window before an
// instant never more than limit + ⌈previous × elapsed/window⌉; an estimate is never
// wrong by more than previous × max(elapsed, window−elapsed)/window, and 1 for rounding.
func TestSlidingCounterBounds(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(7, 3))
	for range 2000 / racetest.Factor {
		most, window := 1+r.IntN(30), 1+r.Int64N(200)
		s, _ := limit.NewSlidingCounter(most, time.Duration(window))
		var history []windowEntry
		now := int64(1_000_000)
		for range 200 {
			// Mostly at the edges of cells, where it goes wrong.
			switch _, elapsed := calendarCell(now, window); r.IntN(6) {
			case 0:
				now += window - elapsed
			case 1:
				now += (window - elapsed + window - 1) % window
			case 2:
				now += r.Int64N(window)
			}
			n := 1 + r.IntN(most)/(1+r.IntN(4))
			if s.TakeAt(time.Unix(0, now), n).OK {
				history = append(history, windowEntry{at: now, n: n})
			}
			cell, elapsed := calendarCell(now, window)
			inCell := fixedUsed(history, now, window)
			previous := int64(fixedUsed(history, now-window, window))
			trailing := logUsed(history, now, window)
			if inCell > most {
				t.Fatalf("cell %d holds %d, limit %d", cell, inCell, most)
			}
			if bound := most + int((previous*elapsed+window-1)/window); trailing > bound {
				t.Fatalf("the window before %d holds %d, bound %d", now, trailing, bound)
			}
			off := int64(most - s.TakeAt(time.Unix(0, now), 0).Remaining - trailing)
			if bound := previous * max(elapsed, window-elapsed); off*window > bound || -(off+1)*window >= bound {
				t.Fatalf("at %d the estimate is off by %d, previous %d", now, off, previous)
			}
		}
	}
}

// The bounds are reached.
func TestSlidingCounterAtItsWorst(t *testing.T) {
	start := time.Unix(1_800_000_000, 0)
	t.Run("twice the limit in a window", func(t *testing.T) {
		s, _ := limit.NewSlidingCounter(100, time.Second)
		first := start.Add(time.Second - 1)
		if d := s.TakeAt(first, 100); !d.OK {
			t.Fatal(d)
		}
		second := start.Add(2*time.Second - 10*time.Millisecond + 1)
		if d := s.TakeAt(second.Add(-1), 100); d.OK || d.RetryAfter != 1 {
			t.Errorf("a nanosecond early: %+v", d)
		}
		if d := s.TakeAt(second, 100); !d.OK || second.Sub(first) >= time.Second {
			t.Errorf("%v later: %+v", second.Sub(first), d)
		}
	})
	for _, c := range []struct {
		name           string
		charged, asked time.Duration
		estimate       int // of 10,000 that were charged
		within         bool
	}{
		{"all of it too low", time.Second - 1, 1999900001 * time.Nanosecond, 0, true},
		{"half of it too low", time.Second - 1, 1500 * time.Millisecond, 5000, true},
		{"half of it too high", 0, 1500 * time.Millisecond, 5000, false},
		{"nearly all of it too high", 0, 1000100000 * time.Nanosecond, 9999, false},
	} {
		s, _ := limit.NewSlidingCounter(10_000, time.Second)
		s.TakeAt(start.Add(c.charged), 10_000)
		if d := s.TakeAt(start.Add(c.asked), 0); 10_000-d.Remaining != c.estimate || (c.asked-c.charged < time.Second) != c.within {
			t.Errorf("%s: the estimate is %d, want %d", c.name, 10_000-d.Remaining, c.estimate)
		}
	}
}

// How far off it is where requests come at random, 90 % of the limit on average, and the
// limit is 100: these are the figures of the documentation.
func TestSlidingCounterOfRandomRequests(t *testing.T) {
	t.Parallel()
	const requests = 1_000_000 / racetest.Factor
	r := rand.New(rand.NewPCG(7, 4))
	counter, _ := limit.NewSlidingCounter(100, time.Second)
	log, _ := limit.NewSlidingLog(100, time.Second)
	truth, _ := limit.NewSlidingLog(200, time.Second) // of what the counter admits
	now := time.Unix(1_800_000_000, 0)
	var off, most, differ int
	for range requests {
		now = now.Add(time.Duration(r.ExpFloat64() * float64(time.Second/90)))
		wrong := (100 - counter.TakeAt(now, 0).Remaining) - (200 - truth.TakeAt(now, 0).Remaining)
		wrong = max(wrong, -wrong)
		off, most = off+wrong, max(most, wrong)
		passes := counter.TakeAt(now, 1).OK
		if passes {
			truth.TakeAt(now, 1)
		}
		if log.TakeAt(now, 1).OK != passes {
			differ++
		}
	}
	mean, share := float64(off)/requests, 100*float64(differ)/requests
	t.Logf("the estimate is off by %.2f %% of the limit on average, by %d %% at most; %.2f %% of decisions differ from the log", mean, most, share)
	if math.Abs(mean-2.9) > 0.1 || most < 17 || most > 25 || math.Abs(share-3.1) > 0.2 {
		t.Errorf("mean %.2f, most %d, share %.2f; documented are 2.9, 19 and 3.1", mean, most, share)
	}
}

// The wait is exact where products do not fit 64 bits, and where many units leave in a
// nanosecond.
func TestSlidingCounterWaitsExactly(t *testing.T) {
	checkCounterWait(t, 100, 1<<60, 100, 85, 0) // 16 × 2^60 is 2^64
	for _, c := range []struct {
		limit  int
		window time.Duration
	}{
		{math.MaxInt, 1 << 60}, {math.MaxInt, 1}, {math.MaxInt, 2}, {math.MaxInt, 1000}, {math.MaxInt - 1, 1<<60 - 1},
		{1 << 30, 3}, {7, 1 << 60}, {1, 1}, {1, 1 << 60}, {999_999_937, 1_000_000_007},
	} {
		for _, first := range []int{c.limit, c.limit - 1, c.limit/2 + 1, 1} {
			for _, n := range []int{c.limit, c.limit - 1, c.limit/3 + 1, 1} {
				for _, elapsed := range []time.Duration{0, 1, c.window / 3, c.window - 1} {
					if first == 0 || n == 0 || elapsed >= c.window {
						continue
					}
					checkCounterWait(t, c.limit, c.window, first, n, elapsed)
				}
			}
		}
	}
}

// Allow at the end of a cell counts in the next one, and an instant before a charge counts as
// that, with its share of the cell before.
func TestSlidingCounterAllow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := must(limit.NewSlidingCounter(10, time.Minute))
		for range 9 {
			s.Allow()
		}
		begin := time.Now() // of a bubble, which begins with a minute
		time.Sleep(time.Minute)
		if !s.Allow() || s.Allow() {
			t.Error("not the tenth at the very beginning of the next cell")
		}
		time.Sleep(30 * time.Second)
		if !s.Allow() { // ⌊9 × 30/60⌋ + 2 count
			t.Error("refused in the middle")
		}
		want := limit.Decision{OK: true, Remaining: 4, ResetAfter: time.Minute + 1}
		if d := s.TakeAt(begin.Add(90*time.Second), 0); d != want {
			t.Errorf("%+v, want %+v", d, want)
		}
		if d := s.TakeAt(begin.Add(65*time.Second), 0); d.Remaining != 4 {
			t.Errorf("seen from before the last charge %d remain, want 4", d.Remaining)
		}
	})
}

// checkCounterWait charges some units in the cell of the epoch and asks for n, then and
// in the cell after.
func checkCounterWait(t *testing.T, most int, window time.Duration, first, n int, elapsed time.Duration) {
	t.Helper()
	epoch := time.Unix(0, 0)
	for _, asked := range []time.Duration{elapsed, window + elapsed} {
		s, _ := limit.NewSlidingCounter(most, window)
		s.TakeAt(epoch.Add(elapsed), first)
		d := s.TakeAt(epoch.Add(asked), n)
		left := min(window, 2*window-asked)
		estimate := new(big.Int).Mul(big.NewInt(int64(first)), big.NewInt(int64(left)))
		estimate.Div(estimate, big.NewInt(int64(window)))
		want := estimate.Add(estimate, big.NewInt(int64(n))).Cmp(big.NewInt(int64(most))) <= 0
		if d.OK != want {
			t.Fatalf("limit %d, window %d: %d at %d, then %d at %d: %+v, want %v", most, window, first, elapsed, n, asked, d, want)
		}
		if d.OK {
			continue
		}
		retry := epoch.Add(asked + d.RetryAfter)
		if d := s.TakeAt(retry.Add(-1), n); d.OK || d.RetryAfter != 1 {
			t.Fatalf("limit %d, window %d: %d at %d, then %d at %d: a nanosecond early: %+v", most, window, first, elapsed, n, asked, d)
		}
		if d := s.TakeAt(retry, n); !d.OK {
			t.Fatalf("limit %d, window %d: %d at %d, then %d at %d: in time: %+v", most, window, first, elapsed, n, asked, d)
		}
	}
}
