package limit_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/limit"
)

// Equivalent mutants of wait.go:
//   - A kick of another capacity; a waiter that looks every 100 ms though it is notified.
//   - A new timer each time, or one that is not stopped.
//   - A request that lines up though nobody waits: its turn comes at once.
//   - A deadline that is the very instant of the retry (both happen), or is compared though
//     the request is OK, when RetryAfter is 0.
//
// A context that ends together with the turn is seen in one of two places, by chance.

// waiting is a limiter on which one can wait.
type waiting interface {
	limit.Holder
	Allow() bool
	Take(n int) limit.Decision
	Wait(ctx context.Context) error
	WaitN(ctx context.Context, n int) error
}

// onWaiting runs a test in a bubble for each of the limiters that share the
// implementation of waiting, or have one of their own that has to be like it. Each admits
// one unit a second and at most three at once, of which none is left.
func onWaiting(t *testing.T, f func(t *testing.T, l waiting)) {
	rate := limit.PerSecond(1)
	for _, kind := range []struct {
		name string
		make func() waiting // in the bubble, of which its channel has to be
	}{
		{"GCRA", func() waiting { return must(limit.NewGCRA(rate, 3)) }},
		{"AtomicGCRA", func() waiting { return must(limit.NewAtomicGCRA(rate, 3)) }},
		{"Meter", func() waiting { return must(limit.NewMeter(rate, 3)) }},
	} {
		t.Run(kind.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := kind.make()
				if !l.Take(1).OK || !l.Take(2).OK {
					t.Fatal("refused")
				}
				f(t, l)
			})
		})
	}
}

// finishes records which waiters are done, when, and with which error.
type finishes struct {
	mu    sync.Mutex
	begin time.Time
	done  []finish
}

type finish struct {
	who int
	at  time.Duration
	err error
}

func newFinishes() *finishes { return &finishes{begin: time.Now()} }

// wait starts to wait for n units in a goroutine of its own, and returns when it stands
// in line.
func (f *finishes) wait(ctx context.Context, l waiting, who, n int) {
	go func() {
		err := l.WaitN(ctx, n)
		f.mu.Lock()
		defer f.mu.Unlock()
		f.done = append(f.done, finish{who, time.Since(f.begin), err})
	}()
	synctest.Wait()
}

// want checks which waiters are done once all goroutines are blocked.
func (f *finishes) want(t *testing.T, want ...finish) {
	t.Helper()
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.EqualFunc(f.done, want, func(a, b finish) bool {
		return a.who == b.who && a.at == b.at && errors.Is(a.err, b.err)
	}) {
		t.Errorf("done are %v, want %v", f.done, want)
	}
}

func TestWaitInOrder(t *testing.T) {
	onWaiting(t, func(t *testing.T, l waiting) {
		f := newFinishes()
		f.wait(t.Context(), l, 1, 2)
		f.wait(t.Context(), l, 2, 1) // would pass sooner, but came later
		f.wait(t.Context(), l, 3, 3)
		f.wait(t.Context(), l, 4, 1)
		f.wait(t.Context(), l, 5, 0) // wants nothing
		f.want(t, finish{5, 0, nil})
		time.Sleep(2*time.Second - 1)
		f.want(t, finish{5, 0, nil})
		time.Sleep(time.Nanosecond)
		f.want(t, finish{5, 0, nil}, finish{1, 2 * time.Second, nil})
		time.Sleep(time.Minute)
		f.want(t, finish{5, 0, nil}, finish{1, 2 * time.Second, nil}, finish{2, 3 * time.Second, nil},
			finish{3, 6 * time.Second, nil}, finish{4, 7 * time.Second, nil})
	})
}

