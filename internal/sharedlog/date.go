package sharedlog

import (
	"math"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/clock"
)

// clocksAgree is how far apart, in nanoseconds, the wall clock and the machine's clock may
// date an event for the wall clock to count. Programs see the wall clock, so by it they can
// check the limits to the nanosecond.
const clocksAgree = int64(5 * time.Millisecond)

// Date sets At, the instant at which the event counts on the time line of a reader, whose clock
// is c. It is never in the future: instant is the present. machine is the reader's Log.Clock.
//
// At floor the log was last read, and the event was not there. Where only the wall clock
// dates the event, and dates it before floor, the wall clocks of the two processes differ
// by an unknown time. The event then counts from now on.
func (e *Event) Date(c *clock.Clock, machine clock.Machine, instant, floor int64) {
	if e.Kind == Cooldown {
		e.At = instant
		return
	}
	e.At = c.Instant(max(e.Wall, 0))
	switch {
	case e.Mono > 0 && machine.Boot != "":
		at := machine.Instant(e.Mono)
		if off := e.At - at; off > clocksAgree || off < -clocksAgree {
			e.At = at
		}
	case e.At+clocksAgree < floor:
		e.At = instant
	case e.At < floor:
		e.At = floor
	}
	e.At = min(e.At, instant) - min(max(e.Age, 0), clock.LongestDay) // longer than any minute
}

// Stamp is the reverse of Date: it sets the times of an event that c's process made, by At and
// Age. The Wall of a Cooldown is its end, and stays.
func (e *Event) Stamp(c *clock.Clock, machine clock.Machine) {
	if e.Kind != Cooldown {
		e.Wall = c.UnixNano(e.At + e.Age)
	}
	e.Mono = machine.At(e.At + e.Age)
}

// UsedUntil returns the instant until which the minutes of a span count as used, because a log
// was lost; 0 when they do not. The parameters are those of Event.Date.
func (img *Image) UsedUntil(c *clock.Clock, machine clock.Machine, instant, span int64) int64 {
	e := Event{Wall: img.UsedWall, Mono: img.UsedMono}
	if e.Wall == 0 {
		return 0
	}
	e.Date(c, machine, instant, math.MinInt64)
	if until := e.At + span + 1; until > instant {
		return until
	}
	return 0
}

// slack is how much longer than it counts an event is kept: another process may have a clock
// that is behind.
const slack = int64(time.Minute)

// Horizon returns the instant before which a charge counts no more, for no process, where the
// longest minute of all processes is span.
func Horizon(instant, span int64) int64 { return instant - span - slack }
