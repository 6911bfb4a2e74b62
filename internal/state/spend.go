package state

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"dappco.re/go/core/go-ratelimit/money"
)

// SpendPeriod is what was spent in a day or a month.
type SpendPeriod = Period[money.Amount]

// Spend is what was spent on a model, or in a pool, in a day and in a month, and where they are
// limited the tokens of a month and the payments of the last ten minutes. The zero value is
// nothing. As a change it is what a call adds, which may be negative.
type Spend struct {
	Day, Month SpendPeriod
	Tokens     Period[int64]
	Recent     Payments
}

// Add adds a change.
func (s *Spend) Add(change Spend) {
	s.Day.Add(change.Day)
	s.Month.Add(change.Month)
	s.Tokens.Add(change.Tokens)
	s.Recent.Add(change.Recent)
}

// Less returns the change that makes before s: what s has more in the same periods.
func (s Spend) Less(before Spend) Spend {
	return Spend{s.Day.less(before.Day), s.Month.less(before.Month), s.Tokens.less(before.Tokens), s.Recent.less(before.Recent)}
}

// SpendSince returns what was spent on top of what a file has, or that its periods end elsewhere.
func SpendSince(spent, before map[string]Spend) map[string]Spend {
	since := make(map[string]Spend)
	for account, s := range spent {
		was, has := before[account]
		if change := s.Less(was); has && s != was || change.Day.Spent != 0 || change.Month.Spent != 0 || change.Tokens.Spent != 0 || change.Recent != "" {
			since[account] = change
		}
	}
	return since
}

// IsOver reports whether day and months are over at an instant, in UnixNano, so nothing counts.
func (s *Spend) IsOver(wall int64) bool {
	return s.Day.End <= wall && s.Month.End <= wall && s.Tokens.End <= wall && !s.Recent.lasts(wall)
}

// HasWindow reports whether something counts that versions of before do not know.
func (s *Spend) HasWindow() bool { return s.Tokens != Period[int64]{} || s.Recent != "" }

// The longest periods, in nanoseconds: a zone that crosses the date line has days of 48 hours.
const (
	LongestSpendDay   = uint64(49 * time.Hour)
	LongestSpendMonth = uint64(34 * 24 * time.Hour)
)

// Check returns an error that names the field and its value if no limiter has such a spend. A
// change may be negative.
func (s *Spend) Check(change bool) error {
	return cmp.Or(s.Day.check("day", LongestSpendDay, change), s.Month.check("month", LongestSpendMonth, change),
		s.Tokens.check("tokens", LongestSpendMonth, change))
}

// SpendText returns a spend as databases and events store it: six integers, and where windows are
// limited three more and those of the payments.
func SpendText(s Spend) string {
	n := []int64{s.Day.Begin, s.Day.End, int64(s.Day.Spent), s.Month.Begin, s.Month.End, int64(s.Month.Spent)}
	if s.HasWindow() {
		n = append(append(n, s.Tokens.Begin, s.Tokens.End, s.Tokens.Spent), s.Recent.numbers()...)
	}
	return numbersText(n)
}

func numbersText(n []int64) string {
	text, err := json.Marshal(n)
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

var errSpend = errors.New("want six integers, nine, or more that are odd")

func parseSpend(text string, change bool) (s Spend, err error) {
	var n []int64
	if err := DecodeStrictly(text, &n); err != nil {
		return Spend{}, err
	}
	if len(n) != 6 && (len(n) < 9 || len(n)%2 == 0) {
		return Spend{}, fmt.Errorf("%w, not %d", errSpend, len(n))
	}
	s = Spend{
		Day:   SpendPeriod{Begin: n[0], End: n[1], Spent: money.Amount(n[2])},
		Month: SpendPeriod{Begin: n[3], End: n[4], Spent: money.Amount(n[5])},
	}
	if len(n) > 6 {
		s.Tokens = Period[int64]{Begin: n[6], End: n[7], Spent: n[8]}
		if s.Recent, err = paymentsFrom(n[9:], change); err != nil {
			return Spend{}, err
		}
	}
	if err := s.Check(change); err != nil {
		return Spend{}, err
	}
	return s, nil
}
