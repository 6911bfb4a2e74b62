package ratelimit

import (
	"math"
	"time"
)

// machineClock is the time of the machine since it was started, which all processes on
// it read alike, and which does not jump when the wall clock is set. The zero value is
// that of a machine where it is not known, or of a bubble of testing/synctest.
type machineClock struct {
	boot  string // which start of which machine
	ahead int64  // of the limiter's time line, in nanoseconds
}

// readMachineClock compares the machine's time with a limiter's time line.
func readMachineClock(c *clock) (m machineClock) {
	if now := time.Now(); now == now.Round(0) {
		return m // there is no monotonic clock in a bubble, and its time is not the machine's
	}
	boot := bootOfMachine()
	if boot == "" {
		return m
	}
	// Something may come in between two readings. What took least is closest.
	best := int64(math.MaxInt64)
	for range 16 {
		before := c.now()
		machine, ok := machineTime()
		after := c.now()
		if !ok || machine <= 0 {
			return machineClock{}
		}
		if took := after - before; took < best {
			best = took
			m = machineClock{boot, machine - before - took/2}
		}
	}
	return m
}

// of returns the machine's time at an instant; 0 where it is not known.
func (m *machineClock) of(instant int64) int64 {
	if m.boot == "" {
		return 0
	}
	return instant + m.ahead
}

// clocksAgree is how far the wall clock and that of the machine may be apart in what
// they say of an event, for its time to be taken from the wall clock. What programs see
// of times is the wall clock, so by that they can check the limits to the nanosecond.
const clocksAgree = int64(5 * time.Millisecond)

// dateLocked works out when an event counts, on the limiter's own time line. It is never
// in the future. Where only the wall clock tells, and says that it was before floor, the
// two clocks differ: when the file was last read, at floor, the event was not there. It
// then counts from now on, because how far they differ nobody knows.
func (s *ledger) dateLocked(e *event, instant, floor int64) {
	c := &s.rl.clock
	if e.kind == eventCooldown {
		e.at = instant
		return
	}
	e.at = max(e.wall, 0) - c.wall
	switch {
	case e.mono > 0 && s.machine.boot != "":
		machine := e.mono - s.machine.ahead
		if off := e.at - machine; off > clocksAgree || off < -clocksAgree {
			e.at = machine
		}
	case e.at+clocksAgree < floor:
		e.at = instant
	case e.at < floor:
		e.at = floor
	}
	e.at = min(e.at, instant) - min(max(e.age, 0), longestDay) // which is longer than any minute
}
