package account

// Span is a stretch of the wall clock in UnixNano. End is excluded.
type Span struct{ Begin, End int64 }

// Holds reports whether a time lies in the span.
func (s Span) Holds(wall int64) bool { return s.Begin <= wall && wall < s.End }

// Zone is a time zone as far as accounts know one: the calendar day and month that were told last.
// An account never looks into a table of zones, because the tables of two machines differ. The
// zone "" has a month, which is that of UTC, and no calendar day.
type Zone struct {
	Name  string // the IANA name
	Day   Span
	Month Span
}

// IsKnown reports whether anybody has told the bounds of the zone.
func (z *Zone) IsKnown() bool { return z.Month.End != 0 }
