// Package spend keeps what was spent in the present day and the present month, by the names under
// which models and pools are counted. It has no clock and no lock: its functions take the present
// instant. The limiter's package uses it.
package spend

import (
	"maps"
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/clock"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/money"
)

// Book is what was spent, by counted name. Nil is an empty one. A Book is not safe for concurrent
// use.
type Book map[string]*state.Spend

// Other is the name of the account that the models share for which there is no room.
const Other = state.OtherAccount

// Add adds a change to an account, and opens a missing one.
func (b *Book) Add(name string, change state.Spend) {
	s := (*b)[name]
	if s == nil {
		if *b == nil {
			*b = make(Book)
		}
		s = new(state.Spend)
		(*b)[strings.Clone(name)] = s
	}
	s.Add(change)
}

// AtLeast makes an account no less than a stored one.
func (b *Book) AtLeast(name string, stored state.Spend) {
	b.Add(name, state.Spend{})
	*(*b)[name] = (*b)[name].AtLeast(stored)
}

// DropOver drops the accounts of which nothing counts any more.
func (b Book) DropOver(wall int64) {
	maps.DeleteFunc(b, func(_ string, s *state.Spend) bool { return s.IsOver(wall) })
}

// All returns a copy of the accounts of which something counts.
func (b Book) All(wall int64) map[string]state.Spend {
	all := make(map[string]state.Spend, len(b))
	for name, s := range b {
		if !s.IsOver(wall) {
			all[name] = *s
		}
	}
	return all
}

// IsAhead reports whether a period of an account begins in the future, so Settle has to be called.
func IsAhead(s *state.Spend, wall int64) bool { return s.Day.Begin > wall || s.Month.Begin > wall }

// Settle brings an account that a clock left in the future, because it was set back, to an instant:
// what was spent counts to the periods that begin now.
func Settle(s *state.Spend, wall int64, zone *time.Location) {
	if s.Day.Begin > wall {
		spent := s.Day.Spent
		s.Day = Day(wall, zone)
		s.Day.Spent = spent
	}
	if s.Month.Begin > wall {
		spent := s.Month.Spent
		s.Month = Month(wall, zone)
		s.Month.Spent = spent
	}
}

// Rezone has the present day and month of an account end where they do in another zone, after a
// change of a quota. What was spent in them counts on. Without a zone, a day that has begun lasts
// as it was to. The beginning stays, because one that went back would overlap the period before,
// which a file may have. A period that several changes would make too long to be stored begins
// where it does in the last zone, so what was charged before that is not given back.
func Rezone(s *state.Spend, wall int64, zone *time.Location) {
	move := func(p *state.SpendPeriod, is state.SpendPeriod, longest uint64) {
		if !p.Holds(wall) {
			return
		}
		p.End = is.End
		if uint64(p.End)-uint64(p.Begin) > longest {
			p.Begin = is.Begin
		}
	}
	if zone != nil {
		move(&s.Day, Day(wall, zone), state.LongestSpendDay)
	}
	move(&s.Month, Month(wall, zone), state.LongestSpendMonth)
}

// Day returns the day that begins with the first spend at an instant; with a zone, the calendar day
// there.
func Day(wall int64, zone *time.Location) state.SpendPeriod {
	if zone == nil {
		return state.SpendPeriod{Begin: wall, End: clock.UnixNano(time.Unix(0, wall).Add(24 * time.Hour))}
	}
	return period(clock.Day(time.Unix(0, wall), zone))
}

// Month returns the calendar month of an instant in a zone, or in UTC.
func Month(wall int64, zone *time.Location) state.SpendPeriod {
	return period(clock.Month(time.Unix(0, wall), zone))
}

func period(begin, end time.Time) state.SpendPeriod {
	return state.SpendPeriod{Begin: clock.UnixNano(begin), End: clock.UnixNano(end)}
}

// Charge returns the change by which an amount is spent at an instant. s is the account; nil for
// none.
func Charge(s *state.Spend, amount money.Amount, wall int64, zone *time.Location) state.Spend {
	change := present(s, wall, zone)
	change.Day.Spent, change.Month.Spent = amount, amount
	return change
}

// Correct returns the change by which a call costs more or less than was charged for it at an
// earlier instant, and whether there is any. To a day or a month that is over nothing is given
// back: to the present one counts what is above the charge.
func Correct(s *state.Spend, charged int64, more money.Amount, wall int64, zone *time.Location) (change state.Spend, any bool) {
	change = present(s, wall, zone)
	for _, p := range [...]*state.SpendPeriod{&change.Day, &change.Month} {
		if p.Spent = more; more <= 0 && charged < p.Begin {
			*p = state.SpendPeriod{}
		}
	}
	return change, more != 0 && change != state.Spend{}
}

// Lasts reports whether both periods of an account hold an instant, so that no zone has to be
// known. Nil is an account without spend.
func Lasts(s *state.Spend, wall int64) bool {
	return s != nil && isBegun(&s.Day, wall) && isBegun(&s.Month, wall)
}

// isBegun reports whether a period holds an instant, and something is spent in it: a day without a
// zone begins with that.
func isBegun(p *state.SpendPeriod, wall int64) bool { return p.Spent != 0 && p.Holds(wall) }

// present returns the periods at an instant, as far as an account knows them.
func present(s *state.Spend, wall int64, zone *time.Location) (is state.Spend) {
	is.Day, is.Month = Day(wall, zone), Month(wall, zone)
	if s != nil {
		follow(&is.Day, &s.Day, wall)
		follow(&is.Month, &s.Month, wall)
	}
	return is
}

// follow makes a period that begins the one of an account, if that has begun. Behind one that is
// over it begins no sooner than that ended: in another zone they overlap, and would count as one.
func follow(is, was *state.SpendPeriod, wall int64) {
	switch {
	case isBegun(was, wall):
		is.Begin, is.End = was.Begin, was.End
	case was.End <= wall:
		is.Begin = max(is.Begin, was.End)
	}
}

// Since returns what was spent on top of what a file has, or that its periods end elsewhere.
func Since(spent, before map[string]state.Spend) map[string]state.Spend {
	since := make(map[string]state.Spend)
	for account, s := range spent {
		was, has := before[account]
		if change := s.Less(was); has && s != was || change.Day.Spent != 0 || change.Month.Spent != 0 {
			since[account] = change
		}
	}
	return since
}

// OfDay returns what an account spent in the present day; zero for nil.
func OfDay(s *state.Spend, wall int64) money.Amount {
	if s == nil || s.Day.End <= wall {
		return 0
	}
	return s.Day.Spent
}

// OfMonth returns what an account spent in the present month; zero for nil.
func OfMonth(s *state.Spend, wall int64) money.Amount {
	if s == nil || s.Month.End <= wall {
		return 0
	}
	return s.Month.Spent
}
