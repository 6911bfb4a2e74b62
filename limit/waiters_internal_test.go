package limit

import (
	"context"
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
		for _, w := range []interface{ Wait(context.Context) error }{g, All(g), root, mute} {
			g.Take(1)
			if err := w.Wait(t.Context()); err != nil {
				t.Error(err)
			}
		}
		for i, c := range []*caller{&g.caller, &root.caller, &mute.caller} {
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
