package limit

import (
	"math"
	"time"
)

// keyedLine turns the instants of a Keyed into nanoseconds since the first one.
type keyedLine struct {
	begun  bool
	origin time.Time
	end    int64 // no time.Time is later
}

// tick is an instant as nanoseconds on a line.
type tick struct {
	ns  int64
	far *time.Time // the instant, if it is too far from the origin for ns
}

// instant is an instant and its tick.
type instant struct {
	time time.Time
	tick
}

// startOfTime and endOfTime are the first and the last instant of a time.Time.
var (
	startOfTime = time.Unix(-1<<63, 0)
	endOfTime   = time.Unix(1<<63-62135596801, 999999999)
)

// longAgo is before all other ticks.
var longAgo = tick{ns: math.MinInt64}

func (t tick) before(o tick) bool {
	if t.ns != o.ns || o.far == nil {
		return t.ns < o.ns
	}
	return t.far == nil || t.far.Before(*o.far)
}

// begin begins the line, unless it has begun.
func (l *keyedLine) begin(origin time.Time) {
	if !l.begun {
		*l = keyedLine{true, origin, int64(endOfTime.Sub(origin))}
	}
}

func (l *keyedLine) at(t time.Time) tick {
	ns := int64(t.Sub(l.origin))
	if ns != math.MinInt64 && ns != math.MaxInt64 {
		return tick{ns: ns}
	}
	far := t // t itself would be allocated at every call
	return tick{ns, &far}
}

// now returns the present instant, of which the wall clock is that of the origin and the
// time since. It is for limiters that follow the monotonic clock, and takes two thirds of
// the time of time.Now. ok is false if the present is too far from the origin.
func (l *keyedLine) now() (now instant, ok bool) {
	since := time.Since(l.origin)
	ok = since != math.MinInt64 && since != math.MaxInt64
	return instant{l.origin.Add(since), tick{ns: int64(since)}}, ok
}

// after returns the tick that is d, which is positive, after t, or the end of time.
func (l *keyedLine) after(t time.Time, d time.Duration) tick {
	ns := int64(t.Sub(l.origin))
	if sum := ns + int64(d); sum > ns && sum < l.end && ns != math.MinInt64 {
		return tick{ns: sum}
	}
	later := t.Add(d)
	if later.Sub(t) < d {
		later = endOfTime
	}
	return l.at(later)
}

// time returns the instant of a tick. Its wall clock is that of now, if now is near
// enough.
func (l *keyedLine) time(m tick, now instant) time.Time {
	if m.far != nil {
		return *m.far
	}
	if d := m.ns - now.ns; now.far == nil && (d < 0) == (m.ns < now.ns) {
		return now.time.Add(time.Duration(d))
	}
	return l.origin.Add(time.Duration(m.ns))
}
