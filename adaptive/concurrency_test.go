package adaptive_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/adaptive"
	"dappco.re/go/core/go-ratelimit/limit"
)

// newConcurrency returns a Concurrency of 1 to 1,000 calls with a seed, but for what change
// changes.
func newConcurrency(t testing.TB, change func(*adaptive.ConcurrencyConfig)) *adaptive.Concurrency {
	t.Helper()
	config := adaptive.ConcurrencyConfig{Floor: 1, Ceiling: 1000, Seed: 20}
	if change != nil {
		change(&config)
	}
	c, err := adaptive.NewConcurrency(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func slotsAtStart(n int) func(*adaptive.ConcurrencyConfig) {
	return func(c *adaptive.ConcurrencyConfig) { c.Start = n }
}

// acquire takes all slots that are free.
func acquire(c *adaptive.Concurrency, now time.Time) (slots []adaptive.Slot) {
	for {
		s, ok := c.TryAcquireAt(now)
		if !ok {
			return slots
		}
		slots = append(slots, s)
	}
}

// rounds uses all slots for some rounds of calls that take 3 seconds, without overload.
func rounds(c *adaptive.Concurrency, now time.Time, n int) time.Time {
	for range n {
		held := acquire(c, now)
		now = now.Add(3 * time.Second)
		for _, s := range held {
			s.ReleaseAt(now)
		}
	}
	return now
}

func TestConcurrencyKeepsTheLimit(t *testing.T) {
	c := newConcurrency(t, slotsAtStart(3))
	held := acquire(c, noon)
	if len(held) != 3 || c.InFlight() != 3 || c.Limit() != 3 {
		t.Fatalf("%d slots, %d in flight, limit %d", len(held), c.InFlight(), c.Limit())
	}
	held[1].ReleaseAt(noon)
	if again := acquire(c, noon); len(again) != 1 {
		t.Errorf("%d slots after one was given back", len(again))
	}
}

// A slot is given back once, however often, in whatever way, and through however many copies.
func TestSlotReleasedOnce(t *testing.T) {
	c := newConcurrency(t, slotsAtStart(2))
	held := acquire(c, noon)
	copied := held[0]
	held[0].ReleaseAt(noon)
	copied.ReleaseAt(noon)
	if copied.OverloadedAt(noon, time.Hour) || c.InFlight() != 1 || c.Limit() != 2 {
		t.Errorf("%d in flight, limit %d", c.InFlight(), c.Limit())
	}
	again, ok := c.TryAcquireAt(noon)
	held[0].ReleaseAt(noon) // is not the one that took its place
	if !ok || c.InFlight() != 2 {
		t.Errorf("%v, %d in flight", ok, c.InFlight())
	}
	again.ReleaseAt(noon)
	if c.InFlight() != 1 {
		t.Errorf("%d in flight", c.InFlight())
	}
	adaptive.Slot{}.Release()
	if (adaptive.Slot{}).Overloaded(time.Hour) {
		t.Error("no slot lowered the limit")
	}
}

func TestConcurrencyOneDecreaseInACoolDown(t *testing.T) {
	c := newConcurrency(t, slotsAtStart(100))
	lowered := 0
	for _, s := range acquire(c, noon)[:20] {
		if s.OverloadedAt(noon.Add(time.Second), 0) {
			lowered++
		}
	}
	if lowered != 1 || c.Limit() != 95 || c.InFlight() != 80 {
		t.Errorf("%d decreases to %d, %d in flight", lowered, c.Limit(), c.InFlight())
	}
}

// A call that took its slot before the decrease says nothing about the lower limit, however
// long it takes.
func TestConcurrencyLateOverload(t *testing.T) {
	c := newConcurrency(t, slotsAtStart(100))
	held := acquire(c, noon)
	held[0].OverloadedAt(noon.Add(time.Second), 0)
	if held[1].OverloadedAt(noon.Add(2*time.Minute), 0) {
		t.Error("an earlier call lowered the limit again")
	}
	for _, s := range held[2:] {
		s.ReleaseAt(noon.Add(2 * time.Minute))
	}
	s, _ := c.TryAcquireAt(noon.Add(2 * time.Minute))
	if !s.OverloadedAt(noon.Add(2*time.Minute+1), 0) || c.Limit() != 85 {
		t.Errorf("a later call left %d", c.Limit())
	}
}

// The limit grows by rounds of calls in which it was reached, and only by those.
func TestConcurrencyGrows(t *testing.T) {
	c := newConcurrency(t, nil)
	now := rounds(c, noon, 8)
	if got := c.Limit(); got != 256 {
		t.Errorf("after 8 rounds: %d, want 256", got)
	}
	c = newConcurrency(t, slotsAtStart(10))
	for range 100 { // 9 of 10
		var held []adaptive.Slot
		for range 9 {
			s, _ := c.TryAcquireAt(now)
			held = append(held, s)
		}
		now = now.Add(3 * time.Second)
		for _, s := range held {
			s.ReleaseAt(now)
		}
	}
	if got := c.Limit(); got != 10 {
		t.Errorf("unused, it is %d, want 10", got)
	}
	if rounds(c, now, 300); c.Limit() != 1000 {
		t.Errorf("after 300 rounds: %d, want the ceiling", c.Limit())
	}
}

// A window lasts, and needs as many ends as there are slots.
func TestConcurrencyWindow(t *testing.T) {
	c := newConcurrency(t, slotsAtStart(10))
	now := noon
	for range 100 { // 1.9 seconds
		now = now.Add(19 * time.Millisecond)
		for _, s := range acquire(c, now) {
			s.ReleaseAt(now)
		}
	}
	if c.Limit() != 10 {
		t.Errorf("%d before the window was over", c.Limit())
	}
	held := acquire(c, now)
	for _, s := range held[:5] {
		s.OverloadedAt(now, 0) // the window begins
	}
	acquire(c, now)
	now = now.Add(time.Minute)
	for _, s := range held[5:] {
		s.ReleaseAt(now)
	}
	if got := c.StateAt(now).Slots; got != 9000 {
		t.Errorf("%d thousandths after 5 calls, want 9000", got)
	}
}

// Overload of a call that took its slot at the very instant of the decrease is late; and a
// clock that was set back does not keep overload from being heard.
func TestConcurrencyInstants(t *testing.T) {
	c := newConcurrency(t, slotsAtStart(100))
	held := acquire(c, noon)
	held[0].OverloadedAt(noon, 0)
	if held[1].OverloadedAt(noon.Add(time.Minute), 0) {
		t.Error("a call of the instant of the decrease lowered the limit")
	}
	for _, s := range held[2:] {
		s.ReleaseAt(noon)
	}
	before := noon.Add(-time.Hour)
	s, _ := c.TryAcquireAt(before)
	if !s.OverloadedAt(before, 0) {
		t.Error("overload was not heard after the clock was set back")
	}
}

// An outage leaves the floor, from which the limit at most doubles in a round.
func TestConcurrencySlowStart(t *testing.T) {
	c := newConcurrency(t, slotsAtStart(200))
	now := noon
	for range 30 {
		for _, s := range acquire(c, now) {
			s.OverloadedAt(now.Add(time.Millisecond), 0)
		}
		now = now.Add(3 * time.Second)
	}
	if c.Limit() != 1 {
		t.Fatalf("after an outage: %d", c.Limit())
	}
	for last := 1; c.Limit() < 100; last = c.Limit() {
		now = rounds(c, now, 1)
		if c.Limit() > 2*last+1 {
			t.Fatalf("from %d to %d in a round", last, c.Limit())
		}
		if now.After(noon.Add(time.Hour)) {
			t.Fatalf("%d an hour later", c.Limit())
		}
	}
}

// Nobody gets a slot before the provider wants it; then the waiters get theirs.
func TestConcurrencyGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConcurrency(t, slotsAtStart(2))
		s, _ := c.TryAcquire()
		start := time.Now()
		s.Overloaded(10 * time.Second)
		if _, ok := c.TryAcquire(); ok {
			t.Error("a slot while the gate is closed")
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if _, err := c.Acquire(ctx); !errors.Is(err, limit.ErrDeadline) || time.Since(start) > 0 {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		slot, err := c.Acquire(t.Context())
		if took := time.Since(start); err != nil || took < 10*time.Second || took > 11*time.Second {
			t.Errorf("%v after %v", err, took)
		}
		slot.Release()
	})
}

// A second gate opens like the first.
func TestConcurrencyGates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConcurrency(t, slotsAtStart(1))
		slot, _ := c.TryAcquire()
		for range 3 {
			start := time.Now()
			slot.Overloaded(10 * time.Second)
			var err error
			if slot, err = c.Acquire(t.Context()); err != nil || time.Since(start) < 10*time.Second || time.Since(start) > 11*time.Second {
				t.Fatalf("%v after %v", err, time.Since(start))
			}
		}
	})
}

