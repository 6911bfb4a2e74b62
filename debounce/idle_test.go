package debounce_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"dappco.re/go/core/go-ratelimit/debounce"
)

// allOptions are all combinations of edges, with and without MaxWait.
func allOptions(delay time.Duration) (all []debounce.Options) {
	for _, opts := range []debounce.Options{{Leading: true}, {Trailing: true}, {Leading: true, Trailing: true}} {
		opts.Delay = delay
		all = append(all, opts, withMaxWait(opts, delay+1))
	}
	return all
}

// ourGoroutines are the stacks of those in a bubble that are in the package or were
// started by it. Outside, some of another test may be about to end.
func ourGoroutines() (ours []string) {
	buf := make([]byte, 1<<20)
	buf = buf[:runtime.Stack(buf, true)]
	for stack := range strings.SplitSeq(string(buf), "\n\n") {
		header, _, _ := strings.Cut(stack, "\n")
		if strings.Contains(header, "synctest bubble") && strings.Contains(stack, "go-ratelimit/debounce.") {
			ours = append(ours, stack)
		}
	}
	return ours
}

func TestNoGoroutineWhileIdle(t *testing.T) {
	for _, opts := range allOptions(time.Second) {
		t.Run(fmt.Sprintf("%+v", opts), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				during := 0
				d := debounce.New(opts, func(int) { during = len(ourGoroutines()) })
				states := []struct {
					name string
					do   func()
				}{
					{"new", func() {}},
					{"a value waits", func() { d.Trigger(1); d.Trigger(2) }},
					{"after the burst", settle},
					{"flushed", func() { d.Trigger(3); d.Trigger(4); d.Flush() }},
					{"cancelled", func() { d.Trigger(5); d.Cancel() }},
					{"stopped", func() { d.Stop(endedContext()) }},
				}
				for _, state := range states {
					state.do()
					synctest.Wait()
					if ours := ourGoroutines(); ours != nil {
						t.Errorf("%s: goroutines\n%s", state.name, strings.Join(ours, "\n\n"))
					}
				}
				if during == 0 {
					t.Error("a running action was not seen")
				}
			})
		})
	}
}

// Stops that gave up, and timers that were stopped, leave nothing behind either.
func TestGoroutinesDoNotAddUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		d := debounce.New(leading, func(int) { <-release })
		d.Trigger(1)
		synctest.Wait()
		for range 1000 {
			d.Trigger(2)
			d.Flush()
			d.Cancel()
			d.Stop(endedContext())
		}
		synctest.Wait()
		if ours := ourGoroutines(); len(ours) != 1 {
			t.Errorf("%d goroutines, want that of the action:\n%s", len(ours), strings.Join(ours, "\n\n"))
		}
		close(release)
	})
}

func TestTriggerDoesNotAllocate(t *testing.T) {
	type big [16]int
	test := func(opts debounce.Options, name string, trigger func(d *debounce.Debouncer[big])) {
		t.Run(fmt.Sprintf("%s, %+v", name, opts), func(t *testing.T) {
			d := debounce.New(opts, func(big) {})
			trigger(d) // makes the timer
			run := func() {
				trigger(d)
				runtime.Gosched() // else goroutines that wait to begin add up
			}
			if allocs := testing.AllocsPerRun(2000, run); allocs != 0 {
				t.Errorf("Trigger allocates %v times", allocs)
			}
		})
	}
	for _, opts := range allOptions(time.Hour) {
		test(opts, "in a burst", func(d *debounce.Debouncer[big]) { d.Trigger(big{}) })
		test(opts, "first of a burst", func(d *debounce.Debouncer[big]) { d.Trigger(big{}); d.Cancel() })
		test(opts, "flushed", func(d *debounce.Debouncer[big]) { d.Trigger(big{}); d.Trigger(big{}); d.Flush() })
	}
	for _, opts := range allOptions(0) {
		test(opts, "without delay", func(d *debounce.Debouncer[big]) { d.Trigger(big{}) })
	}
	t.Run("stopped", func(t *testing.T) {
		d := debounce.New(trailing, func(big) {})
		d.Stop(endedContext())
		if allocs := testing.AllocsPerRun(1000, func() { d.Trigger(big{}) }); allocs != 0 {
			t.Errorf("Trigger allocates %v times", allocs)
		}
	})
}

type payload struct {
	_ *int // else it may share its memory with another that is kept
	_ [1000]byte
}

