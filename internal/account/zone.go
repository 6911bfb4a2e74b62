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

// EndWith has the day and the month of an account end with those of its zone, where they began
// before anybody had told these.
func (a *Account) EndWith(z *Zone, wall int64) {
	if d := &a.Day; d.zone == z && d.Holds(wall) && z.Day.Holds(wall) && d.Begin > z.Day.Begin {
		d.start(wall)
		d.show()
	}
	if m := a.Month; m != nil && m.zone == z {
		endWith(&m.used, z.Month, wall)
	}
	if s := a.Spend; s != nil && s.zone == z {
		endWith(&s.Day, z.Day, wall)
		endWith(&s.Month, z.Month, wall)
	}
}

func endWith[A ~int64](p *state.Period[A], is Span, wall int64) {
	if p.Holds(wall) && is.Holds(wall) && p.Begin >= is.Begin {
		p.End = is.End
	}
}
