package state

import (
	"fmt"
	"math"
)

// Period is what was used in a day or a month. The zero value is a period that is long over.
type Period[A ~int64] struct {
	Begin, End int64 // in UnixNano; End is excluded
	Spent      A     // not negative, unless it is a change
}

// Holds reports whether an instant, in UnixNano, lies in the period.
func (p *Period[A]) Holds(wall int64) bool { return p.Begin <= wall && wall < p.End }

// At returns what counts of the period at a time.
func (p *Period[A]) At(wall int64) A {
	if p.End <= wall {
		return 0
	}
	return p.Spent
}

// Add adds a change of the same period. One of a later period begins that, and so does any where
// nothing is spent; one of an earlier period changes nothing, because that is over. Periods that
// overlap are the same, as processes know it that are not told of each other: it begins where the
// first of them does.
func (p *Period[A]) Add(change Period[A]) {
	switch {
	case change.Begin < p.End && p.Begin != p.End && change.End <= p.Begin:
		return
	case change.Begin >= p.End || p.Begin == p.End || p.Spent == 0:
		*p = change
		p.Spent = max(p.Spent, 0)
		return
	case change.Begin <= p.Begin:
		p.Begin, p.End = change.Begin, change.End
	}
	if p.Spent != math.MaxInt64 { // which may stand for more
		p.Spent = max(p.Spent+min(change.Spent, math.MaxInt64-max(p.Spent, 0)), 0)
	}
}

// less returns p with what it has more than before, if both are the same period.
func (p Period[A]) less(before Period[A]) Period[A] {
	if before.Begin < p.End && p.Begin < before.End {
		p.Spent -= before.Spent
	}
	return p
}

// check returns an error that names a period that no limiter has.
func (p *Period[A]) check(name string, longest uint64, change bool) error {
	switch {
	case p.Begin > p.End || uint64(p.End)-uint64(p.Begin) > longest:
		return fmt.Errorf("%s is from %d to %d", name, p.Begin, p.End)
	case p.Spent < 0 && !change:
		return fmt.Errorf("%s: spent is %v, want 0 or more", name, p.Spent)
	}
	return nil
}
