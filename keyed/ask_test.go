package keyed_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/keyed"
	"dappco.re/go/core/go-ratelimit/keyed/keyedtest"
)

// A thousand callers of a key that is not resident share one read, which also tells of the cell
// before.
func TestColdStampede(t *testing.T) {
	bubble(t, func(t *testing.T) {
		origin := keyedtest.NewOrigin()
		r := perMinute("a", 100)
		origin.Charge(cellOf(r), 30)
		before := cellOf(r)
		before.Sequence--
		origin.Charge(before, 10) // weighs ⌊10 × 59.5/60⌋ = 9, and from 0.05 s on the same
		origin.Set(keyedtest.Faults{Delay: 50 * time.Millisecond})
		l := shared(t, keyed.Options{Origin: origin})
		begin := time.Now()
		var passed atomic.Int64
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() {
				if d, err := l.Take(t.Context(), r); err != nil {
					t.Error(err)
				} else if d.OK {
					passed.Add(1)
				}
			})
		}
		wg.Wait()
		if took := time.Since(begin); took != 50*time.Millisecond {
			t.Errorf("took %v, want 50ms", took)
		}
		if passed.Load() != 61 {
			t.Errorf("%d passed, want 61", passed.Load())
		}
		wantCalls(t, origin, "Read", 1)
	})
}

// What was read answers for five seconds of request time, and no longer than its cell.
func TestFresh(t *testing.T) {
	bubble(t, func(t *testing.T) {
		origin := keyedtest.NewOrigin()
		l := shared(t, keyed.Options{Origin: origin})
		r := costing(perMinute("a", 1000), 0)
		begin := time.Now()
		for _, step := range []struct {
			at    time.Duration
			reads int
		}{
			{0, 1},
			{0, 1},
			{5*time.Second - 1, 1},
			{-time.Second / 4, 1}, // a clock that is behind
			{5 * time.Second, 2},
			{10*time.Second - 1, 2},
			{59 * time.Second, 3},
			{59*time.Second + 499*time.Millisecond, 3},
			{59*time.Second + 500*time.Millisecond, 4}, // the next cell
			{60 * time.Second, 4},
			{time.Hour, 5},
		} {
			if _, err := l.TakeAt(t.Context(), begin.Add(step.at), r); err != nil {
				t.Fatal(err)
			}
			if got := origin.Calls("Read"); got != step.reads {
				t.Errorf("at %v: %d reads, want %d", step.at, got, step.reads)
			}
		}
	})
}

// A read tells what others have charged since the last.
func TestReadMerges(t *testing.T) {
	bubble(t, func(t *testing.T) {
		origin := keyedtest.NewOrigin()
		l := shared(t, keyed.Options{Origin: origin})
		r := perMinute("a", 10)
		if d := takeNow(t, l, r); d.Remaining != 9 {
			t.Errorf("%d remain, want 9", d.Remaining)
		}
		synctest.Wait()
		origin.Charge(cellOf(r), 5)
		time.Sleep(5 * time.Second)
		if d := takeNow(t, l, r); d.Remaining != 3 {
			t.Errorf("%d remain, want 3", d.Remaining)
		}
		time.Sleep(55 * time.Second) // half a second into the next minute
		synctest.Wait()
		before := cellOf(r)
		before.Sequence--
		origin.Charge(before, 2) // 9 of the cell before, which weigh ⌊9 × 59.5/60⌋
		if d := takeNow(t, l, r); d.Remaining != 1 {
			t.Errorf("%d remain, want 1", d.Remaining)
		}
	})
}

// A read that fails, hangs, panics or answers with something else costs 300 ms at most. The
// decision is then that of the process, and the next read is tried after 300 ms.
func TestFailedRead(t *testing.T) {
	for _, test := range []struct {
		name   string
		faults keyedtest.Faults
		took   time.Duration
	}{
		{"fails", failing, 0},
		{"hangs", keyedtest.Faults{Hang: true}, 300 * time.Millisecond},
		{"is slow", keyedtest.Faults{Delay: 700 * time.Millisecond}, 300 * time.Millisecond},
		{"panics", keyedtest.Faults{Panic: "out of order"}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				origin := keyedtest.NewOrigin()
				var reported atomic.Int64
				l := shared(t, keyed.Options{Origin: origin, OnError: func(error) { reported.Add(1) }})
				t.Cleanup(func() { origin.Set(keyedtest.Faults{}) })
				origin.Set(test.faults)
				r := perMinute("a", 3)
				begin := time.Now()
				if d := takeNow(t, l, r); !d.OK || d.Remaining != 2 {
					t.Errorf("%+v, want a local allow", d)
				}
				if took := time.Since(begin); took != test.took {
					t.Errorf("took %v, want %v", took, test.took)
				}
				time.Sleep(299 * time.Millisecond)
				takeNow(t, l, r)
				wantCalls(t, origin, "Read", 1)
				origin.Set(keyedtest.Faults{})
				time.Sleep(time.Millisecond)
				takeNow(t, l, r)
				wantCalls(t, origin, "Read", 2)
				if reported.Load() == 0 {
					t.Error("no error was reported")
				}
			})
		})
	}
}

