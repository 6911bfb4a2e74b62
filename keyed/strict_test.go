package keyed_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/keyed"
	"dappco.re/go/core/go-ratelimit/keyed/keyedtest"
)

// For one window after a refusal each request that this process would admit asks the origin first,
// and no refusal does.
func TestStrict(t *testing.T) {
	bubble(t, func(t *testing.T) {
		origin := keyedtest.NewOrigin()
		l := shared(t, keyed.Options{Origin: origin})
		begin := time.Now()
		for i, step := range []struct {
			at    time.Duration
			limit int64
			cost  int64
			ok    bool
			reads int // of this step
		}{
			{0, 10, 4, true, 1},
			{0, 10, 4, true, 0},
			{0, 10, 11, false, 0}, // oversized
			{0, 10, 1, true, 0},   // not strict for that
			{0, 10, 4, false, 0},
			{0, 10, 1, true, 1}, // strict
			{0, 10, 1, false, 0},
			{0, 20, 1, true, 1},
			{0, 20, 0, true, 1},                                  // what is free and fits is an allow
			{time.Minute - 1, 20, 1, true, 1},                    // in the next cell
			{time.Minute - 1, 20, 1, true, 1},                    // strict
			{time.Minute, 20, 1, true, 0},                        // one window after the last refusal
			{time.Minute, 20, 20, false, 0},                      // refused: strict for another window
			{time.Minute + 3*time.Second, 100, 1, true, 1},       // strict
			{2*time.Minute - 1, 100, 1, true, 1},                 // strict, and a new cell
			{2 * time.Minute, 100, 1, true, 0},                   // not any more
			{2*time.Minute + 5*time.Second - 2, 100, 1, true, 0}, // fresh
			{2*time.Minute + 5*time.Second, 100, 1, true, 1},     // stale
			{2*time.Minute + 4*time.Second, 100, 1, true, 0},     // a clock that is behind
		} {
			before := origin.Calls("Read")
			d, err := l.TakeAt(t.Context(), begin.Add(step.at), costing(perMinute("a", step.limit), int(step.cost)))
			if err != nil || d.OK != step.ok {
				t.Errorf("step %d: %+v, %v", i, d, err)
			}
			if got := origin.Calls("Read") - before; got != step.reads {
				t.Errorf("step %d: %d reads, want %d", i, got, step.reads)
			}
		}
	})
}

// In strict mode nothing is admitted that others have used up since the last read.
func TestStrictSeesOthers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		origin := keyedtest.NewOrigin()
		l := shared(t, keyed.Options{Origin: origin})
		r := perMinute("a", 10)
		takes(t, l, r, 8)
		origin.Charge(cellOf(r), 2) // nobody knows
		if takeNow(t, l, costing(r, 3)).OK {
			t.Error("3 passed on 8 of 10")
		}
		if takeNow(t, l, r).OK {
			t.Error("1 passed on 10 of 10")
		}
		other := perMinute("b", 10) // strict mode is that of one counter
		takeNow(t, l, other)
		before := origin.Calls("Read")
		takeNow(t, l, other)
		wantCalls(t, origin, "Read", before)
	})
}

// A batch of which each request fits, but not all of those on one counter, ever, is oversized too.
func TestOversizedBatch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		origin := keyedtest.NewOrigin()
		l := shared(t, keyed.Options{Origin: origin})
		r := perMinute("a", 10)
		takeNow(t, l, r)
		ds, err := l.TakeAll(t.Context(), costing(r, 6), costing(r, 6))
		if err != nil || !ds[0].OK || ds[1].OK {
			t.Errorf("%+v, %v", ds, err)
		}
		before := origin.Calls("Read")
		takeNow(t, l, r)
		wantCalls(t, origin, "Read", before)
		if ds, err = l.TakeAll(t.Context(), costing(r, 5), costing(r, 4)); err != nil || ds[1].OK {
			t.Errorf("%+v, %v", ds, err)
		}
		before = origin.Calls("Read")
		takeNow(t, l, r)
		wantCalls(t, origin, "Read", before+1)
	})
}

// In strict mode a caller does not make do with a read that began before it came.
func TestStrictReadsAfterTheCall(t *testing.T) {
	bubble(t, func(t *testing.T) {
		origin := keyedtest.NewOrigin()
		l := shared(t, keyed.Options{Origin: origin})
		r := perMinute("a", 10)
		takes(t, l, r, 8)
		takeNow(t, l, costing(r, 3)) // refused
		synctest.Wait()
		origin.Set(keyedtest.Faults{Delay: 100 * time.Millisecond}) // the count is read after 50 ms
		begin := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() {
			if d := takeNow(t, l, costing(r, 0)); !d.OK {
				t.Errorf("%+v", d)
			}
		})
		time.Sleep(75 * time.Millisecond)
		origin.Charge(cellOf(r), 2)
		for range 3 {
			wg.Go(func() {
				if d := takeNow(t, l, r); d.OK || time.Since(begin) != 200*time.Millisecond {
					t.Errorf("%+v after %v", d, time.Since(begin))
				}
			})
		}
		wg.Wait()
		wantCalls(t, origin, "Read", 3)
	})
}

// While the origin fails, strict decisions are local, and cost nothing for 300 ms.
func TestStrictWithoutOrigin(t *testing.T) {
	bubble(t, func(t *testing.T) {
		origin := keyedtest.NewOrigin()
		l := shared(t, keyed.Options{Origin: origin})
		r := perMinute("a", 10)
		takes(t, l, r, 5)
		takeNow(t, l, costing(r, 6)) // refused
		origin.Set(keyedtest.Faults{Hang: true})
		begin := time.Now()
		if got := takes(t, l, r, 10); got != 5 {
			t.Errorf("%d passed, want 5", got)
		}
		if took := time.Since(begin); took != 300*time.Millisecond {
			t.Errorf("took %v, want 300ms", took)
		}
		origin.Set(keyedtest.Faults{})
	})
}

// A strict caller that waits for the read before its own waits for 300 ms at most.
func TestStrictWaitsOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		origin := keyedtest.NewOrigin()
		l := shared(t, keyed.Options{Origin: origin})
		r := perMinute("a", 10)
		takes(t, l, r, 5)
		takeNow(t, l, costing(r, 6)) // refused
		synctest.Wait()
		origin.Set(keyedtest.Faults{Delay: 200 * time.Millisecond})
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				begin := time.Now()
				if d := takeNow(t, l, r); !d.OK {
					t.Errorf("%+v", d)
				}
				if took := time.Since(begin); took > 300*time.Millisecond {
					t.Errorf("took %v", took)
				}
			})
			time.Sleep(10 * time.Millisecond)
		}
		wg.Wait()
		origin.Set(keyedtest.Faults{})
	})
}
