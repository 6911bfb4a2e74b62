package adaptivesim_test

import (
	"os"
	"testing"
	"time"

	sim "dappco.re/go/core/go-ratelimit/internal/adaptivesim"
)

// alone is the capacity up to which a client does not get along with a neighbour, by the shape.
var alone = map[string]float64{"a bucket of 1": 1000, "of 1 s": 3, "of 10 s": 5, "of 60 s": 1000}

// However a provider counts the minute, at most 2 % are refused and 95 % are used. With a neighbour
// that takes 30 % every other time at most 3 % are refused.
func TestWindows(t *testing.T) {
	long(t)
	capacities, neighbours := []float64{2, 10}, []time.Duration{0, 5 * time.Minute}
	if os.Getenv("RATELIMIT_LONG") != "" {
		capacities, neighbours = []float64{2, 3, 5, 8, 10, 30, 100}, []time.Duration{0, 2 * time.Minute, 5 * time.Minute}
	}
	for _, w := range sim.Shapes() {
		for _, capacity := range capacities {
			for _, retryAfter := range []bool{false, true} {
				for _, period := range neighbours {
					if period > 0 && capacity <= alone[w.Name] || retryAfter && w.Provider.Even && capacity > 5 {
						continue // see docs/adaptive.md
					}
					for seed := range seeds() {
						run := w.Run(capacity, retryAfter, period, seed)
						run.Clients = []sim.Client{newRate(t, seed+1)}
						s := run.Settled(run.Do()...)
						refused, used := 0.02, 0.95
						if period > 0 {
							refused, used = 0.03, 0
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
