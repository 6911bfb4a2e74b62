package adaptivesim_test

import (
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/adaptive"
	sim "dappco.re/go/core/go-ratelimit/internal/test/adaptivesim"
)

func newSlots(t testing.TB, seed uint64, change func(*adaptive.ConcurrencyConfig)) *sim.Slots {
	t.Helper()
	config := adaptive.ConcurrencyConfig{Floor: 1, Ceiling: 1000, Seed: seed}
	if change != nil {
		change(&config)
	}
	c, err := adaptive.NewConcurrency(config)
	if err != nil {
		t.Fatal(err)
	}
	return &sim.Slots{Limiter: c}
}

func slots(n int) func(time.Duration) int { return func(time.Duration) int { return n } }

func meanLevel(seconds []sim.Second, from, to time.Duration) (mean float64) {
	for t := from; t < to; t += time.Second {
		mean += seconds[t/time.Second].Level
	}
	return mean / (to - from).Seconds()
}

// In the steady state at most 1 % of the calls are too many, and nearly all slots are used.
func TestSlotsSteady(t *testing.T) {
	for _, n := range []int{8, 12, 16, 50, 300} {
		p := sim.Provider{Capacity: sim.Constant(1e6), Depth: time.Second, Slots: slots(n)}
		seconds := sim.Run{Provider: p, Clients: []sim.Client{newSlots(t, 1, nil)}, Length: 70 * time.Minute, Seed: 3}.Do()
		s := sim.Total(p, 10*time.Minute, 70*time.Minute, seconds...)
		level := meanLevel(seconds[0], 10*time.Minute, 70*time.Minute) / float64(n)
		if s.RefusedShare() > 0.01 || level < 0.97 || level > 1.03 {
			t.Errorf("%d slots: %.2f %% overloaded, %.1f %% is the limit", n, 100*s.RefusedShare(), 100*level)
		}
	}
}

// Fewer slots are found in seconds, more in some rounds of calls of 20 seconds each.
func TestSlotsSteps(t *testing.T) {
	const at = 20 * time.Minute
	for to, most := range map[int]time.Duration{12: time.Minute, 25: time.Minute, 100: 4 * time.Minute, 200: 4 * time.Minute} {
		p := sim.Provider{Capacity: sim.Constant(1e6), Depth: time.Second, Slots: func(t time.Duration) int {
			if t < at {
				return 50
			}
			return to
		}}
		seconds := sim.Run{Provider: p, Clients: []sim.Client{newSlots(t, 1, nil)}, Length: 40 * time.Minute, Seed: 3}.Do()
		if took, ok := sim.Settles(seconds[0], at, 40*time.Minute, float64(to), 0.2); !ok || took > most {
			t.Errorf("from 50 to %d: after %v, %v", to, took, ok)
		}
	}
}

// Two clients share the slots within 40 and 60 %.
func TestSlotsRivals(t *testing.T) {
	long(t)
	p := sim.Provider{Capacity: sim.Constant(1e6), Depth: time.Second, Slots: slots(60)}
	seconds := sim.Run{
		Provider: p, Clients: []sim.Client{newSlots(t, 1, nil), newSlots(t, 2, nil)},
		Joins: []time.Duration{0, 10 * time.Minute}, Length: 3 * time.Hour, Seed: 3,
	}.Do()
	first, second := meanLevel(seconds[0], 2*time.Hour, 3*time.Hour), meanLevel(seconds[1], 2*time.Hour, 3*time.Hour)
	if share := first / (first + second); share < 0.4 || share > 0.6 {
		t.Errorf("the first has %.0f %%", 100*share)
	}
}
