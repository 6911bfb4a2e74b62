package adaptive_test

import (
	"testing"

	"dappco.re/go/core/go-ratelimit/adaptive"
	"dappco.re/go/core/go-ratelimit/internal/racetest"
)

// No decision and no report allocates.
func TestAllocs(t *testing.T) {
	if racetest.Factor > 1 {
		t.Skip("the race detector allocates")
	}
	r := newRate(t, nil)
	c := newConcurrency(t, slotsAtStart(10))
	th := newThrottle(t, adaptive.ThrottleConfig{})
	held, _ := c.TryAcquire()
	held.Release()
	for name, f := range map[string]func(){
		"Rate.Take":       func() { r.Take(1) },
		"Rate.Allow":      func() { r.Allow() },
		"Rate.Refused":    func() { r.Refused(adaptive.Refusal{}) },
		"Rate.State":      func() { r.State() },
		"a slot":          func() { s, _ := c.TryAcquire(); s.Release() },
		"overload":        func() { s, _ := c.TryAcquire(); s.Overloaded(0) },
		"Throttle.Allow":  func() { th.Allow() },
		"Throttle.Failed": func() { th.Failed() },
	} {
		if n := testing.AllocsPerRun(1000, f); n > 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}
