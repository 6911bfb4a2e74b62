package adaptivesim_test

import (
	"testing"
	"time"

	sim "dappco.re/go/core/go-ratelimit/internal/test/adaptivesim"
)

// A door decides as the provider of a run does, and says exactly when there is room again.
func TestDoor(t *testing.T) {
	d := sim.NewDoor(sim.Provider{
		Capacity: sim.Outage(2, time.Minute, 2*time.Minute), Depth: time.Second, RetryAfter: true,
		Slots: func(time.Duration) int { return 3 },
	}, 1)
	for _, test := range []struct {
		at         time.Duration
		left       bool // a call has ended before
		want       sim.Outcome
		retryAfter time.Duration
		reset      time.Duration
	}{
		{0, false, sim.Answered, 0, 0},
		{0, false, sim.Answered, 0, 0}, // its bucket has 2
		{0, false, sim.Refused, time.Second, 500 * time.Millisecond},
		{200 * time.Millisecond, false, sim.Refused, time.Second, 300 * time.Millisecond},
		{500 * time.Millisecond, false, sim.Answered, 0, 0},
		{time.Second, false, sim.Overloaded, 0, 0},
		{time.Second, true, sim.Answered, 0, 0},
		{time.Minute, true, sim.Down, 0, 0},
		{2 * time.Minute, false, sim.Answered, 0, 0},
	} {
		if test.left {
			d.Left()
		}
		r := d.Arrive(test.at)
		if r.Outcome != test.want || r.RetryAfter != test.retryAfter || (r.Reset-test.reset).Abs() > time.Microsecond {
			t.Errorf("at %v: %+v, want %+v", test.at, r, test)
		}
		if trip := d.Trip(); trip < 100*time.Millisecond || trip > 200*time.Millisecond {
			t.Errorf("a trip of %v", trip)
		}
	}
}
