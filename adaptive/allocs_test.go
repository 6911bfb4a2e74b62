package adaptive_test

import (
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/adaptive"
	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
)

// No decision and no report allocates.
func TestAllocs(t *testing.T) {
	if racetest.Factor > 1 {
		t.Skip("the race detector allocates")
	}
	r := newRate(t, nil)
	c := newConcurrency(t, slotsAtStart(10))
	th := newThrottle(t, adaptive.ThrottleConfig{})
	rs, ss := newRateSearch(t, nil), newSlotSearch(t, nil)
	at := int64(0)
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
		"RateSearch": func() {
			if at += sec; rs.Ready(at) {
				rs.Raise(at)
			}
			rs.Count(at, 10)
			rs.Refused(at, sec/2)
			rs.Resume(rs.State(at), at, time.Second)
		},
		"SlotSearch": func() {
			ss.Full()
			if ss.Ended(at); ss.Ready(at) {
				ss.Raise(at)
			}
			ss.Overloaded(at, sec/2)
			ss.Resume(ss.State(at), at, time.Second)
		},
	} {
		if n := testing.AllocsPerRun(1000, f); n > 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}
