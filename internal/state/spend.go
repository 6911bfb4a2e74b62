package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"dappco.re/go/core/go-ratelimit/money"
)

// SpendPeriod is what was spent in a day or a month.
type SpendPeriod = Period[money.Amount]

// Spend is what was spent on a model, or in a pool, in a day and in a month. The zero value is
// nothing. As a change it is what a call adds to both, which may be negative.
type Spend struct{ Day, Month SpendPeriod }

// Add adds a change.
func (s *Spend) Add(change Spend) {
	s.Day.Add(change.Day)
	s.Month.Add(change.Month)
}

// Less returns the change that makes before s: what s has more in the same periods.
func (s Spend) Less(before Spend) Spend {
	less := func(is, was SpendPeriod) SpendPeriod {
		if was.Begin < is.End && is.Begin < was.End {
			is.Spent = is.Spent.Sub(was.Spent)
		}
		return is
	}
	return Spend{Day: less(s.Day, before.Day), Month: less(s.Month, before.Month)}
}

// SpendSince returns what was spent on top of what a file has, or that its periods end elsewhere.
func SpendSince(spent, before map[string]Spend) map[string]Spend {
	since := make(map[string]Spend)
	for account, s := range spent {
		was, has := before[account]
		if change := s.Less(was); has && s != was || change.Day.Spent != 0 || change.Month.Spent != 0 {
			since[account] = change
		}
	}
	return since
}

// IsOver reports whether day and month are over at an instant, in UnixNano, so nothing counts.
func (s *Spend) IsOver(wall int64) bool { return s.Day.End <= wall && s.Month.End <= wall }

// The longest periods, in nanoseconds: a zone that crosses the date line has days of 48 hours.
const (
	LongestSpendDay   = uint64(49 * time.Hour)
	LongestSpendMonth = uint64(34 * 24 * time.Hour)
)

// Check returns an error that names the field and its value if no limiter has such a spend. A
// change may be negative.
func (s *Spend) Check(change bool) error {
	for _, is := range [...]struct {
		name    string
		period  *SpendPeriod
		longest uint64
	}{{"day", &s.Day, LongestSpendDay}, {"month", &s.Month, LongestSpendMonth}} {
		p := is.period
		switch {
		case p.Begin > p.End || uint64(p.End)-uint64(p.Begin) > is.longest:
			return fmt.Errorf("%s is from %d to %d", is.name, p.Begin, p.End)
		case p.Spent < 0 && !change:
			return fmt.Errorf("%s: spent is %v, want $0 or more", is.name, p.Spent)
		}
	}
	return nil
}

// SpendText returns a spend as databases and events store it: six integers.
func SpendText(s Spend) string {
	text, err := json.Marshal([...]int64{
		s.Day.Begin, s.Day.End, int64(s.Day.Spent), s.Month.Begin, s.Month.End, int64(s.Month.Spent),
	})
	if err != nil {
		panic(err) // of integers
	}
	return string(text)
}

// ParseSpend is the reverse of SpendText for what is stored, ParseSpendChange for what an event
// adds. The error names what is wrong with the text.
func ParseSpend(text string) (Spend, error) { return parseSpend(text, false) }

// ParseSpendChange is ParseSpend for a change.
func ParseSpendChange(text string) (Spend, error) { return parseSpend(text, true) }

var errSpend = errors.New("want six integers")

func parseSpend(text string, change bool) (s Spend, err error) {
	var n []int64
	if err := DecodeStrictly(text, &n); err != nil {
		return Spend{}, err
	}
	if len(n) != 6 {
		return Spend{}, fmt.Errorf("%w, not %d", errSpend, len(n))
	}
	s = Spend{
		Day:   SpendPeriod{Begin: n[0], End: n[1], Spent: money.Amount(n[2])},
		Month: SpendPeriod{Begin: n[3], End: n[4], Spent: money.Amount(n[5])},
	}
	if err := s.Check(change); err != nil {
		return Spend{}, err
	}
	return s, nil
}