func TestWaitRefusesAtOnce(t *testing.T) {
	onWaiting(t, func(t *testing.T, l waiting) {
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		short, cancel := context.WithTimeout(t.Context(), time.Second-1)
		defer cancel()
		for _, c := range []struct {
			name string
			ctx  context.Context
			n    int
			want error
		}{
			{"more than can ever pass", t.Context(), 4, limit.ErrNeverFits},
			{"less than nothing", t.Context(), -1, limit.ErrNeverFits},
			{"the deadline is a nanosecond too early", short, 1, limit.ErrDeadline},
			{"ErrDeadline is a DeadlineExceeded", short, 1, context.DeadlineExceeded},
			{"the context has ended", ended, 1, context.Canceled},
			{"the context has ended, and nothing is wanted", ended, 0, context.Canceled},
		} {
			begin := time.Now()
			if err := l.WaitN(c.ctx, c.n); !errors.Is(err, c.want) {
				t.Errorf("%s: %v, want %v", c.name, err, c.want)
			}
			if waited := time.Since(begin); waited != 0 {
				t.Errorf("%s: after %v", c.name, waited)
			}
		}
		if d := l.Take(0); d.Remaining != 0 || d.ResetAfter != 3*time.Second {
			t.Errorf("something was charged: %+v", d)
		}
		inTime, cancel := context.WithTimeout(t.Context(), time.Second+1)
		defer cancel()
		if err := l.Wait(inTime); err != nil {
			t.Errorf("the deadline is late enough: %v", err)
		}
	})
}

// A waiter whose deadline cannot be met is refused at once, even behind others; if that
// shows only at the head of the line, then.
func TestWaitRefusesBehindOthers(t *testing.T) {
	onWaiting(t, func(t *testing.T, l waiting) {
		f := newFinishes()
		short, cancel := context.WithTimeout(t.Context(), 1900*time.Millisecond)
		defer cancel()
		f.wait(t.Context(), l, 1, 1)
		f.wait(short, l, 2, 2)
		f.wait(t.Context(), l, 3, 4)
		f.want(t, finish{2, 0, limit.ErrDeadline}, finish{3, 0, limit.ErrNeverFits})
		f.wait(short, l, 4, 1) // alone it would pass after a second
		time.Sleep(time.Second)
		f.want(t, finish{2, 0, limit.ErrDeadline}, finish{3, 0, limit.ErrNeverFits}, finish{1, time.Second, nil},
			finish{4, time.Second, limit.ErrDeadline})
	})
}

// A waiter that gives up charges nothing, and passes the turn on.
func TestWaitCancelled(t *testing.T) {
	for _, c := range []struct {
		name   string
		cancel int // who gives up, half a second after all began to wait
		want   []finish
	}{
		{"the first", 1, []finish{{1, time.Second / 2, context.Canceled}, {2, time.Second, nil}, {3, 2 * time.Second, nil}}},
		{"the middle", 2, []finish{{2, time.Second / 2, context.Canceled}, {1, 2 * time.Second, nil}, {3, 3 * time.Second, nil}}},
		{"the last", 3, []finish{{3, time.Second / 2, context.Canceled}, {1, 2 * time.Second, nil}, {2, 3 * time.Second, nil}}},
	} {
		onWaiting(t, func(t *testing.T, l waiting) {
			f := newFinishes()
			var cancels [4]context.CancelFunc
			for who := 1; who <= 3; who++ {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				cancels[who] = cancel
				f.wait(ctx, l, who, max(1, 3-who))
			}
			time.Sleep(time.Second / 2)
			cancels[c.cancel]()
			time.Sleep(time.Minute)
			if f.want(t, c.want...); t.Failed() {
				t.Log(c.name)
			}
		})
	}
}

