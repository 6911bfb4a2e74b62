package debounce_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/debounce"
	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
)

// stopRace is one Debouncer whose timer is due at the instant at which another
// goroutine stops it.
type stopRace struct {
	d       *debounce.Debouncer[int]
	drop    bool
	yield   bool
	begun   atomic.Int64
	ended   atomic.Int64
	stopped atomic.Bool // Stop has returned nil
	late    atomic.Bool // a run began, or went on, after that
	gaveUp  bool
	atStop  int64 // how many runs there were when Stop returned nil
}

func newStopRace(i int) *stopRace {
	r := &stopRace{drop: i%3 == 0, yield: i%2 == 0}
	opts := debounce.Options{Delay: ms, DropOnStop: r.drop, Trailing: true}
	if i%5 == 0 {
		opts.MaxWait = ms
	}
	r.d = debounce.New(opts, r.act)
	return r
}

func (r *stopRace) act(int) {
	r.begun.Add(1)
	if r.yield {
		runtime.Gosched()
	}
	if r.stopped.Load() {
		r.late.Store(true)
	}
	r.ended.Add(1)
}

// stop gives some no time to wait.
func (r *stopRace) stop(i int) {
	ctx := context.Background()
	if i%7 == 0 {
		ctx = endedContext()
	}
	if err := r.d.Stop(ctx); err != nil {
		r.gaveUp = errors.Is(err, context.Canceled)
		if err := r.d.Stop(context.Background()); err != nil {
			return
		}
	}
	r.stopped.Store(true)
	r.atStop = r.begun.Load()
	if r.ended.Load() != r.atStop {
		r.late.Store(true)
	}
}

func TestStopAgainstFiringTimers(t *testing.T) {
	n := 100_000
	if testing.Short() || racetest.Factor > 1 {
		n = 10_000
	}
	const together = 50 // so that goroutines get in each other's way
	var dropped, gaveUp, ran int
	synctest.Test(t, func(t *testing.T) {
		for base := 0; base < n; base += together {
			var races [together]*stopRace
			var done sync.WaitGroup
			for j := range races {
				i := base + j
				r := newStopRace(i)
				races[j] = r
				// Half of the timers are set before the goroutine sleeps, and half maybe
				// after, so that which comes first is not always the same.
				if i%4 < 2 {
					r.d.Trigger(i)
				}
				done.Go(func() {
					time.Sleep(ms)
					r.stop(i)
				})
				if i%4 >= 2 {
					r.d.Trigger(i)
				}
				if i%11 == 0 {
					done.Go(func() {
						time.Sleep(ms)
						r.d.Flush()
						r.d.Trigger(-1)
					})
				}
			}
			done.Wait()
			time.Sleep(2 * ms)
			synctest.Wait()
			for j, r := range races {
				i := base + j
				begun := r.begun.Load()
				switch {
				case !r.stopped.Load():
					t.Errorf("iteration %d: Stop did not return nil in the end", i)
				case r.late.Load() || begun != r.atStop:
					t.Errorf("iteration %d: a run after Stop returned nil; %d runs then, %d in the end", i, r.atStop, begun)
				case i%11 > 0 && (begun > 1 || begun < 1 && !r.drop):
					t.Errorf("iteration %d: %d runs of one value; DropOnStop %t", i, begun, r.drop)
				case i%11 == 0 && (begun > 2 || begun < 1 && !r.drop):
					t.Errorf("iteration %d: %d runs of at most two values; DropOnStop %t", i, begun, r.drop)
				case begun == 0:
					dropped++
				default:
					ran++
				}
				if r.gaveUp {
					gaveUp++
				}
			}
			if t.Failed() {
				return
			}
		}
	})
	t.Logf("%d ran, %d were dropped, %d times Stop gave up at first", ran, dropped, gaveUp)
	// Of the values that may be dropped, the timer was faster for some and Stop for others;
	// otherwise nothing was tested.
	if dropped < n/100 || dropped > n/3-n/100 {
		t.Errorf("%d of %d values were dropped", dropped, n/3)
	}
}
