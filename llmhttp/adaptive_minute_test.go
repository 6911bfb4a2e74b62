// Limits that are found of a provider that counts the minute, end to end.

package llmhttp_test

import (
	"fmt"
	"testing"
	"time"

	sim "dappco.re/go/core/go-ratelimit/internal/test/adaptivesim"
)

// However a provider counts, at most 2 % are refused, and 95 % of the capacity is used. Beside a
// neighbour that comes and goes at most 3 % are refused.
func TestAdaptiveMinutes(t *testing.T) {
	long(t)
	const capacity = 5
	for _, shape := range sim.Shapes() {
		for _, say := range []says{nothing, wholeSecond} {
			for _, period := range []time.Duration{0, 5 * time.Minute} {
				inBubble(t, fmt.Sprintf("%v, says %v, neighbour every %v", shape.Name, say, period), func(t *testing.T) {
					run := shape.Run(capacity, false, period, 3)
					run.Provider.Answer = quick
					w := world{provider: run.Provider, says: say, callers: capacity * 20, length: run.Length, seed: run.Seed}
					w.run(adaptiveLimiter(t, slowFloor))
					s := w.total(10*time.Minute, w.length)
					t.Logf("%.2f %% refused, %.2f %% used", 100*s.RefusedShare(), 100*s.Goodput())
					refused, used := 0.02, 0.95
					if period > 0 {
						refused, used = 0.03, 0.1
					}
					if period > 0 && shape.Provider.Least == 1 {
						refused = 0.045 // docs/adaptive.md: a bucket of 1 has no room for a neighbour
					}
					if s.RefusedShare() > refused || s.Goodput() < used {
						t.Errorf("%.2f %% refused, %.2f %% used", 100*s.RefusedShare(), 100*s.Goodput())
					}
				})
			}
		}
	}
}
