package adaptivesim_test

import (
	"os"
	"testing"
	"time"

	sim "dappco.re/go/core/go-ratelimit/internal/test/adaptivesim"
)

// refusedBeside returns which share of the calls may be refused beside a neighbour that takes 30 %
// every other time. docs/adaptive.md says why some shapes have more than 3 %.
func refusedBeside(shape string, capacity float64, period time.Duration) float64 {
	switch {
	case period < 5*time.Minute:
		return 0.1
	case shape == "a bucket of 1":
		return 0.045
	case capacity < 3:
		return 0.035
	}
	return 0.03
}

// However a provider counts the minute, at most 2 % are refused and 95 % are used. Beside a
// neighbour at most 3 % are refused, and somewhat more where a call a second is much.
func TestWindows(t *testing.T) {
	long(t)
	capacities, neighbours := []float64{2, 10}, []time.Duration{0, 5 * time.Minute}
	if os.Getenv("RATELIMIT_LONG") != "" {
		capacities = []float64{2, 2.5, 3, 5, 8, 10, 20, 30, 50, 100}
		neighbours = []time.Duration{0, 2 * time.Minute, 5 * time.Minute}
	}
	for _, w := range sim.Shapes() {
		for _, capacity := range capacities {
			for _, retryAfter := range []bool{false, true} {
				for _, period := range neighbours {
					for seed := range seeds() {
						run := w.Run(capacity, retryAfter, period, seed)
						run.Clients = []sim.Client{newRate(t, seed+1)}
						s := run.Settled(run.Do()...)
						refused, used := 0.02, 0.95
						if period > 0 {
							refused, used = refusedBeside(w.Name, capacity, period), 0.02
							if w.Name == "a bucket of 1" && period < 5*time.Minute {
								used = 0.004 // docs/adaptive.md: such a neighbour leaves next to nothing
							}
						}
						if s.RefusedShare() > refused || s.Goodput() < used {
							t.Errorf("%s, %v a second, Retry-After %v, neighbour every %v, seed %d: %.2f %% refused, %.2f %% used",
								w.Name, capacity, retryAfter, period, seed, 100*s.RefusedShare(), 100*s.Goodput())
						}
					}
				}
			}
		}
	}
}
