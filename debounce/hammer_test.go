package debounce_test

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/debounce"
	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
)

// hammered checks the invariants under concurrent calls: runs do not overlap, no run begins
// after Stop returned nil, and the values of each goroutine keep their order.
type hammered struct {
	t       *testing.T
	running atomic.Bool
	stopped atomic.Bool
	runs    atomic.Int64
	last    int             // not guarded: the race detector sees runs that overlap
	lastOf  [goroutines]int // of each goroutine, likewise
}

const (
	goroutines   = 8
	perGoroutine = 1 << 20 // more values than one has
)

func (h *hammered) act(value int) {
	if h.running.Swap(true) {
		h.t.Errorf("value %d runs while another does", value)
	}
	if h.stopped.Load() {
		h.t.Errorf("value %d runs after Stop returned nil", value)
	}
	if g := value / perGoroutine; g < goroutines {
		if value <= h.lastOf[g] {
			h.t.Errorf("value %d runs after %d", value, h.lastOf[g])
		}
		h.lastOf[g] = value
	}
	h.last = value
	h.runs.Add(1)
	switch value % 4 {
	case 0:
		time.Sleep(time.Duration(value%3) * ms)
	case 1:
		runtime.Gosched()
	}
	h.running.Store(false)
	if value%7 == 0 {
		panic("seven")
	}
}

// hammer has many goroutines call all methods but Stop.
func (h *hammered) hammer(d *debounce.Debouncer[int], seed uint64, calls int) {
	var done sync.WaitGroup
	for g := range goroutines {
		done.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(g)))
			for i := range calls {
				switch n := rng.IntN(100); {
				case n < 75:
					d.Trigger(g*perGoroutine + i + 1)
				case n < 80:
					d.Flush()
				case n < 83:
					d.Cancel()
				case n < 90:
					d.Pending()
				default:
					time.Sleep(time.Duration(rng.IntN(5)) * ms)
				}
			}
		})
	}
	done.Wait()
}

func TestHammer(t *testing.T) {
	calls := 1500
	if testing.Short() || racetest.Factor > 1 {
		calls = 150
	}
	const final = goroutines * perGoroutine
	tests := append(allOptions(2*ms), allOptions(0)...)
	for _, opts := range tests {
		opts.OnPanic = func(any) {}
		for _, drop := range []bool{false, true} {
			opts.DropOnStop = drop
			synctest.Test(t, func(t *testing.T) {
				seed := rand.Uint64()
				h := &hammered{t: t}
				d := debounce.New(opts, h.act)
				h.hammer(d, seed, calls)
				// The last value before Stop runs last, if it has to run at all.
				d.Trigger(final)
				mustRun := opts.Trailing && !drop
				if err := d.Stop(context.Background()); err != nil {
					t.Error(err)
				}
				h.stopped.Store(true)
				if h.running.Load() {
					t.Error("Stop returned nil while an action runs")
				}
				if d.Pending() {
					t.Error("a value is pending after Stop")
				}
				last := h.last
				if mustRun && last != final {
					t.Errorf("%+v, seed %d: %d ran last, want %d", opts, seed, last, final)
				}
				runs := h.runs.Load()
				if runs < int64(calls/20) {
					t.Errorf("%+v: %d runs", opts, runs)
				}
				// Calls after Stop change nothing.
				h.hammer(d, seed, calls/10)
				settle()
				if got := h.runs.Load(); got != runs {
					t.Errorf("%+v, seed %d: %d runs after Stop", opts, seed, got-runs)
				}
			})
		}
	}
}

// Stop in the midst of it all: nothing runs once it has returned nil.
func TestHammerWithStopInTheMiddle(t *testing.T) {
	rounds := 40
	if testing.Short() || racetest.Factor > 1 {
		rounds = 5
	}
	for round := range rounds {
		synctest.Test(t, func(t *testing.T) {
			h := &hammered{t: t}
			all := allOptions(2 * ms)
			opts := all[round%len(all)]
			opts.OnPanic = func(any) {}
			opts.DropOnStop = round%2 == 0
			d := debounce.New(opts, h.act)
			var done sync.WaitGroup
			for range 3 {
				done.Go(func() {
					time.Sleep(50 * ms)
					if err := d.Stop(context.Background()); err != nil {
						t.Error(err)
					}
					h.stopped.Store(true)
				})
			}
			h.hammer(d, uint64(round), 300)
			done.Wait()
			settle()
			if h.runs.Load() == 0 {
				t.Error("nothing ran")
			}
		})
	}
}
