package limit

import (
	"testing"
	"testing/synctest"
	"time"
)

// Where goroutines wake up late, those behind start later, too, and who comes meanwhile
// starts behind them: the gaps stay as long as they should be.
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
