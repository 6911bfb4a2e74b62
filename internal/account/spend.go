package account

import (
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/wire"
	"dappco.re/go/core/go-ratelimit/money"
)

// The codes and reasons of the refusals by spend.
const (
	CodeUnpriced = "unpriced"
	CodeSpend    = "spend_exceeded"

	noPrice      = "the model has no price (Config.Prices), and spend is limited"
	dayOver      = "the spend of the day is used up"
	monthOver    = "the spend of the month is used up"
	dayTooMuch   = "the request alone may cost more than the spend of a day"
	monthTooMuch = "the request alone may cost more than the spend of a month"
)

// Spend is what was spent in the present day and in the present month, and the budgets for that.
type Spend struct {
	state.Spend
	Shared *Spend // where the money of the account counts while it has no room of its own; nil for never
	quota  *state.Quota
	zone   *Zone // whose day and month they are; its day may be unknown
}

// NeedSpend returns the spend of an account, made where there is none. zone is that of the quota's
// day, else the zone "".
func (a *Account) NeedSpend(zone *Zone) *Spend {
	if a.Spend == nil {
		askFor(a, &a.Spend, true)
		a.Spend.quota, a.Spend.zone = &a.Quota, zone
	}
	return a.Spend
}

func bindSpend(a *Account, zone *Zone, now Now) {
	if a.Spend != nil {
		a.Spend.Rezone(zone, now.Wall)
	} else if a.Has(Spends) {
		a.NeedSpend(zone)
	}
}

// OfDay and OfMonth return what counts of the spend at a time.
func (s *Spend) OfDay(wall int64) money.Amount {
	if s == nil {
		return 0
	}
	return s.Day.At(wall)
}

// OfMonth is OfDay for the month.
func (s *Spend) OfMonth(wall int64) money.Amount {
	if s == nil {
		return 0
	}
	return s.Month.At(wall)
}

// Deny denies what may cost more than a budget leaves.
func (s *Spend) Deny(ask Ask, now Now) (d Denial) {
	q := s.quota
	switch {
	case !q.LimitsSpend():
		return d
	case !ask.Priced:
		d.Add(&Refusal{Rank: BySpend, Code: CodeUnpriced, Reason: noPrice, TooMuch: noPrice})
		return d
	}
	is := s.seen(now.Wall)
	r := Refusal{Rank: BySpend, Code: CodeSpend, Reason: dayOver, TooMuch: dayTooMuch}
	denyPeriod(&d, &is.Day, q.MaxSpendPerDay, ask.Money, now.Wall, r)
	r.Reason, r.TooMuch = monthOver, monthTooMuch
	denyPeriod(&d, &is.Month, q.MaxSpendPerMonth, ask.Money, now.Wall, r)
	return d
}

// seen returns the spend that counts for the account at a time: its own, or the shared one where it
// has none.
func (s *Spend) seen(wall int64) Spend {
	is := *s
	if s.IsOver(wall) && !s.Shared.IsOver(wall) {
		is = *s.Shared
	}
	is.Settle(wall)
	return is
}

// Charge adds the most that a call can cost.
func (s *Spend) Charge(b Bill, now Now) (eased bool) {
	if b.Most != 0 {
		charge(&s.Day, s.dayAt(now.Wall), b.Most, now.Wall)
		charge(&s.Month, s.zone.monthAt(now.Wall), b.Most, now.Wall)
	}
	return false
}

// End replaces the charge by what the call did cost. To a day or a month that is over nothing is
// given back; what is above the charge counts to the present one.
func (s *Spend) End(b Bill, how How, now Now) {
	more := b.Cost.Sub(b.Most)
	if how == Expired || how == Lost || more == 0 {
		return
	}
	settle(&s.Day, s.dayAt(now.Wall), more, b.Wall, now.Wall)
	settle(&s.Month, s.zone.monthAt(now.Wall), more, b.Wall, now.Wall)
}

// MayPass reports whether the budgets may let an ask pass in time.
func (s *Spend) MayPass(h Hope, now Now) bool {
	return mayFit(&s.Day, s.quota.MaxSpendPerDay, h.Money, h.Open.Money, now.Wall, h.Left) &&
		mayFit(&s.Month, s.quota.MaxSpendPerMonth, h.Money, h.Open.Money, now.Wall, h.Left)
}

// Lasts is 0: what was spent is kept beside the usage.
func (s *Spend) Lasts(Now) int64 { return 0 }

// Forget does nothing: what was spent counts until its day and its month end.
func (s *Spend) Forget(bool, Now) {}

// Settle brings periods that lie in the future, because the wall clock was set back, to the
// present: what was spent counts to those that begin now.
func (s *Spend) Settle(wall int64) {
	setBack(&s.Day, s.dayAt(wall), wall)
	setBack(&s.Month, s.zone.monthAt(wall), wall)
}

// Rezone has the present day and month end where they do in another zone. What was spent in them
// counts on. Without a calendar day, a day that has begun lasts as it was to. The beginning stays,
// because one that went back would overlap the period before, which a file may have. A period that
// several changes would make too long to be stored begins where it does in the last zone, so what
// was charged before that is not given back.
func (s *Spend) Rezone(zone *Zone, wall int64) {
	if s.zone == zone {
		return
	}
	s.zone = zone
	if zone.Day.Holds(wall) {
		rezone(&s.Day, zone.Day, wall, state.LongestSpendDay)
	}
	rezone(&s.Month, zone.Month, wall, state.LongestSpendMonth)
}

// IsOver reports whether nothing counts any more.
func (s *Spend) IsOver(wall int64) bool { return s == nil || s.Spend.IsOver(wall) }

// dayAt returns the day that begins with the first spend at a time.
func (s *Spend) dayAt(wall int64) Span {
	if s.zone.Day.Holds(wall) {
		return s.zone.Day
	}
	return Span{Begin: wall, End: wall + fullDay}
}

func readSpend(a *Account, r *wire.Reader, as *As, has bool) {
	if has {
		s := a.NeedSpend(as.SpendZone)
		s.Day, s.Month = readPeriod[money.Amount](r), readPeriod[money.Amount](r)
	} else if a.Has(Spends) {
		r.Fail("account without its spend")
	}
}

// AppendImage appends the whole state of the spend.
func (s *Spend) AppendImage(to []byte) []byte {
	return appendPeriod(appendPeriod(to, &s.Day), &s.Month)
}
