package adaptivesim_test

import (
	"testing"
	"time"

	sim "dappco.re/go/core/go-ratelimit/internal/test/adaptivesim"
)

// What another client took of a provider and gave back is found: a search is never stuck low.
func TestNeighbourGone(t *testing.T) {
	long(t)
	for _, w := range sim.Shapes() {
		for _, capacity := range []float64{2, 10, 20, 50} {
			for _, retryAfter := range []bool{false, true} {
				for _, share := range []float64{0.3, 0.8} {
					if share > 0.5 && w.Provider.Window == sim.Sliding {
						continue // docs/adaptive.md: what so much left is found late
					}
					for seed := range 2 * seeds() {
						run := w.Run(capacity, retryAfter, 0, seed)
						run.Provider.Neighbour = func(at time.Duration) float64 {
							return sim.OnAndOff(share*capacity, 5*time.Minute)(min(at, 10*time.Minute))
						}
						run.Clients = []sim.Client{newRate(t, seed+1)}
						seconds := run.Do()
						s := sim.Total(run.Provider, 20*time.Minute, 30*time.Minute, seconds...)
						if s.RefusedShare() > 0.02 || s.Goodput() < 0.9 {
							t.Errorf("%s, %v a second, Retry-After %v, share %v, seed %d: %.2f %% refused, %.2f %% used",
								w.Name, capacity, retryAfter, share, seed, 100*s.RefusedShare(), 100*s.Goodput())
						}
					}
				}
			}
		}
	}
}

// A capacity that falls and comes back is found again, however small the bucket is.
func TestFallAndReturn(t *testing.T) {
	long(t)
	for _, w := range sim.Shapes()[:4] {
		for _, capacity := range []float64{5, 20, 50} {
			for _, part := range []float64{0.1, 0.25, 0.5} {
				for _, retryAfter := range []bool{false, true} {
					for seed := range seeds() {
						if part*capacity < 2 {
							continue // so few calls cost more
						}
						run := w.Run(capacity, retryAfter, 0, seed)
						run.Provider.Capacity = func(at time.Duration) float64 {
							if at >= 8*time.Minute && at < 18*time.Minute {
								return part * capacity
							}
							return capacity
						}
						run.Clients = []sim.Client{newRate(t, seed+1)}
						seconds := run.Do()
						for _, from := range []time.Duration{13, 25} {
							s := sim.Total(run.Provider, from*time.Minute, (from+5)*time.Minute, seconds...)
							if s.RefusedShare() > 0.04 || s.Goodput() < 0.85 {
								t.Errorf("%s, %v a second of which %v stays, Retry-After %v, seed %d, after %d minutes: %.2f %% refused, %.2f %% used",
									w.Name, capacity, part, retryAfter, seed, from, 100*s.RefusedShare(), 100*s.Goodput())
							}
						}
					}
				}
			}
		}
	}
}