// A slot that came too late for a waiter goes to the next one.
func TestConcurrencyCanceledWaiterPassesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConcurrency(t, func(c *adaptive.ConcurrencyConfig) { c.Ceiling = 1 })
		for range 200 {
			slot, _ := c.TryAcquire()
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			wait := func(ctx context.Context) {
				wg.Go(func() {
					if s, err := c.Acquire(ctx); err == nil {
						s.Release()
					}
				})
				synctest.Wait()
			}
			wait(ctx)
			wait(t.Context())
			slot.Release()
			cancel()
			wg.Wait() // a deadlock if the second is forgotten
		}
	})
}

// Waiters are served in the order in which they came, and nobody passes them.
func TestConcurrencyFIFO(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConcurrency(t, func(c *adaptive.ConcurrencyConfig) { c.Ceiling = 1 })
		first, _ := c.TryAcquire()
		var order []int
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() {
				s, err := c.Acquire(t.Context())
				if err != nil {
					t.Error(err)
				}
				order = append(order, i) // one at a time
				time.Sleep(time.Second)
				if _, ok := c.TryAcquire(); ok {
					t.Error("one passed the waiters")
				}
				s.Release()
			})
			synctest.Wait()
		}
		if c.Waiting() != 10 {
			t.Errorf("%d wait", c.Waiting())
		}
		first.Release()
		wg.Wait()
		for i, n := range order {
			if i != n {
				t.Fatalf("order %v", order)
			}
		}
	})
}

