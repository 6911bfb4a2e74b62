package debounce_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/debounce"
)

func TestOnPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var notes []note
		opts := both
		opts.OnPanic = func(recovered any) {
			notes = append(notes, note{time.Since(start), fmt.Sprint("panic ", recovered)})
			time.Sleep(20 * ms) // the next run waits
		}
		d := debounce.New(opts, func(value int) {
			notes = append(notes, note{time.Since(start), noteRun(value)})
			time.Sleep(150 * ms)
			if value%2 == 1 {
				panic(value)
			}
		})
		d.Trigger(1)
		time.Sleep(10 * ms)
		d.Trigger(2)
		time.Sleep(600 * ms)
		d.Trigger(3)
		d.Trigger(4)
		d.Trigger(5)
		if err := d.Stop(context.Background()); err != nil {
			t.Errorf("Stop returned %v", err)
		}
		notes = append(notes, note{time.Since(start), "stopped"})
		want := "0 run 1, 150 panic 1, 170 run 2, 610 run 3, 760 panic 3, 780 run 5, 930 panic 5, 950 stopped"
		if got := formatNotes(notes); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
}

// With OnPanic, a panic does not reach the caller of Flush either.
func TestOnPanicInFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var recovered []any
		opts := trailing
		opts.OnPanic = func(p any) { recovered = append(recovered, p) }
		d := debounce.New(opts, func(value int) {
			var none *int
			if value == 1 {
				panic(fmt.Errorf("value %d", value))
			}
			*none = value
		})
		for _, value := range []int{1, 2} {
			d.Trigger(value)
			d.Flush()
		}
		if len(recovered) != 2 {
			t.Fatalf("recovered %v, want two panics", recovered)
		}
		if err, ok := recovered[0].(error); !ok || err.Error() != "value 1" {
			t.Errorf("recovered %v, want the error of the action", recovered[0])
		}
		if _, ok := recovered[1].(runtime.Error); !ok {
			t.Errorf("recovered %v, want a runtime error", recovered[1])
		}
		if err := d.Stop(endedContext()); err != nil {
			t.Errorf("Stop returned %v", err)
		}
	})
}

// A method called by OnPanic does not block.
func TestMethodsWithinOnPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ran []int
		var d *debounce.Debouncer[int]
		opts := trailing
		opts.OnPanic = func(any) {
			d.Trigger(7)
			d.Cancel()
			d.Trigger(2)
			if !d.Pending() {
				t.Error("Pending is false after Trigger")
			}
			d.Flush()
		}
		d = debounce.New(opts, func(value int) {
			ran = append(ran, value)
			if value == 1 {
				panic("one")
			}
		})
		d.Trigger(1)
		settle()
		if want := []int{1, 2}; !slices.Equal(ran, want) {
			t.Errorf("ran %v, want %v", ran, want)
		}
	})
}

// flushAndRecover returns what Flush panics with.
func flushAndRecover(d *debounce.Debouncer[int]) (recovered any) {
	defer func() { recovered = recover() }()
	d.Flush()
	return nil
}

func TestPanicReachesTheCallerOfFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ran []int
		var d *debounce.Debouncer[int]
		d = debounce.New(trailing, func(value int) {
			ran = append(ran, value)
			if value == 1 {
				d.Trigger(2)
				d.Flush() // for after this run
				panic("boom")
			}
		})
		d.Trigger(1)
		if got := flushAndRecover(d); got != "boom" {
			t.Errorf("Flush panicked with %v, want boom", got)
		}
		synctest.Wait()
		d.Trigger(3)
		if got := flushAndRecover(d); got != nil {
			t.Errorf("the second Flush panicked with %v", got)
		}
		d.Trigger(4)
		if err := d.Stop(context.Background()); err != nil {
			t.Errorf("Stop returned %v", err)
		}
		if want := []int{1, 2, 3, 4}; !slices.Equal(ran, want) {
			t.Errorf("ran %v, want %v", ran, want)
		}
	})
}

func TestGoexitInTheAction(t *testing.T) {
	for _, flush := range []bool{false, true} {
		t.Run(fmt.Sprintf("flush %t", flush), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ran []int
				d := debounce.New(both, func(value int) {
					ran = append(ran, value)
					time.Sleep(10 * ms)
					if value%2 == 1 {
						runtime.Goexit()
					}
				})
				d.Trigger(1)
				d.Trigger(2)
				if flush {
					go d.Flush()
				}
				time.Sleep(time.Hour)
				d.Trigger(3)
				d.Trigger(4)
				d.Trigger(5)
				if flush {
					go d.Flush()
				}
				synctest.Wait()
				if err := d.Stop(context.Background()); err != nil {
					t.Errorf("Stop returned %v", err)
				}
				if want := []int{1, 2, 3, 5}; !slices.Equal(ran, want) {
					t.Errorf("ran %v, want %v", ran, want)
				}
			})
		})
	}
}

func TestOptionsThatAreMistakes(t *testing.T) {
	nothing := func(int) {}
	tests := []struct {
		name string
		make func()
		want string // "" for no panic
	}{
		{"negative Delay", func() { debounce.New(debounce.Options{Delay: -1}, nothing) },
			"debounce.New: Delay is -1ns, want 0 or more"},
		{"negative MaxWait", func() { debounce.New(debounce.Options{MaxWait: -time.Second}, nothing) },
			"debounce.New: MaxWait is -1s, want 0 or more"},
		{"MaxWait below Delay", func() { debounce.New(debounce.Options{Delay: 2 * time.Second, MaxWait: time.Second}, nothing) },
			"debounce.New: MaxWait is 1s, want 0 or at least Delay, which is 2s"},
		{"MaxWait as long as Delay", func() { debounce.New(debounce.Options{Delay: time.Second, MaxWait: time.Second}, nothing) }, ""},
		{"MaxWait without Delay", func() { debounce.New(debounce.Options{MaxWait: 1}, nothing) }, ""},
		{"the longest Delay", func() { debounce.New(debounce.Options{Delay: 1<<63 - 1}, nothing).Trigger(1) }, ""},
		{"no action", func() { debounce.New[int](debounce.Options{}, nil) },
			"debounce.New: action is nil"},
		{"zero", func() { debounce.New(debounce.Options{}, nothing) }, ""},
		{"negative interval", func() { debounce.NewThrottle(-time.Second, debounce.Options{}, nothing) },
			"debounce.NewThrottle: interval is -1s, want 0 or more"},
		{"throttle without action", func() { debounce.NewThrottle[int](time.Second, debounce.Options{}, nil) },
			"debounce.NewThrottle: action is nil"},
		{"throttle without interval", func() { debounce.NewThrottle(0, debounce.Options{}, nothing) }, ""},
		{"throttle does not look at durations", func() { debounce.NewThrottle(1, debounce.Options{Delay: -1, MaxWait: -1}, nothing) }, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := ""
			func() {
				defer func() {
					if p := recover(); p != nil {
						got = fmt.Sprint(p)
					}
				}()
				tt.make()
			}()
			if got != tt.want {
				t.Errorf("panics with %q, want %q", got, tt.want)
			}
		})
	}
}
