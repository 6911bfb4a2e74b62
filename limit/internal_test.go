// Tests of the state that the public API does not show: memory, watchers, and which lock a
// decision takes.

package limit

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// A waiter that is done leaves no watcher with any limiter.
func TestWaitLeavesNoWatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := NewGCRA(PerSecond(1), 1)
		if err != nil {
			t.Fatal(err)
		}
		root, err := NewTree("root", g)
		if err != nil {
			t.Fatal(err)
		}
		mute := All(g, mute{})
		sharded, err := NewSharded(PerSecond(1), 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range []interface{ Wait(context.Context) error }{g, All(g), root, mute, All(sharded.Shard("a"))} {
			g.Take(1)
			sharded.Take(1)
			if err := w.Wait(t.Context()); err != nil {
				t.Error(err)
			}
		}
		for i, c := range []*caller{&g.caller, &root.caller, &mute.caller, &sharded.caller} {
			if len(c.kicks) != 0 {
				t.Errorf("%d: %d watchers", i, len(c.kicks))
			}
		}
	})
}

// mute is a Limiter that admits everything and notifies nobody.
type mute struct{}

func (mute) TakeAt(_ time.Time, n int) Decision { return Decision{OK: true, Remaining: n} }

// If a goroutine wakes up late, the waiters behind start later, and a new request starts
// behind them: no gap is too short.
func TestQueueLateStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, err := NewQueue(PerSecond(1), 10)
		if err != nil {
			t.Fatal(err)
		}
		q.Take(1)
		for range 3 { // at 1, 2 and 3 s
			if w, err := q.join(t.Context(), 1); w == nil || err != nil {
				t.Fatal(err)
			}
		}
		told, _ := q.ReserveAt(time.Now(), 1) // at 4 s
		if told != 4*time.Second {
			t.Fatal(told)
		}
		starts := func(want ...time.Duration) {
			t.Helper()
			if len(q.waiting) != len(want) {
				t.Fatalf("%d wait, want %d", len(q.waiting), len(want))
			}
			for i, w := range q.waiting {
				if w.start != int64(want[i]) {
					t.Errorf("waiter %d starts at %v, want %v", i, time.Duration(w.start), want[i])
				}
			}
		}
		starts(time.Second, 2*time.Second, 3*time.Second)
		time.Sleep(1100 * time.Millisecond)
		// The first two start now and 1 s later; the third has to let the told one pass.
		if delay, _ := q.ReserveAt(time.Now(), 0); delay != 3900*time.Millisecond {
			t.Errorf("the next would wait %v", delay)
		}
		if delay := q.startFirst(); delay != 0 {
			t.Fatalf("the first waits %v more", delay)
		}
		starts(2100*time.Millisecond, 5*time.Second)
		if delay := q.startFirst(); delay != time.Second {
			t.Errorf("the second waits %v more", delay)
		}
		time.Sleep(time.Minute)
		if delay, d := q.ReserveAt(time.Now(), 1); !d.OK || delay != 2*time.Second {
			t.Errorf("who comes now starts in %v, want behind the two that are late", delay)
		}
		q.startFirst()
		starts(61100*time.Millisecond + time.Second)
	})
}

// A log takes memory by doubling, and never for more than its limit.
func TestRingGrowsToTheLimit(t *testing.T) {
	for _, c := range []struct {
		limit int
		sizes []int
	}{
		{1, []int{1}},
		{63, []int{63}},
		{64, []int{64}},
		{65, []int{64, 65}},
		{128, []int{64, 128}},
		{129, []int{64, 129}},
		{150, []int{64, 128, 150}},
		{1000, []int{64, 128, 256, 512, 1000}},
	} {
		r := ring{entries: make([]record, min(c.limit, firstEntries))}
		sizes := []int{len(r.entries)}
		for i := range c.limit {
			r.insert(int64(i), 1, c.limit)
			if size := len(r.entries); size != sizes[len(sizes)-1] {
				sizes = append(sizes, size)
			}
		}
		if !slices.Equal(sizes, c.sizes) {
			t.Errorf("limit %d: room for %v, want %v", c.limit, sizes, c.sizes)
		}
	}
}

// While nothing is on hold an AtomicGCRA decides without its mutex.
func TestAtomicGCRANeedsNoMutex(t *testing.T) {
	g, err := NewAtomicGCRA(PerSecond(1), 3)
	if err != nil {
		t.Fatal(err)
	}
	g.Take(1)
	g.mu.Lock()
	defer g.mu.Unlock()
	done := make(chan bool)
	go func() { done <- g.Allow() && g.Take(1).OK && !g.Allow() && !g.Take(1).OK }()
	select {
	case ok := <-done:
		if !ok {
			t.Error("not the burst")
		}
	case <-time.After(time.Minute):
		t.Error("waits for the mutex")
	}
}

// A Queue forgets slots that are over, and joins slots that touch.
func TestQueueMemory(t *testing.T) {
	q, err := NewQueue(PerSecond(1), 9)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1_800_000_000, 0)
	for range 100 {
		q.TakeAt(now, 1)
		now = now.Add(time.Minute)
	}
	if n := len(q.slots); n != 1 {
		t.Errorf("%d runs of slots after pauses, want the last", n)
	}
	for range 5 {
		q.TakeAt(now, 1)
	}
	hold, _ := q.HoldAt(now, 1)
	q.TakeAt(now, 1)
	hold.Commit()
	if n := len(q.slots); n != 1 {
		t.Errorf("%d runs of adjoining slots, want 1", n)
	}
}

// Allow, which takes a shorter way through a cell, keeps the clock that the limiter follows.
func TestCellsStayOnTheirClock(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		aligned bool
		want    time.Time
	}{{false, now}, {true, now.Round(0)}} {
		cells := cells{length: time.Minute, aligned: c.aligned}
		cells.stay(now, 0)
		if cells.latest != c.want {
			t.Errorf("aligned %v: %v, want %v", c.aligned, cells.latest, c.want)
		}
	}
}
