package debounce_test

import (
	"bytes"
	"math"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/debounce"
)

const ms = time.Millisecond

// scriptTest is a row of a table: what is called at which milliseconds, and what
// happens then.
type scriptTest struct {
	name   string
	opts   debounce.Options
	takes  int // how many milliseconds the action takes
	script string
	want   string
}

// runScripts runs the rows on what make makes, and holds the oracle against them,
// so that it is tested by the same rows.
func runScripts(t *testing.T, tests []scriptTest, oracle func(debounce.Options) debounce.Options, make func(debounce.Options, func(int)) *debounce.Debouncer[int]) {
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			script := parseScript(t, tt.script)
			got := playScript(t, takes(tt.takes), script, func(action func(int)) *debounce.Debouncer[int] {
				return make(tt.opts, action)
			})
			if formatNotes(got) != tt.want {
				t.Errorf("%+v, action takes %d: %s\ngot  %s\nwant %s", tt.opts, tt.takes, tt.script, formatNotes(got), tt.want)
			}
			o := newOracle(oracle(tt.opts), takes(tt.takes))
			if said := o.play(script); formatNotes(said) != tt.want && !o.tied {
				t.Errorf("the oracle says %s", formatNotes(said))
			}
		})
	}
}

func runDebouncerScripts(t *testing.T, tests []scriptTest) {
	runScripts(t, tests, func(opts debounce.Options) debounce.Options { return opts }, debounce.New[int])
}

var (
	trailing = debounce.Options{Delay: 100 * ms, Trailing: true}
	leading  = debounce.Options{Delay: 100 * ms, Leading: true}
	both     = debounce.Options{Delay: 100 * ms, Leading: true, Trailing: true}
)

func withMaxWait(opts debounce.Options, maxWait time.Duration) debounce.Options {
	opts.MaxWait = maxWait
	return opts
}

func withDropOnStop(opts debounce.Options) debounce.Options {
	opts.DropOnStop = true
	return opts
}

func TestDebouncerEdges(t *testing.T) {
	runDebouncerScripts(t, []scriptTest{
		{"zero value: at once", debounce.Options{}, 0,
			"0 trigger 1, 5 trigger 2", "0 run 1, 5 run 2"},
		{"no edge is the trailing one", debounce.Options{Delay: 100 * ms}, 0,
			"0 trigger 1, 50 trigger 2", "150 run 2"},
		{"trailing: the last value, when nothing came for Delay", trailing, 0,
			"0 trigger 1, 50 trigger 2, 149 trigger 3, 250 trigger 4", "249 run 3, 350 run 4"},
		{"trailing: a quiet burst", trailing, 0,
			"7 trigger 1", "107 run 1"},
		{"leading: the first value, at once", leading, 0,
			"0 trigger 1, 50 trigger 2, 149 trigger 3", "0 run 1"},
		{"leading: the next burst begins Delay after the last value", leading, 0,
			"0 trigger 1, 50 trigger 2, 149 trigger 3, 248 trigger 4, 350 trigger 5", "0 run 1, 350 run 5"},
		{"both: the first and the last", both, 0,
			"0 trigger 1, 50 trigger 2, 90 trigger 3", "0 run 1, 190 run 3"},
		{"both: a single value runs once", both, 0,
			"0 trigger 1, 300 trigger 2", "0 run 1, 300 run 2"},
		{"both without delay", debounce.Options{Leading: true, Trailing: true}, 0,
			"0 trigger 1, 5 trigger 2", "0 run 1, 5 run 2"},
		{"leading without delay", debounce.Options{Leading: true}, 0,
			"0 trigger 1, 5 trigger 2", "0 run 1, 5 run 2"},
	})
}

func TestDebouncerMaxWait(t *testing.T) {
	runDebouncerScripts(t, []scriptTest{
		{"from the value that opened the burst, then from the last run", withMaxWait(trailing, 150*ms), 0,
			"0 trigger 1, 80 trigger 2, 140 trigger 3, 160 trigger 4, 220 trigger 5, 290 trigger 6",
			"150 run 3, 300 run 6"},
		{"a burst that opens long after the last run counts anew", withMaxWait(trailing, 150*ms), 0,
			"0 trigger 1, 1000 trigger 2, 1080 trigger 3, 1140 trigger 4", "100 run 1, 1150 run 4"},
		{"not before Delay is over when the burst ends", withMaxWait(trailing, 1000*ms), 0,
			"0 trigger 1, 50 trigger 2", "150 run 2"},
		{"both: the leading run counts", withMaxWait(both, 150*ms), 0,
			"0 trigger 1, 80 trigger 2, 140 trigger 3, 160 trigger 4", "0 run 1, 150 run 3, 260 run 4"},
		{"leading only: a value after MaxWait opens another burst", withMaxWait(leading, 150*ms), 0,
			"0 trigger 1, 80 trigger 2, 149 trigger 3, 151 trigger 4, 200 trigger 5", "0 run 1, 151 run 4"},
		{"as long as Delay: counts from the value after the run", withMaxWait(trailing, 100*ms), 0,
			"0 trigger 1, 60 trigger 2, 120 trigger 3, 180 trigger 4, 199 trigger 5", "100 run 2, 220 run 5"},
		{"a flushed run counts", withMaxWait(trailing, 150*ms), 0,
			"0 trigger 1, 80 flush, 90 trigger 2, 180 trigger 3, 229 trigger 4",
			"80 run 1, 80 flushed, 230 run 4"},
		{"none: a burst lasts as long as it likes", trailing, 0,
			"0 trigger 1, 90 trigger 2, 180 trigger 3, 270 trigger 4, 360 trigger 5", "460 run 5"},
		{"the alarm is late: a value runs at once, the one before is dropped", withMaxWait(trailing, 100*ms), 0,
			"0 trigger 1, 50 flush, 60 trigger 2, 155 trigger 3", "50 run 1, 50 flushed, 155 run 3"},
	})
}

