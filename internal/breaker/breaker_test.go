package breaker

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const ms = time.Millisecond

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// drive calls through a Ratio at instants that it counts from the start.
type drive struct {
	t *testing.T
	*Ratio
	at time.Duration
}

func newDrive(t *testing.T, settings Settings) *drive { return &drive{t: t, Ratio: New(settings)} }

func (d *drive) now() time.Time { return start.Add(d.at) }

// enter wants a call to pass.
func (d *drive) enter() Pass {
	d.t.Helper()
	p, ok := d.Enter(d.now())
	if !ok {
		d.t.Fatalf("at %v: refused, want the call to pass", d.at)
	}
	return p
}

// calls makes n calls of one outcome, each some time after the one before.
func (d *drive) calls(n int, outcome Outcome, apart time.Duration) {
	d.t.Helper()
	for range n {
		d.at += apart
		d.Leave(d.enter(), d.now(), outcome)
	}
}

func (d *drive) isOpen(want bool) {
	d.t.Helper()
	if got := d.IsOpen(d.now()); got != want {
		d.t.Fatalf("at %v: open is %v, want %v", d.at, got, want)
	}
}

func TestOpens(t *testing.T) {
	for _, tt := range []struct {
		name     string
		settings Settings
		do       func(*drive)
		open     bool
	}{
		{name: "nothing happened", do: func(*drive) {}},
		{name: "one failure", do: func(d *drive) { d.calls(1, Failure, ms) }},
		{name: "19 failures", do: func(d *drive) { d.calls(19, Failure, ms) }},
		{name: "20 failures", do: func(d *drive) { d.calls(20, Failure, ms) }, open: true},
		{name: "20 failures at one instant", do: func(d *drive) { d.calls(20, Failure, 0) }, open: true},
		{name: "10 of 20 fail", do: func(d *drive) {
			d.calls(10, Success, ms)
			d.calls(10, Failure, ms)
		}, open: true},
		{name: "10 of 20 fail, the last one does not", do: func(d *drive) {
			d.calls(10, Failure, ms)
			d.calls(10, Success, ms)
		}, open: true},
		{name: "9 of 20 fail", do: func(d *drive) {
			d.calls(11, Success, ms)
			d.calls(9, Failure, ms)
		}},
		{name: "49 of 100 fail", do: func(d *drive) {
			d.calls(51, Success, ms)
			d.calls(49, Failure, ms)
		}},
		{name: "50 of 100 fail", do: func(d *drive) {
			d.calls(50, Success, ms)
			d.calls(50, Failure, ms)
		}, open: true},
		{name: "20 failures within 5 s", do: func(d *drive) { d.calls(20, Failure, 250*ms) }, open: true},
		{name: "20 failures in more than 5 s", do: func(d *drive) { d.calls(100, Failure, 264*ms) }},
		{name: "successes that are older than 5 s", do: func(d *drive) {
			d.calls(1000, Success, 0)
			d.at = 5 * time.Second
			d.calls(20, Failure, 0)
		}, open: true},
		{name: "successes of the last 5 s", do: func(d *drive) {
			d.calls(1000, Success, 0)
			d.at = 4899 * ms
			d.calls(999, Failure, 0)
		}},
		{name: "failures that are older than 5 s", do: func(d *drive) {
			d.calls(19, Failure, 0)
			d.at = 5 * time.Second
			d.calls(19, Failure, 0)
		}},
		{name: "calls that were given up", do: func(d *drive) {
			d.calls(19, Failure, 0)
			d.calls(100, Unknown, 0)
		}},
		{name: "a step back of the clock", do: func(d *drive) {
			d.calls(19, Failure, 0)
			d.at = -time.Hour
			d.calls(1, Failure, 0)
		}, open: true},
		{name: "an own share", settings: Settings{Percent: 10}, do: func(d *drive) {
			d.calls(18, Success, 0)
			d.calls(2, Failure, 0)
		}, open: true},
		{name: "an own number", settings: Settings{Calls: 3}, do: func(d *drive) { d.calls(3, Failure, 0) }, open: true},
		{name: "an own window", settings: Settings{Window: time.Second}, do: func(d *drive) {
			d.calls(100, Failure, 60*ms)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newDrive(t, tt.settings)
			tt.do(d)
			d.isOpen(tt.open)
		})
	}
}

// opened returns a drive whose breaker opened at the start.
func opened(t *testing.T) *drive {
	d := newDrive(t, Settings{})
	d.calls(20, Failure, 0)
	d.isOpen(true)
	return d
}

func (d *drive) refused() {
	d.t.Helper()
	if _, ok := d.Enter(d.now()); ok {
		d.t.Fatalf("at %v: a call passed, want it refused", d.at)
	}
}

