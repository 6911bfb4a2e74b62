package debounce_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/debounce"
)

const interval = 100 * ms

func TestThrottle(t *testing.T) {
	tests := []scriptTest{
		{"the first at once, then the last of each interval", debounce.Options{}, 0,
			"0 trigger 1, 30 trigger 2, 60 trigger 3, 90 trigger 4, 120 trigger 5, 150 trigger 6",
			"0 run 1, 100 run 4, 220 run 6"},
		{"both edges are no edge", debounce.Options{Leading: true, Trailing: true}, 0,
			"0 trigger 1, 30 trigger 2, 60 trigger 3", "0 run 1, 100 run 3"},
		{"a single value runs once", debounce.Options{}, 0,
			"0 trigger 1, 500 trigger 2", "0 run 1, 500 run 2"},
		{"leading: values within the interval are dropped", debounce.Options{Leading: true}, 0,
			"0 trigger 1, 30 trigger 2, 90 trigger 3, 110 trigger 4, 130 trigger 5", "0 run 1, 110 run 4"},
		{"trailing: the first waits for the end of the interval", debounce.Options{Trailing: true}, 0,
			"0 trigger 1, 30 trigger 2, 90 trigger 3, 110 trigger 4", "100 run 3, 210 run 4"},
		{"MaxWait and Delay are not used", debounce.Options{Delay: 7 * ms, MaxWait: 3 * ms}, 0,
			"0 trigger 1, 30 trigger 2, 60 trigger 3", "0 run 1, 100 run 3"},
		{"flush runs what waits before its time", debounce.Options{}, 0,
			"0 trigger 1, 30 trigger 2, 40 flush, 50 trigger 3", "0 run 1, 40 run 2, 40 flushed, 150 run 3"},
		{"flush with nothing that waits", debounce.Options{}, 0,
			"0 trigger 1, 40 flush", "0 run 1, 40 flushed"},
		{"cancel drops what waits, and the interval", debounce.Options{}, 0,
			"0 trigger 1, 30 trigger 2, 40 cancel, 50 trigger 3", "0 run 1, 50 run 3"},
		{"another burst does not wait", debounce.Options{}, 0,
			"0 trigger 1, 30 trigger 2, 160 trigger 3", "0 run 1, 100 run 2, 160 run 3"},
		{"a slow action", debounce.Options{}, 250,
			"0 trigger 1, 90 trigger 2, 180 trigger 3, 240 trigger 4, 300 trigger 5", "0 run 1, 250 run 4, 500 run 5"},
		{"stop runs what waits", debounce.Options{}, 0,
			"0 trigger 1, 30 trigger 2, 40 stop", "0 run 1, 40 run 2, 40 stopped <nil>"},
		{"stop drops what waits", debounce.Options{DropOnStop: true}, 0,
			"0 trigger 1, 30 trigger 2, 40 stop", "0 run 1, 40 stopped <nil>"},
	}
	runScripts(t, tests,
		func(opts debounce.Options) debounce.Options { return throttleOptions(interval, opts) },
		func(opts debounce.Options, action func(int)) *debounce.Debouncer[int] {
			return debounce.NewThrottle(interval, opts, action)
		})
}

func TestThrottleWithoutInterval(t *testing.T) {
	runScripts(t, []scriptTest{
		{"both", debounce.Options{}, 0, "0 trigger 1, 5 trigger 2", "0 run 1, 5 run 2"},
		{"leading", debounce.Options{Leading: true}, 0, "0 trigger 1, 5 trigger 2", "0 run 1, 5 run 2"},
		{"trailing", debounce.Options{Trailing: true}, 0, "0 trigger 1, 5 trigger 2", "0 run 1, 5 run 2"},
	},
		func(opts debounce.Options) debounce.Options { return throttleOptions(0, opts) },
		func(opts debounce.Options, action func(int)) *debounce.Debouncer[int] {
			return debounce.NewThrottle(0, opts, action)
		})
}

// While values keep coming, two runs never begin closer together than the
// interval, however long they take, and the stream is served.
func TestThrottleKeepsItsDistance(t *testing.T) {
	for _, opts := range []debounce.Options{{}, {Leading: true}, {Trailing: true}} {
		for _, takes := range []time.Duration{0, 30 * ms, 99 * ms, 100 * ms, 101 * ms, 250 * ms} {
			for _, every := range []time.Duration{ms, 7 * ms, 50 * ms, 99 * ms} {
				name := fmt.Sprintf("leading %t, trailing %t, a value every %v, action takes %v", opts.Leading, opts.Trailing, every, takes)
				t.Run(name, func(t *testing.T) { testDistance(t, opts, takes, every) })
			}
		}
	}
}

func testDistance(t *testing.T, opts debounce.Options, takes, every time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		const lasts = 20 * time.Second
		var begins []time.Time
		var last int
		d := debounce.NewThrottle(interval, opts, func(value int) {
			begins = append(begins, time.Now())
			if value <= last {
				t.Errorf("value %d ran after %d", value, last)
			}
			last = value
			// A few runs take no time, so that the next is early if it can be.
			if takes > 0 && len(begins)%4 > 0 {
				time.Sleep(takes)
			}
		})
		start := time.Now()
		for value := 1; time.Since(start) < lasts; value++ {
			d.Trigger(value)
			time.Sleep(every)
		}
		if err := d.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if opts.Trailing || !opts.Leading {
			begins = begins[:len(begins)-1] // that is not the stream's, but Stop's
		}
		for i := 1; i < len(begins); i++ {
			if apart := begins[i].Sub(begins[i-1]); apart < interval {
				t.Errorf("runs %d and %d begin %v apart, at %v", i, i+1, apart, begins[i].Sub(start))
			}
		}
		// From one run to the next it takes an interval or a run, whichever is
		// longer, then until a value comes, and then at most another interval.
		longest := max(interval, takes) + every + interval
		if want := int(lasts / longest); len(begins) < want {
			t.Errorf("%d runs in %v, want at least %d", len(begins), lasts, want)
		}
	})
}
