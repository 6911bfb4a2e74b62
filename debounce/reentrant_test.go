package debounce_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/debounce"
)

// Within the action every method but Stop returns at once.
func TestMethodsWithinTheAction(t *testing.T) {
	tests := []struct {
		name   string
		opts   debounce.Options
		within func(d *debounce.Debouncer[int]) // the run of 1
		want   string
	}{
		{"trigger: trailing", trailing, func(d *debounce.Debouncer[int]) { d.Trigger(2) },
			"100 run 1, 200 run 2"},
		{"trigger: leading drops it within Delay", leading, func(d *debounce.Debouncer[int]) { d.Trigger(2) },
			"0 run 1"},
		{"trigger: both", both, func(d *debounce.Debouncer[int]) { d.Trigger(2) },
			"0 run 1, 100 run 2"},
		{"trigger: many, the last is served", debounce.Options{}, func(d *debounce.Debouncer[int]) {
			for v := range 100 {
				d.Trigger(2 + v)
			}
		}, "0 run 1, 50 run 101"},
		{"trigger and flush: the value follows", trailing, func(d *debounce.Debouncer[int]) { d.Trigger(2); d.Flush() },
			"100 run 1, 150 run 2"},
		{"trigger and cancel", trailing, func(d *debounce.Debouncer[int]) { d.Trigger(2); d.Cancel() },
			"100 run 1"},
		{"flush and cancel", trailing, func(d *debounce.Debouncer[int]) { d.Trigger(2); d.Flush(); d.Cancel() },
			"100 run 1"},
		{"flush with nothing pending", trailing, func(d *debounce.Debouncer[int]) { d.Flush() },
			"100 run 1"},
		{"stop that does not wait: what is pending runs", trailing, func(d *debounce.Debouncer[int]) { d.Trigger(2); d.Stop(endedContext()) },
			"100 run 1, 150 run 2"},
		{"stop that does not wait: what is pending is dropped", withDropOnStop(trailing), func(d *debounce.Debouncer[int]) { d.Trigger(2); d.Stop(endedContext()); d.Trigger(3) },
			"100 run 1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var d *debounce.Debouncer[int]
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				var notes []note
				d = debounce.New(tt.opts, func(value int) {
					notes = append(notes, note{time.Since(start), noteRun(value)})
					if value > 1 {
						return
					}
					tt.within(d)
					if took := time.Since(start) - notes[0].at; took > 0 {
						t.Errorf("blocked for %v", took)
					}
					time.Sleep(50 * ms)
				})
				d.Trigger(1)
				settle()
				if got := formatNotes(notes); got != tt.want {
					t.Errorf("got %s, want %s", got, tt.want)
				}
			})
		})
	}
}

func TestPendingWithinTheAction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []bool
		var d *debounce.Debouncer[int]
		d = debounce.New(trailing, func(value int) {
			got = append(got, d.Pending())
			if value == 1 {
				d.Trigger(2)
				got = append(got, d.Pending())
			}
		})
		d.Trigger(1)
		settle()
		if want := []bool{false, true, false}; !slices.Equal(got, want) {
			t.Errorf("pending %v, want %v", got, want)
		}
	})
}

// An action that triggers itself is a ticker, not a recursion.
func TestTriggerFromEachRun(t *testing.T) {
	for _, opts := range []debounce.Options{trailing, withMaxWait(trailing, 150*ms)} {
		t.Run(fmt.Sprintf("%+v", opts), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var last time.Time
				var d *debounce.Debouncer[int]
				ran := 0
				d = debounce.New(opts, func(value int) {
					ran++
					if value != ran {
						t.Errorf("run %d has value %d", ran, value)
					}
					if apart := time.Since(last); ran > 1 && apart != opts.Delay {
						t.Errorf("run %d is %v after the one before", ran, apart)
					}
					last = time.Now()
					d.Trigger(ran + 1)
				})
				d.Trigger(1)
				time.Sleep(10050 * ms)
				d.Cancel()
				settle()
				if ran != 100 {
					t.Errorf("%d runs", ran)
				}
			})
		})
	}
}
