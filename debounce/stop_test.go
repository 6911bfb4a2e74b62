package debounce_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/debounce"
)

func TestStop(t *testing.T) {
	runDebouncerScripts(t, []scriptTest{
		{"never triggered", trailing, 0,
			"0 stop", "0 stopped <nil>"},
		{"nothing pending", trailing, 0,
			"0 trigger 1, 200 stop", "100 run 1, 200 stopped <nil>"},
		{"runs what is pending", trailing, 30,
			"0 trigger 1, 40 stop", "40 run 1, 70 stopped <nil>"},
		{"drops what is pending", withDropOnStop(trailing), 30,
			"0 trigger 1, 40 stop, pending", "40 pending false, 40 stopped <nil>"},
		{"leading: has nothing to run", leading, 0,
			"0 trigger 1, 10 trigger 2, 40 stop", "0 run 1, 40 stopped <nil>"},
		{"waits for the running action", leading, 50,
			"0 trigger 1, 10 stop", "0 run 1, 50 stopped <nil>"},
		{"drops, and waits for the running action", withDropOnStop(trailing), 50,
			"0 trigger 1, 110 stop", "100 run 1, 150 stopped <nil>"},
		{"runs what comes after the running action", both, 50,
			"0 trigger 1, 10 trigger 2, 20 stop", "0 run 1, 50 run 2, 100 stopped <nil>"},
		{"runs what waits behind the running action", both, 150,
			"0 trigger 1, 10 trigger 2, 120 stop", "0 run 1, 150 run 2, 300 stopped <nil>"},
		{"runs the last of what waits", both, 200,
			"0 trigger 1, 10 trigger 2, 120 trigger 3, 130 trigger 4, 140 stop", "0 run 1, 200 run 4, 400 stopped <nil>"},
		{"drops what comes after the running action", withDropOnStop(both), 50,
			"0 trigger 1, 10 trigger 2, 20 stop", "0 run 1, 50 stopped <nil>"},
		{"drops what waits behind the running action", withDropOnStop(both), 150,
			"0 trigger 1, 10 trigger 2, 120 stop", "0 run 1, 150 stopped <nil>"},
		{"waits for a flush", trailing, 50,
			"0 trigger 1, 10 flush, 20 stop", "10 run 1, 60 flushed, 60 stopped <nil>"},

		{"its context ends first", both, 100,
			"0 trigger 1, 10 trigger 2, 20 stop 30", "0 run 1, 50.0005 stopped context deadline exceeded, 100 run 2"},
		{"a second one waits again", both, 100,
			"0 trigger 1, 10 trigger 2, 20 stop 30, 150 stop",
			"0 run 1, 50.0005 stopped context deadline exceeded, 100 run 2, 200 stopped <nil>"},
		{"a second one's context ends, too", trailing, 100,
			"0 trigger 1, 10 stop 30, 50 stop 20, 80 stop",
			"10 run 1, 40.0005 stopped context deadline exceeded, 70.0005 stopped context deadline exceeded, 110 stopped <nil>"},
		{"several at once", trailing, 100,
			"0 trigger 1, 10 stop 30, 10 stop, 20 stop, 30 stop 5, 500 stop",
			"10 run 1, 35.0005 stopped context deadline exceeded, 40.0005 stopped context deadline exceeded, 110 stopped <nil>, 110 stopped <nil>, 500 stopped <nil>"},
		{"a second one drops nothing more", both, 100,
			"0 trigger 1, 10 trigger 2, 20 stop, 30 stop", "0 run 1, 100 run 2, 200 stopped <nil>, 200 stopped <nil>"},

		{"trigger after it does nothing", both, 0,
			"0 stop, 10 trigger 1, 20 trigger 2, 30 pending, 40 flush", "0 stopped <nil>, 30 pending false, 40 flushed"},
		{"trigger while it waits does nothing", both, 50,
			"0 trigger 1, 10 stop, 20 trigger 2, 30 trigger 3, 40 flush", "0 run 1, 40 flushed, 50 stopped <nil>"},
		{"flush and cancel after it do nothing", trailing, 0,
			"0 trigger 1, 10 stop, 20 flush, 30 cancel, 40 trigger 2, 50 flush", "10 run 1, 10 stopped <nil>, 20 flushed, 50 flushed"},
		{"flush while it waits returns at once", both, 50,
			"0 trigger 1, 10 trigger 2, 20 stop, 30 flush", "0 run 1, 30 flushed, 50 run 2, 100 stopped <nil>"},
		{"the burst ends with it", withMaxWait(both, 150*ms), 0,
			"0 trigger 1, 10 trigger 2, 20 stop", "0 run 1, 20 run 2, 20 stopped <nil>"},
	})
}

var errShutdown = errors.New("shut down")

// endedContext has ended already, with a cause that Stop has no need to know.
func endedContext() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errShutdown)
	return ctx
}