// stubborn is an Origin whose reads do not end before they are let go.
type stubborn struct {
	*keyedtest.Origin
	free chan struct{}
}

func (o stubborn) Read(_ context.Context, cells []keyed.Cell) ([]int64, error) {
	<-o.free
	return o.Origin.Read(context.Background(), cells)
}

// Neither does a read cost more that ignores its context, nor does it do harm when it ends.
func TestStubbornRead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		origin := stubborn{keyedtest.NewOrigin(), make(chan struct{})}
		l := shared(t, keyed.Options{Origin: origin})
		begin := time.Now()
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() { takeNow(t, l, perMinute(fmt.Sprint(i), 3)) })
		}
		wg.Wait()
		takes(t, l, perMinute("20", 3), 10)
		if took := time.Since(begin); took != 300*time.Millisecond {
			t.Errorf("took %v, want 300ms, and nothing once the breaker is open", took)
		}
		close(origin.free)
		synctest.Wait()
		if d := takeNow(t, l, perMinute("0", 3)); !d.OK || d.Remaining != 1 {
			t.Errorf("%+v", d)
		}
	})
}

type short struct{ *keyedtest.Origin }

func (short) Read(context.Context, []keyed.Cell) ([]int64, error) { return []int64{7}, nil }

func TestReadWithoutAllCounts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var reported error
		l := shared(t, keyed.Options{Origin: short{keyedtest.NewOrigin()}, OnError: func(err error) { reported = err }})
		d := takeNow(t, l, perMinute("a", 10))
		if synctest.Wait(); d.Remaining != 9 || reported == nil {
			t.Errorf("%+v, reported %v", d, reported)
		}
	})
}

// The end of one caller's context ends its own wait, and the read goes on for the others. It takes
// 10 ms longer than the origin's 100 ms: it waits for the replay of what the first caller charged
// meanwhile, which it may contain or not.
func TestCancelledCaller(t *testing.T) {
	bubble(t, func(t *testing.T) {
		origin := keyedtest.NewOrigin()
		r := perMinute("a", 10)
		origin.Charge(cellOf(r), 8)
		origin.Set(keyedtest.Faults{Delay: 100 * time.Millisecond})
		l := shared(t, keyed.Options{Origin: origin})
		ctx, cancel := context.WithCancel(t.Context())
		begin := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() {
			d, err := l.Take(ctx, r)
			if took := time.Since(begin); err != nil || !d.OK || took != 10*time.Millisecond {
				t.Errorf("the first caller: %+v, %v after %v", d, err, took)
			}
		})
		synctest.Wait()
		wg.Go(func() {
			d, err := l.Take(t.Context(), r)
			if took := time.Since(begin); err != nil || !d.OK || d.Remaining != 0 || took != 110*time.Millisecond {
				t.Errorf("the second caller: %+v, %v after %v", d, err, took)
			}
		})
		time.Sleep(10 * time.Millisecond)
		cancel()
		wg.Wait()
		wantCalls(t, origin, "Read", 1)
	})
}

// A batch reads all its counters at once, and a hold reads like a take.
func TestBatchAndHoldRead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		origin := keyedtest.NewOrigin()
		l := shared(t, keyed.Options{Origin: origin})
		a, b, c := perMinute("a", 10), perMinute("b", 10), perMinute("c", 10)
		origin.Charge(cellOf(a), 9)
		origin.Charge(cellOf(b), 10)
		origin.Charge(cellOf(c), 8)
		ds, err := l.TakeAll(t.Context(), a, b)
		if err != nil || !ds[0].OK || ds[1].OK {
			t.Errorf("%+v, %v", ds, err)
		}
		wantCalls(t, origin, "Read", 1)
		h, d, err := l.Hold(t.Context(), costing(c, 2))
		if err != nil || !d.OK || takeNow(t, l, c).OK {
			t.Errorf("%+v, %v", d, err)
		}
		h.Cancel()
		wantCalls(t, origin, "Read", 2)
		if ds, err = l.TakeAll(t.Context(), a, perMinute("d", 1)); err != nil || !ds[0].OK || !ds[1].OK {
			t.Errorf("%+v, %v", ds, err)
		}
	})
}

