package account

import "dappco.re/go/core/go-ratelimit/internal/state"

// Span is a day or a month as accounts are told it.
type Span = state.Span

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

// monthAt returns the month that what is used at a time counts to. While nobody has told when it
// ends, it lasts for as long as the shortest one.
func (z *Zone) monthAt(wall int64) Span {
	const shortest = 28 * fullDay
	is := z.Month
	switch {
	case is.Holds(wall):
		return is
	case is.End != 0 && wall < is.End+shortest && wall >= is.End:
		return Span{Begin: is.End, End: is.End + shortest}
	}
	return Span{Begin: wall, End: wall + shortest}
}