func TestOpenForFiveSecondsThenOneProbe(t *testing.T) {
	d := opened(t)
	d.at = 5*time.Second - 1
	d.refused()
	d.at = 5 * time.Second
	d.isOpen(false)
	probe := d.enter()
	d.isOpen(true)
	d.refused()
	d.Leave(probe, d.now(), Success)
	d.isOpen(false)
	d.calls(19, Failure, 0) // it counts anew
	d.isOpen(false)
	d.calls(1, Failure, 0)
	d.isOpen(true)
}

func TestProbeThatFailsOpensAgain(t *testing.T) {
	d := opened(t)
	for range 3 {
		d.at += 5 * time.Second
		probe := d.enter()
		d.at += time.Second
		d.Leave(probe, d.now(), Failure)
		d.at += 5*time.Second - 1
		d.refused()
		d.at++
		d.isOpen(false)
		d.at -= 5 * time.Second // of the next round
	}
}

func TestProbeThatWasGivenUp(t *testing.T) {
	d := opened(t)
	d.at = 5 * time.Second
	d.Leave(d.enter(), d.now(), Unknown)
	probe := d.enter()
	d.refused()
	d.Leave(probe, d.now(), Success)
	d.isOpen(false)
}

func TestProbeThatNeverEnds(t *testing.T) {
	d := opened(t)
	d.at = 5 * time.Second
	lost := d.enter()
	d.at += 5*time.Second - 1
	d.refused()
	d.at++
	probe := d.enter()
	d.Leave(lost, d.now(), Success) // which is too late
	d.refused()
	d.Leave(probe, d.now(), Success)
	d.isOpen(false)
	d.Leave(lost, d.now(), Failure)
	d.calls(19, Failure, 0)
	d.isOpen(false)
}

func TestCallsFromBeforeItOpened(t *testing.T) {
	for _, outcome := range []Outcome{Success, Failure, Unknown} {
		d := newDrive(t, Settings{})
		var early []Pass
		for range 50 {
			early = append(early, d.enter())
		}
		d.calls(20, Failure, 0)
		d.at = time.Second
		for _, p := range early {
			d.Leave(p, d.now(), outcome)
		}
		d.at = 5*time.Second - 1
		d.refused()
		d.at++
		probe := d.enter()
		d.Leave(early[0], d.now(), outcome)
		d.refused()
		d.Leave(probe, d.now(), Success)
		for range 50 {
			d.Leave(early[0], d.now(), Failure)
		}
		d.isOpen(false)
	}
}

func TestPassOfRefusedCallIsNotCounted(t *testing.T) {
	d := newDrive(t, Settings{})
	for range 100 {
		d.Leave(Pass{}, d.now(), Failure)
	}
	d.isOpen(false)
}

func TestStepBackWhileOpen(t *testing.T) {
	d := opened(t)
	d.at = 4 * time.Second
	d.refused()
	d.at = -time.Hour // time goes on from 4 s
	d.refused()
	d.at = -time.Hour + time.Second
	d.enter()
}

// All goroutines use one Ratio at once: one of them probes, and nothing is lost of the counts.
func TestConcurrent(t *testing.T) {
	const goroutines, rounds = 8, 20
	for range rounds {
		r, now := New(Settings{Calls: goroutines * 100, Percent: 100}), start
		var group sync.WaitGroup
		for range goroutines {
			group.Go(func() {
				for range 100 {
					p, _ := r.Enter(now)
					r.Leave(p, now, Failure)
				}
			})
		}
		group.Wait()
		if !r.IsOpen(now) {
			t.Fatal("closed after the last failure, want open")
		}
		now = now.Add(5 * time.Second)
		var probes atomic.Int64
		for range goroutines {
			group.Go(func() {
				if p, ok := r.Enter(now); ok {
					probes.Add(1)
					defer r.Leave(p, now, Success)
				}
			})
		}
		group.Wait()
		// The others may come after the probe has succeeded.
		if probes.Load() < 1 || r.IsOpen(now) {
			t.Fatalf("%d probes and open is %v, want one that closes it", probes.Load(), r.IsOpen(now))
		}
	}
}

func TestOneProbeOfMany(t *testing.T) {
	d := opened(t)
	d.at = 5 * time.Second
	now := d.now()
	var probes atomic.Int64
	var group sync.WaitGroup
	for range 32 {
		group.Go(func() {
			if _, ok := d.Enter(now); ok {
				probes.Add(1)
			}
		})
	}
	group.Wait()
	if probes.Load() != 1 {
		t.Errorf("%d calls passed, want 1", probes.Load())
	}
}

func TestNoAllocations(t *testing.T) {
	r := New(Settings{})
	now := start
	if n := testing.AllocsPerRun(1000, func() {
		now = now.Add(7 * ms)
		p, _ := r.Enter(now)
		r.Leave(p, now, Success)
	}); n != 0 {
		t.Errorf("%v allocations per call, want none", n)
	}
}

func BenchmarkRatio(b *testing.B) {
	r := New(Settings{})
	b.RunParallel(func(pb *testing.PB) {
		for now := start; pb.Next(); now = now.Add(time.Microsecond) {
			p, _ := r.Enter(now)
			r.Leave(p, now, Success)
		}
	})
}