func TestDebouncerFlush(t *testing.T) {
	runDebouncerScripts(t, []scriptTest{
		{"runs what is pending once", trailing, 0,
			"0 trigger 1, 40 flush, 50 flush", "40 run 1, 40 flushed, 50 flushed"},
		{"returns when the run has ended", trailing, 30,
			"0 trigger 1, 40 flush", "40 run 1, 70 flushed"},
		{"nothing came", trailing, 0, "0 flush", "0 flushed"},
		{"nothing pending: leading", leading, 0,
			"0 trigger 1, 10 trigger 2, 40 flush", "0 run 1, 40 flushed"},
		{"nothing pending: the burst is over", trailing, 0,
			"0 trigger 1, 200 flush", "100 run 1, 200 flushed"},
		{"both", both, 0,
			"0 trigger 1, 10 trigger 2, 40 flush", "0 run 1, 40 run 2, 40 flushed"},
		{"the burst goes on", both, 0,
			"0 trigger 1, 10 trigger 2, 40 flush, 60 trigger 3", "0 run 1, 40 run 2, 40 flushed, 160 run 3"},
		{"Delay after the last value another burst begins", both, 0,
			"0 trigger 1, 10 trigger 2, 40 flush, 110 trigger 3", "0 run 1, 40 run 2, 40 flushed, 110 run 3"},
		{"while an action runs: returns at once, the value follows", both, 50,
			"0 trigger 1, 10 trigger 2, 20 flush", "0 run 1, 20 flushed, 50 run 2"},
		{"while one is flushed: likewise", trailing, 50,
			"0 trigger 1, 10 flush, 20 trigger 2, 30 flush", "10 run 1, 30 flushed, 60 run 2, 60 flushed"},
		{"while an action runs, with nothing pending", leading, 50,
			"0 trigger 1, 20 flush", "0 run 1, 20 flushed"},
	})
}

func TestDebouncerCancel(t *testing.T) {
	runDebouncerScripts(t, []scriptTest{
		{"drops what is pending", trailing, 0,
			"0 trigger 1, 40 cancel, 50 flush", "50 flushed"},
		{"ends the burst: trailing", trailing, 0,
			"0 trigger 1, 40 cancel, 50 trigger 2", "150 run 2"},
		{"ends the burst: leading", leading, 0,
			"0 trigger 1, 40 cancel, 50 trigger 2", "0 run 1, 50 run 2"},
		{"ends the burst: MaxWait counts anew", withMaxWait(trailing, 150*ms), 0,
			"0 trigger 1, 80 trigger 2, 100 cancel, 140 trigger 3, 200 trigger 4, 280 trigger 5",
			"290 run 5"},
		{"nothing came", trailing, 0, "0 cancel, 1 trigger 1", "101 run 1"},
		{"drops what waits for the running action", both, 200,
			"0 trigger 1, 10 trigger 2, 150 pending, 160 cancel, 161 pending", "0 run 1, 150 pending true, 161 pending false"},
		{"does not end the running action", both, 50,
			"0 trigger 1, 10 cancel, 20 trigger 2", "0 run 1, 50 run 2"},
		{"drops what a flush left to the running action", both, 50,
			"0 trigger 1, 10 trigger 2, 20 flush, 30 cancel", "0 run 1, 20 flushed"},
	})
}