// A waiter that gives up holds no slot, also if it gets one in that moment.
func TestConcurrencyCanceledWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConcurrency(t, func(c *adaptive.ConcurrencyConfig) { c.Ceiling = 1 })
		rng := rand.New(rand.NewPCG(20, 3))
		for range 2000 {
			first, ok := c.TryAcquire()
			if !ok {
				t.Fatal("a slot is held")
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				if s, err := c.Acquire(ctx); err == nil {
					s.Release()
				}
			}()
			synctest.Wait()
			if rng.IntN(2) == 0 {
				first.Release()
				cancel()
			} else {
				cancel()
				first.Release()
			}
			<-done
			if c.InFlight() != 0 || c.Waiting() != 0 {
				t.Fatalf("%d in flight, %d wait", c.InFlight(), c.Waiting())
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := c.Acquire(ctx); !errors.Is(err, context.Canceled) || c.InFlight() != 0 {
			t.Errorf("%v, %d in flight", err, c.InFlight())
		}
	})
}

// Many goroutines acquire, give up, release and overload: there are never more than the limit
// was, and in the end none is held.
func TestConcurrencyRace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConcurrency(t, func(c *adaptive.ConcurrencyConfig) { c.Ceiling = 20 })
		var wg sync.WaitGroup
		for i := range 40 {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(i), 4))
				for range 200 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rng.Int64N(int64(10*time.Second))))
					s, err := c.Acquire(ctx)
					cancel()
					if err != nil {
						continue
					}
					if n := c.InFlight(); n > 20 {
						t.Errorf("%d in flight", n)
					}
					time.Sleep(time.Duration(rng.Int64N(int64(time.Second))))
					if rng.IntN(30) == 0 {
						s.Overloaded(time.Duration(rng.Int64N(int64(time.Second))))
					}
					s.Release()
					s.Release()
				}
			})
		}
		wg.Wait()
		if c.InFlight() != 0 || c.Waiting() != 0 {
			t.Errorf("%d in flight, %d wait", c.InFlight(), c.Waiting())
		}
	})
}

func TestConcurrencyRestore(t *testing.T) {
	for age, want := range map[time.Duration]int{0: 101, time.Hour: 51, 2 * time.Hour: 26, 1000 * time.Hour: 1} {
		c := newConcurrency(t, nil)
		c.Restore(adaptive.ConcurrencyState{Slots: 101_000, Knee: 120_000, At: noon.UnixNano()}, noon.Add(age))
		if c.Limit() != want || c.StateAt(noon).Knee != 120_000 {
			t.Errorf("after %v: %d, want %d; %+v", age, c.Limit(), want, c.State())
		}
	}
	c := newConcurrency(t, slotsAtStart(10))
	c.Restore(adaptive.ConcurrencyState{Knee: 5}, noon)
	if c.Limit() != 10 {
		t.Errorf("nothing made it %d", c.Limit())
	}
	c.Restore(adaptive.ConcurrencyState{Slots: math.MaxInt64, Knee: math.MaxInt64, At: math.MaxInt64}, noon)
	if c.Limit() != 1000 {
		t.Errorf("too much made it %d", c.Limit())
	}
}

func TestNewConcurrencyErrors(t *testing.T) {
	for field, c := range map[string]adaptive.ConcurrencyConfig{
		"Floor is 0":       {Ceiling: 1},
		"Floor is 1000001": {Floor: 1_000_001, Ceiling: 1_000_001},
		"Ceiling is 1":     {Floor: 2, Ceiling: 1},
		"Ceiling is 10000": {Floor: 2, Ceiling: 1_000_001},
		"Start is 1":       {Floor: 2, Ceiling: 3, Start: 1},
		"Start is 4":       {Floor: 2, Ceiling: 3, Start: 4},
		"Decrease is -1":   {Floor: 2, Ceiling: 3, Decrease: -1},
		"Increase is 1001": {Floor: 2, Ceiling: 3, Increase: 1001},
		"CoolDown is -1ns": {Floor: 2, Ceiling: 3, CoolDown: -1},
		"Window is -1ns":   {Floor: 2, Ceiling: 3, Window: -1},
		"HalfLife is -1ns": {Floor: 2, Ceiling: 3, HalfLife: -1},
	} {
		l, err := adaptive.NewConcurrency(c)
		if l != nil || !errors.Is(err, limit.ErrInvalid) || !strings.Contains(err.Error(), field) ||
			!strings.HasPrefix(err.Error(), "new adaptive concurrency: ") {
			t.Errorf("%s: %v, %v", field, l, err)
		}
	}
}