func TestStopReturnsTheErrorOfItsContext(t *testing.T) {
	tests := []struct {
		name string
		make func() (context.Context, context.CancelFunc)
		want error
	}{
		{"deadline", func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(context.Background(), 10*ms)
		}, context.DeadlineExceeded},
		{"cancelled", func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(context.Background())
			time.AfterFunc(10*ms, cancel)
			return ctx, cancel
		}, context.Canceled},
		{"ended before", func() (context.Context, context.CancelFunc) {
			return endedContext(), func() {}
		}, context.Canceled},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ran := 0
				d := debounce.New(trailing, func(int) { time.Sleep(time.Second); ran++ })
				d.Trigger(1)
				ctx, cancel := tt.make()
				defer cancel()
				if err := d.Stop(ctx); !errors.Is(err, tt.want) {
					t.Errorf("Stop returned %v, want %v", err, tt.want)
				}
				// Even so, what was pending runs, and another Stop waits for it.
				if err := d.Stop(context.Background()); err != nil || ran != 1 {
					t.Errorf("the second Stop returned %v after %d runs, want nil and 1", err, ran)
				}
			})
		})
	}
}

func TestStopWithAnEndedContextAndNothingToWaitFor(t *testing.T) {
	tests := []struct {
		name    string
		opts    debounce.Options
		prepare func(d *debounce.Debouncer[int])
	}{
		{"never triggered", trailing, func(*debounce.Debouncer[int]) {}},
		{"has run", both, func(d *debounce.Debouncer[int]) { d.Trigger(1); d.Trigger(2); time.Sleep(time.Second) }},
		{"flushed", trailing, func(d *debounce.Debouncer[int]) { d.Trigger(1); d.Flush() }},
		{"cancelled", trailing, func(d *debounce.Debouncer[int]) { d.Trigger(1); d.Cancel() }},
		{"dropped", withDropOnStop(trailing), func(d *debounce.Debouncer[int]) { d.Trigger(1) }},
		{"stopped", trailing, func(d *debounce.Debouncer[int]) { d.Trigger(1); d.Stop(context.Background()) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := debounce.New(tt.opts, func(int) {})
				tt.prepare(d)
				synctest.Wait()
				for range 100 { // a choice between two that are ready is drawn
					if err := d.Stop(endedContext()); err != nil {
						t.Fatalf("Stop returned %v", err)
					}
				}
			})
		})
	}
}

// lateContext ends while Stop looks at it.
type lateContext struct {
	context.Context
	after time.Duration
}

func (c lateContext) Done() <-chan struct{} {
	time.Sleep(c.after)
	return c.Context.Done()
}

// Which of two channels that are ready is taken is drawn. Stop must not say that an
// action may still run when none does.
func TestStopWhoseContextEndsWithTheAction(t *testing.T) {
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			d := debounce.New(leading, func(int) { time.Sleep(10 * ms) })
			d.Trigger(1)
			if err := d.Stop(lateContext{endedContext(), 20 * ms}); err != nil {
				t.Errorf("Stop returned %v, though the action has ended", err)
			}
		})
	}
}

func TestStopInsideTheAction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var d *debounce.Debouncer[int]
		var ran []int
		d = debounce.New(both, func(value int) {
			ran = append(ran, value)
			if value > 1 {
				return
			}
			d.Trigger(2)
			ctx, cancel := context.WithTimeout(context.Background(), 70*ms)
			defer cancel()
			if err := d.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Stop inside the action returned %v, want that its context ended", err)
			}
			if took := time.Since(start); took != 70*ms {
				t.Errorf("Stop inside the action took %v, want 70ms", took)
			}
		})
		d.Trigger(1)
		synctest.Wait()
		if err := d.Stop(context.Background()); err != nil {
			t.Errorf("Stop outside returned %v", err)
		}
		if took := time.Since(start); took != 70*ms {
			t.Errorf("Stop outside took %v, want 70ms", took)
		}
		if !slices.Equal(ran, []int{1, 2}) {
			t.Errorf("ran %v, want [1 2]", ran)
		}
	})
}

// What another goroutine has run by Flush is waited for as well.
func TestStopOfOneThatIsFlushedByTheActionOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ran := 0
		inner := debounce.New(trailing, func(int) { time.Sleep(30 * ms); ran++ })
		outer := debounce.New(trailing, func(int) { inner.Flush() })
		inner.Trigger(1)
		outer.Trigger(1)
		go outer.Flush()
		synctest.Wait()
		if err := outer.Stop(context.Background()); err != nil || ran != 1 {
			t.Errorf("Stop of the outer one returned %v after %d runs of the inner one's action", err, ran)
		}
		if err := inner.Stop(endedContext()); err != nil {
			t.Errorf("Stop of the inner one: %v", err)
		}
	})
}
