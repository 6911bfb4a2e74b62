package account

import (
	"math"

	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/wire"
	"dappco.re/go/core/go-ratelimit/money"
)

// The codes and reasons of the refusals by spend.
const (
	codeUnpriced = "unpriced"
	codeSpend    = "spend_exceeded"

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
		a.Spend = &Spend{quota: &a.Quota, zone: zone}
		a.Extras = append(a.Extras, a.Spend)
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
	if s == nil || s.Day.End <= wall {
		return 0
	}
	return s.Day.Spent
}

// OfMonth is OfDay for the month.
func (s *Spend) OfMonth(wall int64) money.Amount {
	if s == nil || s.Month.End <= wall {
		return 0
	}
	return s.Month.Spent
}

// Deny denies what may cost more than a budget leaves.
func (s *Spend) Deny(ask Ask, now Now) (d Denial) {
	q := s.quota
	switch {
	case !q.LimitsSpend():
		return d
	case !ask.Priced:
		d.Add(&Refusal{Rank: BySpend, Code: codeUnpriced, Reason: noPrice, TooMuch: noPrice})
		return d
	}
	is := s.seen(now.Wall)
	is.deny(&d, &ask, q.MaxSpendPerDay, is.OfDay(now.Wall), is.Day.End-now.Wall, dayOver, dayTooMuch)
	is.deny(&d, &ask, q.MaxSpendPerMonth, is.OfMonth(now.Wall), is.Month.End-now.Wall, monthOver, monthTooMuch)
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

func (s *Spend) deny(d *Denial, ask *Ask, limit, spent money.Amount, left int64, over, tooMuch string) {
	if limit == 0 || ask.Money <= limit && spent <= limit-ask.Money {
		return
	}
	r := Refusal{Rank: BySpend, Code: codeSpend, Reason: over}
	if ask.Money > limit {
		r.TooMuch = tooMuch
	}
	if spent > 0 {
		r.Wait = left
	}
	d.Add(&r)
}

// Charge adds the most that a call can cost.
func (s *Spend) Charge(b Bill, now Now) (eased bool) {
	if b.Most != 0 {
		change := s.present(now.Wall)
		change.Day.Spent, change.Month.Spent = b.Most, b.Most
		s.Add(change)
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
	change := s.present(now.Wall)
	for _, p := range [...]*state.SpendPeriod{&change.Day, &change.Month} {
		if p.Spent = more; more <= 0 && b.Wall < p.Begin {
			*p = state.SpendPeriod{}
		}
	}
	if change != (state.Spend{}) {
		s.Add(change)
	}
}

// MayPass reports whether the budgets may let an ask pass in time.
func (s *Spend) MayPass(h Hope, now Now) bool {
	affords := func(p *state.SpendPeriod, limit money.Amount) bool {
		return limit == 0 || p.End-now.Wall <= h.Left || p.Spent.Sub(h.Open.Money) <= limit-h.Money
	}
	return affords(&s.Day, s.quota.MaxSpendPerDay) && affords(&s.Month, s.quota.MaxSpendPerMonth)
}

// Lasts is 0: what was spent is kept beside the usage.
func (s *Spend) Lasts(Now) int64 { return 0 }

// Forget does nothing: what was spent counts until its day and its month end.
func (s *Spend) Forget() {}

// Settle brings periods that lie in the future, because the wall clock was set back, to the
// present: what was spent counts to those that begin now.
func (s *Spend) Settle(wall int64) {
	if s.Day.Begin > wall {
		s.Day = state.SpendPeriod{Begin: s.dayAt(wall).Begin, End: s.dayAt(wall).End, Spent: s.Day.Spent}
	}
	if s.Month.Begin > wall {
		s.Month = state.SpendPeriod{Begin: s.zone.Month.Begin, End: s.zone.Month.End, Spent: s.Month.Spent}
	}
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

func rezone(p *state.SpendPeriod, is Span, wall int64, longest uint64) {
	if !p.Holds(wall) {
		return
	}
	p.End = is.End
	if uint64(p.End)-uint64(p.Begin) > longest {
		p.Begin = is.Begin
	}
}

// IsOver reports whether nothing counts any more.
func (s *Spend) IsOver(wall int64) bool { return s == nil || s.Spend.IsOver(wall) }

// dayAt returns the day that begins with the first spend at a time.
func (s *Spend) dayAt(wall int64) Span {
	if s.zone.Day.Holds(wall) {
		return s.zone.Day
	}
	return Span{wall, wall + fullDay}
}

// present returns the periods at a time, without what was spent in them.
func (s *Spend) present(wall int64) (is state.Spend) {
	day, month := s.dayAt(wall), s.zone.Month
	return state.Spend{Day: follow(day, &s.Day, wall), Month: follow(month, &s.Month, wall)}
}

// follow returns a period that begins or the one that lasts, if that has begun. Behind one that is
// over it begins no sooner than that ended: in another zone they overlap, and would count as one.
func follow(is Span, was *state.SpendPeriod, wall int64) state.SpendPeriod {
	switch {
	case was.Spent != 0 && was.Holds(wall):
		is = Span{was.Begin, was.End}
	case was.End <= wall:
		is.Begin = max(is.Begin, was.End)
	}
	return state.SpendPeriod{Begin: is.Begin, End: is.End}
}

func keptSpend(a *Account) Extra {
	if a.Spend == nil {
		return nil
	}
	return a.Spend
}

func readSpend(a *Account, r *wire.Reader, as *As, has bool) {
	if has {
		a.NeedSpend(as.SpendZone).read(r)
	} else if a.Has(Spends) {
		r.Fail("account without its spend")
	}
}

// AppendImage appends the whole state of the spend.
func (s *Spend) AppendImage(to []byte) []byte {
	for _, p := range [...]*state.SpendPeriod{&s.Day, &s.Month} {
		to = wire.AppendInt(wire.AppendInt(to, p.Begin), p.End)
		to = wire.AppendUint(to, uint64(p.Spent))
	}
	return to
}

func (s *Spend) read(r *wire.Reader) {
	for _, p := range [...]*state.SpendPeriod{&s.Day, &s.Month} {
		p.Begin, p.End = r.Int(), r.Int()
		p.Spent = money.Amount(r.UpTo(math.MaxInt64))
	}
}
