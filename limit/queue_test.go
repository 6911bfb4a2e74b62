package limit_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/limit"
)

// Equivalent mutants of queue.go and queue_wait.go:
//   - Other capacities of slots and kick; a kick without a reason: the waiter looks and waits
//     on. The same holds for end of a hold that had ended, and for moving up nobody.
//   - A line that begins anew at each slot: instants only differ.
//   - behindLocked that goes through all waiters where none is overdue: the last end is the
//     same, as they follow each other.
//   - Slots that end at an instant or lie in no gap at it (fitLocked, describeLocked): the
//     gap is empty. putLocked keeps such slots for one more decision.
//   - insertLocked at the same start: no two slots have one.
//   - join that waits for a slot which starts now: its turn comes at once.
//   - join at a deadline that is the very instant of the start: both happen.
//   - startFirst that moves up those behind a waiter who is not late: they stay.
//   - A new timer each time, or one that is not stopped.

// 30 at once, where 20 have room: 20 start a tenth of a second apart, 10 are refused at
// once; and after a pause the next starts at once.
func TestQueueFull(t *testing.T) {
	q := must(limit.NewQueue(limit.PerSecond(10), 20))
	for i := range 30 {
		delay, d := q.ReserveAt(noon, 1)
		if i < 20 {
			if want := time.Duration(i) * 100 * time.Millisecond; !d.OK || delay != want || d.Remaining != 19-i || d.ResetAfter != want+100*time.Millisecond {
				t.Errorf("request %d: %v, %+v", i, delay, d)
			}
		} else if want := (limit.Decision{RetryAfter: 1, ResetAfter: 2 * time.Second}); d != want || delay != 0 {
			t.Errorf("request %d: %v, %+v, want %+v", i, delay, d, want)
		}
	}
	if delay, d := q.ReserveAt(noon.Add(1), 1); !d.OK || delay != 2*time.Second-1 {
		t.Errorf("a nanosecond later: %v, %+v", delay, d)
	}
	if delay, d := q.ReserveAt(noon.Add(6*time.Second), 1); !d.OK || delay != 0 || d.Remaining != 19 {
		t.Errorf("after a pause: %v, %+v", delay, d)
	}
	if delay, d := q.ReserveAt(noon.Add(6*time.Second), 0); !d.OK || delay != 100*time.Millisecond {
		t.Errorf("a look at the next: %v, %+v", delay, d)
	}
}

func TestQueueRefusesParameters(t *testing.T) {
	for _, c := range []struct {
		rate     limit.Rate
		capacity int
		ok       bool
	}{
		{limit.Rate{}, 1, false},
		{limit.Rate{Count: -1, Per: time.Second}, 1, false},
		{limit.Rate{Count: 1, Per: -1}, 1, false},
		{limit.Rate{Count: 2, Per: 1}, 1, false},
		{limit.PerSecond(1), 0, false},
		{limit.PerSecond(1), -1, false},
		{limit.Every(1 << 60), 2, false},
		{limit.Every(1 << 60), 1, true},
		{limit.Every(1), 1, true},
	} {
		q, err := limit.NewQueue(c.rate, c.capacity)
		if c.ok != (err == nil) || c.ok != (q != nil) || err != nil && !errors.Is(err, limit.ErrInvalid) {
			t.Errorf("NewQueue(%v, %d): %v", c.rate, c.capacity, err)
		}
	}
}

// Cancelled slots go to the next request that fits; committed ones stay.
func TestQueueHolds(t *testing.T) {
	for _, c := range []struct {
		name   string
		end    func(limit.Hold)
		n      int
		delays []time.Duration // of the requests of n units that come after
	}{
		{"open", func(limit.Hold) {}, 1, []time.Duration{4, 5, 6}},
		{"committed", limit.Hold.Commit, 1, []time.Duration{4, 5, 6}},
		{"cancelled, for those that fit", limit.Hold.Cancel, 1, []time.Duration{1, 2, 4, 5}},
		{"cancelled, as a whole", limit.Hold.Cancel, 2, []time.Duration{1, 4, 6}},
		{"cancelled, for those that do not fit", limit.Hold.Cancel, 3, []time.Duration{4}},
	} {
		q := must(limit.NewQueue(limit.PerSecond(1), 9))
		q.TakeAt(noon, 1)
		hold, d := q.HoldAt(noon, 2)
		if want := (limit.Decision{OK: true, Remaining: 6, ResetAfter: time.Second}); d != want {
			t.Errorf("hold: %+v, want %+v", d, want)
		}
		q.TakeAt(noon, 1)
		c.end(hold)
		if c.name != "open" {
			hold.Commit() // is too late
			hold.Cancel()
		}
		for i, want := range c.delays {
			if delay, d := q.ReserveAt(noon, c.n); !d.OK || delay != want*time.Second {
				t.Errorf("%s, request %d: %v, %+v, want %v", c.name, i, delay, d, want*time.Second)
			}
		}
	}
}

