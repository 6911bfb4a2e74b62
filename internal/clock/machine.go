package clock

import (
	"math"
	"time"
)

// Machine is the time of the machine since its start, which all its processes read alike
// and which does not jump when the wall clock is set. The zero value is that of a machine
// where it is not known, or of a bubble of testing/synctest.
//
// It belongs to one Clock, and is a value: it is safe to read from several goroutines.
type Machine struct {
	Boot  string // names the start of the machine; "" where it is not known
	Ahead int64  // of the Clock's time line, in nanoseconds
}

// ReadMachine compares the machine's time with a Clock's time line. The Clock must have
// been synced.
func ReadMachine(c *Clock) (m Machine) {
	if now := time.Now(); now == now.Round(0) {
		return m // a bubble has no monotonic clock, and its time is not the machine's
	}
	boot := bootOfMachine()
	if boot == "" {
		return m
	}
	// The process may be interrupted between two readings. The quickest pair is the closest.
	best := int64(math.MaxInt64)
	for range 16 {
		before := c.Now()
		machine, ok := machineTime()
		after := c.Now()
		if !ok || machine <= 0 {
			return Machine{}
		}
		if took := after - before; took < best {
			best = took
			m = Machine{boot, machine - before - took/2}
		}
	}
	return m
}

// At returns the machine's time at an instant of the Clock, in nanoseconds since the start
// of the machine; 0 where it is not known.
func (m *Machine) At(instant int64) int64 {
	if m.Boot == "" {
		return 0
	}
	return instant + m.Ahead
}
