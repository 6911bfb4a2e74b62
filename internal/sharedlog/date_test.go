package sharedlog

import (
	"math"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/clock"
)

// clockAt returns a clock that was synced at a time of the wall clock, and that instant.
func clockAt(wall time.Time) (c *clock.Clock, instant int64) {
	c = &clock.Clock{Wall: func() time.Time { return wall }}
	return c, c.Sync()
}

func TestEventDate(t *testing.T) {
	const (
		ms   = int64(time.Millisecond)
		none = math.MinInt64
	)
	wall := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	c, now := clockAt(wall)
	machine := clock.Machine{Boot: "boot", Ahead: 1 << 40}
	mono := func(at int64) int64 { return machine.At(now + at) }
	unix := func(at int64) int64 { return wall.UnixNano() + at }
	for _, tt := range []struct {
		name    string
		event   Event
		machine clock.Machine
		floor   int64
		want    int64 // behind now
	}{
		{"by the wall clock", Event{Wall: unix(-70 * ms)}, machine, none, -70 * ms},
		{"by the wall clock, where the machine's agrees", Event{Wall: unix(-70 * ms), Mono: mono(-75 * ms)}, machine, none, -70 * ms},
		{"by the machine's clock, where the wall clock was set back", Event{Wall: unix(-70 * ms), Mono: mono(-20 * ms)}, machine, none, -20 * ms},
		{"by the machine's clock, where the wall clock was set forward", Event{Wall: unix(0), Mono: mono(-20 * ms)}, machine, none, -20 * ms},
		{"of another machine", Event{Wall: unix(-70 * ms), Mono: mono(-20 * ms)}, clock.Machine{}, none, -70 * ms},
		{"in the future", Event{Wall: unix(ms)}, machine, none, 0},
		{"in the future of the machine", Event{Wall: unix(-70 * ms), Mono: mono(20 * ms)}, machine, none, 0},
		{"of before 1970", Event{Wall: -1}, machine, none, -wall.UnixNano()},
		{"a little before it was missed", Event{Wall: unix(-70 * ms)}, machine, -66 * ms, -66 * ms},
		{"long before it was missed", Event{Wall: unix(-70 * ms)}, machine, -64 * ms, 0},
		{"by the machine's clock before it was missed", Event{Wall: unix(-70 * ms), Mono: mono(-70 * ms)}, machine, 0, -70 * ms},
		{"older than its time", Event{Wall: unix(-70 * ms), Age: 30 * ms}, machine, none, -100 * ms},
		{"older, and in the future", Event{Wall: unix(70 * ms), Age: 30 * ms}, machine, none, -30 * ms},
		{"of an age that nothing has", Event{Wall: unix(0), Age: math.MaxInt64}, machine, none, -clock.LongestDay},
		{"of a negative age", Event{Wall: unix(0), Age: -5}, machine, none, 0},
		{"a cooldown", Event{Kind: Cooldown, Wall: unix(70 * ms), Mono: mono(-70 * ms), Age: 5}, machine, none, 0},
	} {
		floor := tt.floor
		if floor != none {
			floor += now
		}
		tt.event.Date(c, tt.machine, now, floor)
		if got := tt.event.At - now; got != tt.want {
			t.Errorf("%s: %v behind now, want %v", tt.name, time.Duration(got), time.Duration(tt.want))
		}
	}
}

// A reader of the same machine finds the times that a writer has stamped.
func TestEventStamp(t *testing.T) {
	c, now := clockAt(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	machine := clock.Machine{Boot: "boot", Ahead: 1 << 40}
	made := Event{Kind: Use, At: now - 100, Age: 70}
	made.Stamp(c, machine)
	read := Event{Kind: Use, Wall: made.Wall, Mono: made.Mono, Age: made.Age}
	read.Date(c, machine, now, math.MinInt64)
	if read.At != made.At || made.Wall != c.UnixNano(now-30) || made.Mono != machine.At(now-30) {
		t.Errorf("stamped %+v, read %+v", made, read)
	}
	end := Event{Kind: Cooldown, At: now, Wall: 12345}
	if end.Stamp(c, clock.Machine{}); end.Wall != 12345 || end.Mono != 0 {
		t.Errorf("a cooldown that ends at 12345 is stamped %+v", end)
	}
}

func TestImageUsedUntil(t *testing.T) {
	const span = int64(time.Minute)
	wall := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	c, now := clockAt(wall)
	machine := clock.Machine{Boot: "boot", Ahead: 1 << 40}
	for _, tt := range []struct {
		name string
		img  Image
		want int64
	}{
		{"never", Image{}, 0},
		{"from now", Image{UsedWall: wall.UnixNano()}, now + span + 1},
		{"for another nanosecond", Image{UsedWall: wall.UnixNano() - span}, now + 1},
		{"no longer", Image{UsedWall: wall.UnixNano() - span - 1}, 0},
		{"by the machine's clock", Image{UsedWall: wall.UnixNano() - 2*span, UsedMono: machine.At(now)}, now + span + 1},
	} {
		if got := tt.img.UsedUntil(c, machine, now, span); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

// A charge is kept for a minute longer than it counts.
func TestHorizon(t *testing.T) {
	if got, want := Horizon(0, int64(90*time.Second)), -int64(150*time.Second); got != want {
		t.Errorf("%d, want %d", got, want)
	}
}