// The end of a hold wakes the first that waits, where nothing else would.
func TestWaitForAHold(t *testing.T) {
	onWaiting(t, func(t *testing.T, l waiting) {
		time.Sleep(time.Hour)
		hold, _ := l.HoldAt(time.Now(), 3)
		f := newFinishes()
		f.wait(t.Context(), l, 1, 3)
		f.wait(t.Context(), l, 2, 1)
		time.Sleep(time.Second)
		f.want(t)
		hold.Cancel()
		f.want(t, finish{1, time.Second, nil})

		time.Sleep(time.Second)
		f.want(t, finish{1, time.Second, nil}, finish{2, 2 * time.Second, nil})
		time.Sleep(time.Hour)
		hold, _ = l.HoldAt(time.Now(), 2)
		f = newFinishes()
		f.wait(t.Context(), l, 3, 3)
		time.Sleep(time.Second / 2)
		hold.Commit() // one of two and a half seconds has drained
		time.Sleep(time.Minute)
		f.want(t, finish{3, 2 * time.Second, nil})
	})
}

// Requests outside the line may take the units for which the first waits: it waits on.
func TestWaitIsOvertakenByTake(t *testing.T) {
	onWaiting(t, func(t *testing.T, l waiting) {
		f := newFinishes()
		f.wait(t.Context(), l, 1, 2)
		time.Sleep(time.Second)
		if !l.Allow() {
			t.Error("what the first waits for is not given to others")
		}
		time.Sleep(time.Minute)
		f.want(t, finish{1, 3 * time.Second, nil})
	})
}

// A request that comes while others wait lines up behind them, even if its units are there.
func TestWaitDoesNotOvertake(t *testing.T) {
	onWaiting(t, func(t *testing.T, l waiting) {
		f := newFinishes()
		f.wait(t.Context(), l, 1, 3)
		time.Sleep(time.Second)
		f.wait(t.Context(), l, 2, 1)
		f.want(t)
		time.Sleep(time.Minute)
		f.want(t, finish{1, 3 * time.Second, nil}, finish{2, 4 * time.Second, nil})
	})
}

// The shortest wait of all is a wait.
func TestWaitForANanosecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := must(limit.NewGCRA(limit.Every(1), 1))
		begin := time.Now()
		for range 3 {
			if err := g.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(begin); took != 2 {
			t.Errorf("three units a nanosecond apart took %v", took)
		}
	})
}

// Many wait, and many give up: never more passes than the rate allows, no waiter is
// forgotten, and no unit is lost.
func TestWaitStress(t *testing.T) {
	onWaiting(t, func(t *testing.T, l waiting) {
		rng := rand.New(rand.NewPCG(1, 1))
		var passed atomic.Int64
		var wg sync.WaitGroup
		begin := time.Now()
		for range 2000 {
			patience := time.Duration(rng.Int64N(int64(time.Minute)))
			n := 1 + rng.IntN(3)
			hold := rng.IntN(10) == 0
			wg.Go(func() {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				defer time.AfterFunc(patience, cancel).Stop()
				if hold {
					if h, d := l.HoldAt(time.Now(), 1); d.OK {
						time.Sleep(patience / 60)
						h.Cancel()
					}
				}
				if l.WaitN(ctx, n) == nil {
					passed.Add(int64(n))
				}
			})
			time.Sleep(time.Duration(rng.Int64N(int64(time.Second))))
		}
		busy := int64(time.Since(begin) / time.Second)
		wg.Wait()
		most := int64(time.Since(begin) / time.Second) // nothing was left at the beginning
		if n := passed.Load(); n > most || n < busy*9/10 {
			t.Errorf("%d units have passed in %d seconds", n, most)
		}
		time.Sleep(time.Minute)
		if d := l.Take(0); d.Remaining != 3 {
			t.Errorf("in the end: %+v", d)
		}
	})
}

// On real threads, no waiter sleeps on after the only hold in its way has ended.
func TestWaitMissesNoWakeUp(t *testing.T) {
	l := must(limit.NewGCRA(limit.Every(1), 1)) // what is charged drains at once
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 300 {
				if hold, d := l.HoldAt(time.Now(), 1); d.OK {
					hold.Cancel()
				}
				if err := l.Wait(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}