// A refusal by what this process knows asks nothing.
func TestLocalDenialAsksNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		origin := keyedtest.NewOrigin()
		l := shared(t, keyed.Options{Origin: origin})
		r := perMinute("a", 2)
		if got := takes(t, l, r, 2); got != 2 {
			t.Errorf("%d passed", got)
		}
		for range 10 {
			if takeNow(t, l, r).OK {
				t.Error("more passed than the limit")
			}
			time.Sleep(time.Second) // the counts are stale meanwhile
		}
		takeNow(t, l, costing(r, 3))
		wantCalls(t, origin, "Read", 1)
	})
}

// Of 20 reads within 5 s, 10 fail: nothing is read for 5 s, then one, and all again if it succeeds.
func TestBreaker(t *testing.T) {
	bubble(t, func(t *testing.T) {
		origin := keyedtest.NewOrigin()
		l := shared(t, keyed.Options{Origin: origin})
		key := 0
		read := func(n int) int {
			before := origin.Calls("Read")
			for range n {
				key++
				takeNow(t, l, costing(perMinute(fmt.Sprint(key), 9), 0))
			}
			return origin.Calls("Read") - before
		}
		for i, step := range []struct {
			sleep  time.Duration
			faults keyedtest.Faults
			keys   int
			reads  int
		}{
			{0, keyedtest.Faults{}, 11, 11},
			{0, failing, 9, 9}, // 9 of 20
			{0, keyedtest.Faults{}, 1, 1},
			{0, failing, 2, 2}, // 11 of 23, less than half
			{0, failing, 5, 1}, // 12 of 24: open
			{5*time.Second - 1, failing, 5, 0},
			{1, failing, 5, 1}, // one is tried
			{5*time.Second - 1, failing, 5, 0},
			{1, keyedtest.Faults{}, 5, 5}, // closed
			{0, failing, 19 - 5, 19 - 5},  // 14 of 18 that it remembers
		} {
			time.Sleep(step.sleep)
			origin.Set(step.faults)
			if got := read(step.keys); got != step.reads {
				t.Errorf("step %d: %d reads, want %d", i, got, step.reads)
			}
		}
		origin.Set(keyedtest.Faults{})
	})
}

// Errors are told at most once a second of a kind.
func TestErrorsAreThrottled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		origin := keyedtest.NewOrigin()
		cause := errors.New("no route")
		reported := 0
		l := shared(t, keyed.Options{Origin: origin, OnError: func(err error) {
			if !errors.Is(err, cause) {
				t.Errorf("%v does not wrap the cause", err)
			}
			reported++
		}})
		origin.Set(keyedtest.Faults{Err: cause})
		for range 10 {
			takeNow(t, l, costing(perMinute("a", 9), 0))
			time.Sleep(300 * time.Millisecond)
		}
		if synctest.Wait(); reported != 3 {
			t.Errorf("%d errors in 3 s, want 3", reported)
		}
		origin.Set(keyedtest.Faults{})
	})
}

// Close ends reads that go on, at once if they heed their context, and after 300 ms if not.
func TestCloseEndsReads(t *testing.T) {
	bubble(t, func(t *testing.T) {
		slow := keyedtest.NewOrigin()
		slow.Set(keyedtest.Faults{Delay: 250 * time.Millisecond})
		stuck := stubborn{keyedtest.NewOrigin(), make(chan struct{})}
		for _, test := range []struct {
			origin keyed.Origin
			want   time.Duration
		}{{slow, 0}, {stuck, 200 * time.Millisecond}} {
			l, err := keyed.New(keyed.Options{Origin: test.origin, OnError: func(err error) {
				if test.want == 0 {
					t.Errorf("reported %v", err)
				}
			}})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			if d, err := l.Take(ctx, costing(perMinute("a", 5), 0)); err != nil || !d.OK {
				t.Errorf("%+v, %v", d, err)
			}
			begin := time.Now()
			if err := l.Close(t.Context()); err != nil || time.Since(begin) != test.want {
				t.Errorf("close: %v after %v, want %v", err, time.Since(begin), test.want)
			}
		}
		close(stuck.free)
	})
}
