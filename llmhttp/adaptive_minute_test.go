// Limits that are found of a provider that counts the minute, end to end.

package llmhttp_test

import (
	"fmt"
	"testing"
	"time"

	sim "dappco.re/go/core/go-ratelimit/internal/adaptivesim"
)

// A provider that counts the minute is found as well as one with a token bucket: at most 2 % are
// refused, and 95 % of the capacity is used. With a neighbour that comes and goes at most 3 % are.
func TestAdaptiveMinutes(t *testing.T) {
	long(t)
	for _, window := range []sim.Window{sim.Sliding, sim.Calendar} {
		for _, capacity := range []float64{5} {
			for _, say := range []says{nothing, wholeSecond} {
				for _, shares := range []bool{false, true} {
					inBubble(t, fmt.Sprintf("%v, %v a second, says %v, neighbour %v", window, capacity, say, shares), func(t *testing.T) {
						w := world{
							provider: sim.Provider{
								Capacity: sim.Constant(capacity), Window: window, Phase: 23 * time.Second, Answer: quick,
							},
							says: say, callers: int(capacity) * 20, length: 20 * time.Minute, seed: 3,
						}
						refused, used := 0.02, 0.95
						if shares {
							w.provider.Neighbour, w.length = sim.OnAndOff(0.3*capacity, 5*time.Minute), 30*time.Minute
							refused, used = 0.03, 0
						}
						w.run(adaptiveLimiter(t, slowFloor))
						s := w.total(10*time.Minute, w.length)
						t.Logf("%.2f %% refused, %.2f %% used", 100*s.RefusedShare(), 100*s.Goodput())
						if s.RefusedShare() > refused || s.Goodput() < used {
							t.Errorf("%.2f %% refused, %.2f %% used", 100*s.RefusedShare(), 100*s.Goodput())
						}
					})
				}
			}
		}
	}
}