// uncollected returns how many of them the garbage collector leaves. Goroutines of
// actions may still have to end, so it is patient with what is left.
func uncollected(values []weak.Pointer[payload]) (left int) {
	for begun := time.Now(); time.Since(begun) < 10*time.Second; runtime.Gosched() {
		runtime.GC()
		left = 0
		for _, v := range values {
			if v.Value() != nil {
				left++
			}
		}
		if left == 0 {
			break
		}
	}
	return left
}

// A value is forgotten once it is served, cancelled or dropped, though the
// Debouncer goes on. There are no bubbles here: in one, the collector's work would
// have to be waited for.
func TestNoValueIsKept(t *testing.T) {
	hour := func(opts debounce.Options) debounce.Options { opts.Delay = time.Hour; return opts }
	tests := []struct {
		name string
		opts debounce.Options
		do   func(d *debounce.Debouncer[*payload], value func() *payload)
	}{
		{"leading: served, and not used", hour(leading), func(d *debounce.Debouncer[*payload], value func() *payload) {
			d.Trigger(value())
			d.Trigger(value())
			d.Flush()
		}},
		{"trailing: served by the timer, and replaced", debounce.Options{Delay: 1}, func(d *debounce.Debouncer[*payload], value func() *payload) {
			d.Trigger(value())
			d.Trigger(value())
		}},
		{"trailing: flushed", hour(trailing), func(d *debounce.Debouncer[*payload], value func() *payload) {
			d.Trigger(value())
			d.Trigger(value())
			d.Flush()
		}},
		{"both: flushed", hour(both), func(d *debounce.Debouncer[*payload], value func() *payload) {
			d.Trigger(value())
			d.Trigger(value())
			d.Trigger(value())
			d.Flush()
		}},
		{"MaxWait", debounce.Options{Delay: 1, MaxWait: 1}, func(d *debounce.Debouncer[*payload], value func() *payload) {
			for range 100 {
				d.Trigger(value())
			}
		}},
		{"cancelled", hour(trailing), func(d *debounce.Debouncer[*payload], value func() *payload) {
			d.Trigger(value())
			d.Cancel()
		}},
		{"dropped by Stop", withDropOnStop(hour(trailing)), func(d *debounce.Debouncer[*payload], value func() *payload) {
			d.Trigger(value())
			d.Stop(t.Context())
		}},
		{"run by Stop", hour(both), func(d *debounce.Debouncer[*payload], value func() *payload) {
			d.Trigger(value())
			d.Trigger(value())
			d.Stop(t.Context())
		}},
		{"triggered after Stop", hour(trailing), func(d *debounce.Debouncer[*payload], value func() *payload) {
			d.Stop(t.Context())
			d.Trigger(value())
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var values []weak.Pointer[payload]
			d := debounce.New(tt.opts, func(p *payload) { runtime.KeepAlive(p) })
			tt.do(d, func() *payload {
				p := new(payload)
				values = append(values, weak.Make(p))
				return p
			})
			if left := uncollected(values); left > 0 {
				t.Errorf("%d of %d values are kept", left, len(values))
			}
			runtime.KeepAlive(d)
		})
	}
}

// What waited behind a running action is not kept either, and while an action
// runs, only its own value may be.
func TestNoValueIsKeptBehindARunningAction(t *testing.T) {
	for _, drop := range []string{"cancelled", "dropped by Stop", "served"} {
		t.Run(drop, func(t *testing.T) {
			var values []weak.Pointer[payload]
			value := func() *payload {
				p := new(payload)
				values = append(values, weak.Make(p))
				return p
			}
			begun, release := make(chan struct{}), make(chan struct{})
			opts := both
			opts.Delay = time.Hour
			opts.DropOnStop = drop == "dropped by Stop"
			d := debounce.New(opts, func(p *payload) {
				if p == nil {
					begun <- struct{}{}
					<-release
				}
			})
			d.Trigger(nil)
			<-begun
			d.Trigger(value())
			d.Flush() // puts it behind the running one
			d.Trigger(value())
			d.Trigger(value())
			if !d.Pending() {
				t.Error("nothing is pending")
			}
			switch drop {
			case "cancelled":
				d.Cancel()
			case "dropped by Stop":
				d.Stop(endedContext())
			case "served":
				d.Flush()
				close(release)
				d.Stop(t.Context())
			}
			if left := uncollected(values); left > 0 {
				t.Errorf("%d of %d values are kept", left, len(values))
			}
			if drop != "served" {
				close(release)
			}
			d.Stop(t.Context())
			runtime.KeepAlive(d)
		})
	}
}
