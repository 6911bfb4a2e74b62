package adaptivesim_test

import (
	"os"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/adaptive"
	sim "dappco.re/go/core/go-ratelimit/internal/test/adaptivesim"
	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
	"dappco.re/go/core/go-ratelimit/limit"
)

// long skips a simulation of hours under the race detector: it has one goroutine.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() || racetest.Factor > 1 {
		t.Skip("takes seconds")
	}
}

// seeds returns the number of runs with each set of numbers: three with RATELIMIT_LONG.
func seeds() uint64 {
	if os.Getenv("RATELIMIT_LONG") != "" {
		return 3
	}
	return 1
}

// newRate returns a client with the defaults, from 6 calls a minute to 1,000 a second.
func newRate(t testing.TB, seed uint64) *sim.Rate {
	t.Helper()
	r, err := adaptive.NewRate(adaptive.RateConfig{Floor: limit.PerMinute(6), Ceiling: limit.PerSecond(1000), Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	return &sim.Rate{Limiter: r}
}

// In the steady state at most 1 % are refused, and 99 % of the capacity is used.
func TestSteady(t *testing.T) {
	long(t)
	for _, capacity := range []float64{2, 3, 5, 10, 30, 100} {
		for _, depth := range []time.Duration{time.Second, 10 * time.Second, time.Minute} {
			p := sim.Provider{Capacity: sim.Constant(capacity), Depth: depth}
			seconds := sim.Run{Provider: p, Clients: []sim.Client{newRate(t, 1)}, Length: 30 * time.Minute, Seed: 3}.Do()
			s := sim.Total(p, 10*time.Minute, 30*time.Minute, seconds...)
			if s.RefusedShare() > 0.01 || s.Goodput() < 0.99 {
				t.Errorf("%v a second, bucket of %v: %.2f %% refused, %.2f %% used",
					capacity, depth, 100*s.RefusedShare(), 100*s.Goodput())
			}
		}
	}
}

// A new capacity is found within 20 % in 60 seconds, upwards and downwards.
func TestSteps(t *testing.T) {
	long(t)
	for _, before := range []float64{5, 10, 30, 100} {
		for _, factor := range []float64{0.25, 0.5, 0.75, 1.5, 2, 4} {
			for seed := range seeds() {
				at := 10*time.Minute + time.Duration(seed)*7*time.Second
				p := sim.Provider{Capacity: sim.Step(before, at, before*factor), Depth: time.Second}
				seconds := sim.Run{Provider: p, Clients: []sim.Client{newRate(t, 1+seed)}, Length: 15 * time.Minute, Seed: seed}.Do()
				if took, ok := sim.Settles(seconds[0], at, 15*time.Minute, before*factor, 0.2); !ok || took > time.Minute {
					t.Errorf("from %v to %v a second, seed %d: after %v, %v", before, before*factor, seed, took, ok)
				}
				if out := sim.Leaves(seconds[0], at+2*time.Minute, 15*time.Minute, before*factor, 0.2); out > 0.1 {
					t.Errorf("from %v to %v a second, seed %d: then %.0f %% of the time elsewhere", before, before*factor, seed, 100*out)
				}
			}
		}
	}
}

// Two clients share within 40 and 60 %, if the second comes when the first has all. Of the 39 runs
// of the long form one may end further away, but still shares.
func TestRivals(t *testing.T) {
	long(t)
	for _, c := range []struct{ capacity, refused float64 }{{3, 0.03}, {5, 0.02}, {10, 0.02}} {
		outside := uint64(0)
		for seed := range 13 * seeds() {
			p := sim.Provider{Capacity: sim.Constant(c.capacity), Depth: time.Second}
			seconds := sim.Run{
				Provider: p, Clients: []sim.Client{newRate(t, 100+seed), newRate(t, 200+seed)},
				Joins: []time.Duration{0, 4 * time.Minute}, Length: 50 * time.Minute, Seed: seed,
			}.Do()
			first := sim.Total(p, 30*time.Minute, 50*time.Minute, seconds[0])
			both := sim.Total(p, 30*time.Minute, 50*time.Minute, seconds...)
			if share := float64(first.Answered) / float64(both.Answered); share < 0.4 || share > 0.6 {
				if outside++; outside < seeds()/3+1 && share > 0.3 && share < 0.7 {
					continue
				}
				t.Errorf("%v a second, seed %d: the first has %.0f %%", c.capacity, seed, 100*share)
			}
			if both.RefusedShare() > c.refused || both.Goodput() < 0.98 {
				t.Errorf("%v a second, seed %d: %.2f %% refused, %.2f %% used", c.capacity, seed, 100*both.RefusedShare(), 100*both.Goodput())
			}
		}
	}
}

// After an outage nobody sends at once what the provider allowed before it.
func TestOutage(t *testing.T) {
	const back = 15 * time.Minute
	p := sim.Provider{Capacity: sim.Outage(20, 10*time.Minute, back), Depth: time.Second}
	clients := make([]sim.Client, 10)
	for i := range clients {
		clients[i] = newRate(t, uint64(i)+1)
	}
	seconds := sim.Run{Provider: p, Clients: clients, Length: 25 * time.Minute, Seed: 3}.Do()
	if s := sim.Total(p, back, back+5*time.Second, seconds...); float64(s.Sent) > s.Capacity/5 {
		t.Errorf("%d calls in the first 5 seconds, of a capacity of %v", s.Sent, s.Capacity)
	}
	if s := sim.Total(p, 10*time.Minute+time.Minute, back, seconds...); s.Sent > 10*4*6*5/4 {
		t.Errorf("%d calls in the last 4 minutes of the outage", s.Sent)
	}
	if s := sim.Total(p, back+2*time.Minute, back+10*time.Minute, seconds...); s.Goodput() < 0.97 || s.RefusedShare() > 0.03 {
		t.Errorf("then %.2f %% refused, %.2f %% used", 100*s.RefusedShare(), 100*s.Goodput())
	}
}

// Refusals that come back late are no more, even if a deep bucket hides that the rate is too high.
func TestLateRefusals(t *testing.T) {
	for _, c := range []struct {
		trip, depth time.Duration
		used        float64
	}{
		{time.Second, time.Minute, 0.99}, {2 * time.Second, time.Second, 0.99}, {2 * time.Second, 10 * time.Second, 0.99},
		{2 * time.Second, time.Minute, 0.99}, {10 * time.Second, time.Second, 0.93},
		{10 * time.Second, 10 * time.Second, 0.98}, {10 * time.Second, time.Minute, 0.98},
	} {
		p := sim.Provider{Capacity: sim.Constant(10), Depth: c.depth, Trip: c.trip}
		seconds := sim.Run{Provider: p, Clients: []sim.Client{newRate(t, 1)}, Length: 50 * time.Minute, Seed: 3}.Do()
		if s := sim.Total(p, 15*time.Minute, 50*time.Minute, seconds...); s.RefusedShare() > 0.01 || s.Goodput() < c.used {
			t.Errorf("after %v, bucket of %v: %.2f %% refused, %.2f %% used", c.trip, c.depth, 100*s.RefusedShare(), 100*s.Goodput())
		}
	}
}

// The limiter that takes every refusal for a decrease is the yardstick.
func TestPerEventIsWorse(t *testing.T) {
	p := sim.Provider{Capacity: sim.Constant(10), Depth: time.Second}
	seconds := sim.Run{Provider: p, Clients: []sim.Client{sim.NewPerEvent(0.1, 1000)}, Length: 30 * time.Minute, Seed: 3}.Do()
	s := sim.Total(p, 10*time.Minute, 30*time.Minute, seconds...)
	if s.RefusedShare() < 0.03 {
		t.Errorf("%.2f %% refused: then one decrease in a cool-down is not needed", 100*s.RefusedShare())
	}
}
