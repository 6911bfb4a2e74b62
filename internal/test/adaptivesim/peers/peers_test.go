// Package peers runs the adaptive limiters of failsafe-go in the simulation, beside ours. It is a
// module of its own, so that users of the library do not download them. Only tests are in it:
// these limiters read the clock, and virtual time is that of testing/synctest.
//
//	go test -update
//
// writes ../figure/failsafe.csv and windows.csv anew, for docs/adaptive.svg and its tables.
package peers

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/adaptive"
	sim "dappco.re/go/core/go-ratelimit/internal/test/adaptivesim"
	"github.com/failsafe-go/failsafe-go/adaptivelimiter"
	"github.com/failsafe-go/failsafe-go/adaptivethrottler"
)

var update = flag.Bool("update", false, "write the files of ../figure from a run")

// limiter is a client behind failsafe-go's adaptive limiter of calls in flight. A refused call
// is dropped, as its documentation says of calls whose duration means nothing.
type limiter struct {
	adaptivelimiter.AdaptiveLimiter[any]
}

func (l limiter) Try(time.Time) (any, bool, time.Duration) {
	permit, ok := l.TryAcquirePermit()
	return permit, ok, 0
}

func (l limiter) Ended(_ time.Time, call sim.Call) {
	permit := call.Permit.(adaptivelimiter.Permit)
	if call.Outcome == sim.Answered {
		permit.Record()
	} else {
		permit.Drop()
	}
}

func (l limiter) Level(time.Time) float64 { return float64(l.Limit()) }

// throttler is a client behind failsafe-go's adaptive throttler.
type throttler struct {
	adaptivethrottler.AdaptiveThrottler[any]
}

func (throttler) Drops() {}

func (t throttler) Try(time.Time) (any, bool, time.Duration) { return nil, t.TryAcquirePermit(), 0 }

func (t throttler) Ended(_ time.Time, call sim.Call) {
	if call.Outcome == sim.Down {
		t.RecordFailure()
	} else {
		t.RecordSuccess()
	}
}

func (t throttler) Level(time.Time) float64 { return t.RejectionRate() }

// inVirtualTime runs a simulation on the clock.
func inVirtualTime(t *testing.T, run sim.Run, client func() sim.Client) (seconds []sim.Second) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		run.Start, run.Sleep = time.Now(), time.Sleep
		run.Clients = []sim.Client{client()}
		seconds = run.Do()[0]
	})
	return seconds
}

// The limiter of failsafe-go watches how long calls take. Here that is chance, so it does not
// find a capacity; what it does is in the figure.
func TestLimiter(t *testing.T) {
	run := sim.Changing()
	seconds := inVirtualTime(t, run, func() sim.Client { return limiter{adaptivelimiter.NewWithDefaults[any]()} })
	s := sim.Total(run.Provider, 0, run.Length, seconds)
	t.Logf("failsafe-go's limiter: %.2f %% refused, %.2f %% used", 100*s.RefusedShare(), 100*s.Goodput())
	var csv bytes.Buffer
	csv.WriteString("sent,answered,refused,down,level\n")
	for _, s := range seconds {
		fmt.Fprintf(&csv, "%d,%d,%d,%d,%v\n", s.Sent, s.Answered, s.Refused, s.Down, s.Level)
	}
	isKept(t, "../figure/failsafe.csv", csv.Bytes())
}

// A limiter that watches latency finds no window, either. What it does is in the table.
func TestWindows(t *testing.T) {
	var csv bytes.Buffer
	csv.WriteString("shape,capacity,neighbour,refused,used\n")
	for _, shape := range sim.Shapes() {
		for _, capacity := range []float64{2, 10} {
			for _, period := range []time.Duration{0, 5 * time.Minute} {
				worst, used := 0., 9.
				for seed := range uint64(3) {
					run := shape.Run(capacity, false, period, seed)
					s := run.Settled(inVirtualTime(t, run, func() sim.Client { return limiter{adaptivelimiter.NewWithDefaults[any]()} }))
					worst, used = max(worst, s.RefusedShare()), min(used, s.Goodput())
				}
				fmt.Fprintf(&csv, "%q,%v,%v,%.2f,%.1f\n", shape.Name, capacity, period > 0, 100*worst, 100*used)
			}
		}
	}
	isKept(t, "../figure/windows.csv", csv.Bytes())
}

// isKept checks that a file has what a run wrote, or writes it.
func isKept(t *testing.T, file string, want []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, want, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(file)
	if err != nil || !bytes.Equal(kept, want) {
		t.Errorf("%s is not of this run, %v: go test -update", file, err)
	}
}

// In an outage both throttles let few calls pass.
func TestThrottlers(t *testing.T) {
	run := sim.Dead()
	ours, err := adaptive.NewThrottle(adaptive.ThrottleConfig{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	for name, seconds := range map[string][]sim.Second{
		"ours":          inVirtualTime(t, run, func() sim.Client { return &sim.Throttled{Limiter: ours} }),
		"failsafe-go's": inVirtualTime(t, run, func() sim.Client { return throttler{adaptivethrottler.NewWithDefaults[any]()} }),
	} {
		out := sim.Total(run.Provider, 7*time.Minute, 15*time.Minute, seconds)
		back, ok := sim.Passes(seconds, 15*time.Minute, 30*time.Minute, 19)
		t.Logf("%s: %d of %d calls sent to the dead provider in its last 8 minutes, all pass %v after its return (%v)", name, out.Sent, 8*60*20, back, ok)
		if share := float64(out.Sent) / (8 * 60 * 20); share > 0.2 {
			t.Errorf("%s: %.0f %% of the calls passed", name, 100*share)
		}
	}
}