// Once the slots of a hold are over and others were taken since, the hold has no effect.
func TestQueueHoldThatIsOver(t *testing.T) {
	q := must(limit.NewQueue(limit.PerSecond(1), 5))
	hold, _ := q.HoldAt(noon, 1)
	q.TakeAt(noon.Add(10*time.Second), 1)
	hold.Cancel()
	if delay, d := q.ReserveAt(noon, 1); d.OK || d.RetryAfter != 6*time.Second+1 {
		t.Errorf("time has come back: %v, %+v", delay, d)
	}
	if delay, _ := q.ReserveAt(noon.Add(10*time.Second), 1); delay != time.Second {
		t.Errorf("the next waits %v", delay)
	}
	if none, _ := q.HoldAt(noon.Add(10*time.Second), 0); none != (limit.Hold{}) {
		t.Error("a hold of nothing")
	}
	q = must(limit.NewQueue(limit.PerSecond(1), 5))
	hold, _ = q.HoldAt(noon.Add(10*time.Second), 1)
	hold.Cancel()
	if d := q.TakeAt(noon, 0); d.ResetAfter != 0 {
		t.Errorf("nothing is taken, and all is as new after %v", d.ResetAfter)
	}
}

// Slots between others count as room, and a slot that is taken beside those of a hold does
// not become one of them.
func TestQueueGaps(t *testing.T) {
	q := must(limit.NewQueue(limit.PerSecond(1), 3))
	q.TakeAt(noon, 1)
	first, _ := q.HoldAt(noon, 1)
	q.TakeAt(noon, 1)
	first.Cancel()
	want := limit.Decision{OK: true, Remaining: 1, ResetAfter: 3 * time.Second}
	if d := q.TakeAt(noon, 0); d != want {
		t.Errorf("a gap of one: %+v, want %+v", d, want)
	}

	q = must(limit.NewQueue(limit.PerSecond(1), 3))
	first, _ = q.HoldAt(noon, 1)
	second, _ := q.HoldAt(noon, 1)
	first.Cancel()
	q.TakeAt(noon, 1)
	second.Cancel()
	if delay, d := q.ReserveAt(noon, 1); !d.OK || delay != time.Second {
		t.Errorf("what was on hold behind a taken slot starts after %v, %+v", delay, d)
	}
}

func TestQueueAllow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := must(limit.NewQueue(limit.PerSecond(1), 5))
		if !q.Allow() || q.Allow() {
			t.Error("not exactly one starts now")
		}
		if d := q.Take(0); d.Remaining != 4 {
			t.Errorf("a refused Allow has taken a slot: %+v", d)
		}
		time.Sleep(time.Second - 1)
		if q.Allow() {
			t.Error("a nanosecond early")
		}
		time.Sleep(time.Nanosecond)
		if !q.Allow() {
			t.Error("in time")
		}
		if !must(limit.NewQueue(limit.PerSecond(1), 1)).Allow() {
			t.Error("a capacity of one")
		}
	})
}

func TestQueueConcurrently(t *testing.T) {
	q := must(limit.NewQueue(limit.Every(time.Microsecond), 1000))
	var mu sync.Mutex
	var starts []time.Duration
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 9))
			for range 300 {
				switch rng.IntN(4) {
				case 0:
					if hold, d := q.HoldAt(noon, 1); d.OK {
						hold.Cancel()
					}
				default:
					if delay, d := q.ReserveAt(noon, 1); d.OK {
						mu.Lock()
						starts = append(starts, delay)
						mu.Unlock()
					}
				}
			}
		})
	}
	wg.Wait()
	for {
		delay, d := q.ReserveAt(noon, 1)
		if !d.OK {
			break
		}
		starts = append(starts, delay)
	}
	slices.Sort(starts)
	if len(starts) != 1000 {
		t.Errorf("%d have been accepted", len(starts))
	}
	for i, s := range starts {
		if s != time.Duration(i)*time.Microsecond {
			t.Fatalf("slot %d starts after %v", i, s)
		}
	}
}

func TestQueueAcrossTheEndOfItsLine(t *testing.T) {
	const end = time.Duration(1 << 61)
	q := must(limit.NewQueue(limit.PerSecond(1), 5))
	q.TakeAt(noon, 1)
	q.TakeAt(noon.Add(end-1), 2)
	hold, _ := q.HoldAt(noon.Add(end-1), 1)
	if delay, d := q.ReserveAt(noon.Add(end), 1); !d.OK || delay != 3*time.Second-1 || d.Remaining != 2 {
		t.Errorf("%v, %+v", delay, d)
	}
	hold.Cancel()
	if delay, d := q.ReserveAt(noon.Add(end), 1); !d.OK || delay != 2*time.Second-1 {
		t.Errorf("%v, %+v", delay, d)
	}
	if delay, d := q.ReserveAt(noon.Add(end).Add(math.MaxInt64), 5); !d.OK || delay != 0 {
		t.Errorf("%v, %+v", delay, d)
	}
}

func TestQueueDelayFarBefore(t *testing.T) {
	q := must(limit.NewQueue(limit.PerSecond(1), 2))
	q.TakeAt(noon, 1)
	if delay, d := q.ReserveAt(noon.Add(-100*years), 0); !d.OK || delay != 100*years+time.Second {
		t.Errorf("%v, %+v", delay, d)
	}
}