func TestDebouncerPending(t *testing.T) {
	runDebouncerScripts(t, []scriptTest{
		{"trailing", trailing, 20,
			"0 pending, trigger 1, pending, 99 pending, 101 pending, 121 pending",
			"0 pending false, 0 pending true, 99 pending true, 100 run 1, 101 pending false, 121 pending false"},
		{"leading: never", leading, 20,
			"0 trigger 1, pending, 10 trigger 2, pending, 50 pending",
			"0 run 1, 0 pending false, 10 pending false, 50 pending false"},
		{"both: only from the second value on", both, 0,
			"0 trigger 1, pending, 10 trigger 2, pending, 200 pending",
			"0 run 1, 0 pending false, 10 pending true, 110 run 2, 200 pending false"},
		{"while it waits for the running action", both, 200,
			"0 trigger 1, 10 trigger 2, 109 pending, 111 pending, 199 pending, 201 pending",
			"0 run 1, 109 pending true, 111 pending true, 199 pending true, 200 run 2, 201 pending false"},
		{"leading, behind the running action", leading, 200,
			"0 trigger 1, 150 trigger 2, pending, 201 pending",
			"0 run 1, 150 pending true, 200 run 2, 201 pending false"},
		{"after flush", trailing, 0,
			"0 trigger 1, 10 flush, pending", "10 run 1, 10 flushed, 10 pending false"},
		{"after cancel", trailing, 0,
			"0 trigger 1, 10 cancel, pending", "10 pending false"},
		{"after stop", trailing, 50,
			"0 trigger 1, 10 stop, pending, 70 pending",
			"10 run 1, 10 pending false, 60 stopped <nil>, 70 pending false"},
		{"after stop, behind the running action", both, 50,
			"0 trigger 1, 5 trigger 2, 10 stop, pending, 60 pending",
			"0 run 1, 10 pending true, 50 run 2, 60 pending false, 100 stopped <nil>"},
	})
}

func TestDebouncerSlowAction(t *testing.T) {
	runDebouncerScripts(t, []scriptTest{
		{"a value that comes during a run is served after it", trailing, 250,
			"0 trigger 1, 110 trigger 2, 300 trigger 3, 320 trigger 4",
			"100 run 1, 350 run 2, 600 run 4"},
		{"only the last of those whose time came during a run", trailing, 350,
			"0 trigger 1, 110 trigger 2, 300 trigger 3", "100 run 1, 450 run 3"},
		{"leading", leading, 350,
			"0 trigger 1, 110 trigger 2, 300 trigger 3", "0 run 1, 350 run 3"},
		{"both", both, 350,
			"0 trigger 1, 10 trigger 2, 300 trigger 3, 310 trigger 4", "0 run 1, 350 run 3, 700 run 4"},
		{"MaxWait counts from when a run that was late begins", withMaxWait(trailing, 100*ms), 150,
			"0 trigger 1, 90 trigger 2, 180 trigger 3, 240 trigger 4, 300 trigger 5, 340 trigger 6, 349 trigger 7",
			"100 run 2, 250 run 4, 400 run 7"},
		{"both without delay", debounce.Options{Leading: true, Trailing: true}, 20,
			"0 trigger 1, trigger 2, 5 trigger 3", "0 run 1, 20 run 3"},
	})
}

// The longest durations do not overflow.
func TestDebouncerWaitsForEver(t *testing.T) {
	for _, opts := range []debounce.Options{{Delay: math.MaxInt64}, {Delay: math.MaxInt64, MaxWait: math.MaxInt64}} {
		synctest.Test(t, func(t *testing.T) {
			var ran []int
			time.Sleep(time.Hour) // so that now is not zero
			d := debounce.New(opts, func(value int) { ran = append(ran, value) })
			for value := range 3 {
				time.Sleep(time.Hour)
				d.Trigger(value)
			}
			settle()
			if ran != nil || !d.Pending() {
				t.Errorf("ran %v, pending %t", ran, d.Pending())
			}
			d.Flush()
			if !slices.Equal(ran, []int{2}) {
				t.Errorf("Flush ran %v, want [2]", ran)
			}
		})
	}
}

// With an action that is about to begin and a value that waits, Flush has both
// run, unless another goroutine has begun already.
func TestFlushRunsTheLeadingAndTheTrailingValue(t *testing.T) {
	both := both
	both.Delay = time.Hour
	const n = 2000
	byFlush := 0
	for range n {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			var got []int
			begunByFlush := false
			d := debounce.New(both, func(value int) {
				mu.Lock()
				defer mu.Unlock()
				if value == 1 {
					begunByFlush = bytes.Contains(debug.Stack(), []byte(".Flush("))
				}
				got = append(got, value)
			})
			d.Trigger(1)
			d.Trigger(2)
			d.Flush()
			mu.Lock()
			if begunByFlush {
				byFlush++
				if len(got) != 2 {
					t.Errorf("Flush returned when %v had run, want both", got)
				}
			}
			mu.Unlock()
			settle()
			if !slices.Equal(got, []int{1, 2}) {
				t.Errorf("ran %v, want [1 2]", got)
			}
		})
	}
	if byFlush < n/20 {
		t.Errorf("Flush had the first value run in %d of %d times", byFlush, n)
	}
}
