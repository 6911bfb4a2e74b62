package state

import (
	"time"

	"dappco.re/go/core/go-ratelimit/internal/clock"
)

// Span is a time from Begin up to End, excluded, in UnixNano.
type Span struct{ Begin, End int64 }

// Holds reports whether a time lies in the span.
func (s Span) Holds(wall int64) bool { return s.Begin <= wall && wall < s.End }

// BoundsOf returns the day and the month of a zone that last at a time; zero for a zone that this
// machine does not know. The zone "" has a month alone.
func BoundsOf(zone string, wall int64) (day, month Span) {
	in, err := clock.LoadZone(zone)
	if err != nil {
		return day, month
	}
	at := time.Unix(0, wall)
	if in != nil {
		day = spanOf(clock.Day(at, in))
	}
	return day, spanOf(clock.Month(at, in))
}

// DayFrom returns the day that began at a time: one that ends at the next midnight of a zone, or of
// 24 hours where that is "" or not known.
func DayFrom(start time.Time, zone string) Span {
	begin := clock.UnixNano(start)
	if in, err := clock.LoadZone(zone); err == nil && in != nil {
		_, end := clock.Day(start, in)
		return Span{Begin: begin, End: clock.UnixNano(end)}
	}
	return Span{Begin: begin, End: begin + int64(24*time.Hour)}
}

func spanOf(begin, end time.Time) Span {
	return Span{Begin: clock.UnixNano(begin), End: clock.UnixNano(end)}
}
