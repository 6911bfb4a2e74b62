package verdict

import (
	"slices"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/money"
)

// Use is what is known of a model, and of a pool.
type Use struct {
	Limits         []Limit
	Budgets        []Budget
	Found          *Found // the limits that are searched for; nil for none
	InFlight       int    // calls
	Waiting        int    // callers
	WaitingByClass map[string]int
	CooldownUntil  time.Time
	Cause          string // of the cooldown
}

// Limit is the state of one limit.
type Limit struct {
	Limit string // its key in files
	Max   int
	Used  int
	Open  int // what open calls may give back of Used
	// External is what others have used, and Left what a request may have.
	External, Left int
	Origin         string    // who said Max
	RoomAt         time.Time // when one more fits; zero if it does, or no time tells
}

// Budget is the spend of ten minutes, a day or a month.
type Budget struct {
	Limit      string       // its key in files
	Max, Spent money.Amount // Max is zero where it is unlimited
	Until      time.Time    // the end, of ten minutes that of the first call in it; zero if it is not known
}

// Found is limits that are searched for: the rate of requests per minute, and the calls in flight.
// Those of a limit that is not searched for are zero.
type Found struct {
	RPM, FloorRPM, CeilingRPM int
	RefusedRPM                int       // the rate that was last refused; 0 if that is not known
	RateLoweredAt             time.Time // zero for never

	InFlight, FloorInFlight, CeilingInFlight int
	OverloadedInFlight                       int       // the level that was last refused; 0 if that is not known
	InFlightLoweredAt                        time.Time // zero for never

	Told bool // the provider says its limits, so the rate does not apply
}

// Open is what the open calls of an account have of its usage, and how old they are.
type Open struct {
	minute, day state.Cost // of the requests, those that have not arrived
	Oldest      time.Duration
	OverMinute  int // how many are older than a minute
}

// Add adds a call and what it has charged to the account, for a caller with a span.
func (o *Open) Add(c *account.Call, charge *account.Charge, span int64, now account.Now) {
	age := max(now.Instant-c.At.Instant, 0)
	if o.Oldest = max(o.Oldest, time.Duration(age)); age > account.Minute {
		o.OverMinute++
	}
	minute, day := charge.Counts(now.Instant - span)
	for _, in := range [...]struct {
		sum    *state.Cost
		counts bool
	}{{&o.minute, minute}, {&o.day, day}} {
		if !in.counts {
			continue
		}
		if in.sum.Count = in.sum.Plus(charge.Tokens); !c.Arrived {
			in.sum.Requests++
		}
	}
}

// of returns what may be given back of a dimension.
func (o *Open) of(d state.Dimension) int {
	if state.Limits[d].Window == state.Day {
		return o.day.Of(d)
	}
	return o.minute.Of(d)
}

// UseOf returns the use of an account at a moment, for a caller with a span. origins is who said
// each limit of its quota.
func UseOf(a *account.Account, open *Open, origins [state.Dimensions]state.Origin, span int64, now account.Now) Use {
	u := Use{Budgets: budgetsOf(a, span, now), Found: foundOf(a, now), InFlight: a.InFlight, Waiting: a.Waiting}
	if a.CoolUntil > now.Wall {
		u.CooldownUntil, u.Cause = time.Unix(0, a.CoolUntil), a.CoolCause
	}
	reports := a.External(now)
	for _, of := range [...]state.Dimension{
		state.InFlight, state.RPD, state.TPD, state.RPM, state.ITPM, state.OTPM, state.TPM,
	} {
		l := Limit{Limit: state.Limits[of].Key, Max: *a.Quota.Limit(of), Origin: state.OriginKeys[origins[of]]}
		if l.Max == 0 {
			continue
		}
		l.Used = a.Used(of, span, now)
		if l.Open = min(open.of(of), l.Used); of == state.InFlight {
			l.Open = l.Used
		} else {
			if reports != nil {
				l.External = reports[of].Amount
			}
			if wait := RoomIn(a, of, span, now); wait > 0 {
				l.RoomAt = now.TimeAt(now.Instant + wait)
			}
		}
		l.Left = max(0, max(0, l.Max-l.Used)-l.External)
		u.Limits = append(u.Limits, l)
	}
	if a.Quota.MaxTokensPerMonth != 0 {
		u.Limits = append(u.Limits, monthOf(a, slices.Min(origins[:]), now))
	}
	return u
}

// monthOf returns the state of the tokens of the month.
func monthOf(a *account.Account, origin state.Origin, now account.Now) Limit {
	used, end := a.Month.Used(now.Wall)
	l := Limit{
		Limit: state.Budgets[state.TokensPerMonth].Key, Max: a.Quota.MaxTokensPerMonth, Used: used, Origin: state.OriginKeys[origin],
	}
	if l.Open, l.Left = min(a.Open.Total(), l.Used), max(l.Max-l.Used, 0); l.Left == 0 {
		l.RoomAt = time.Unix(0, end)
	}
	return l
}

// budgetsOf returns the spend of an account.
func budgetsOf(a *account.Account, span int64, now account.Now) (budgets []Budget) {
	recent, leaves := a.Recent.Used(span, now)
	var dayEnd, monthEnd int64
	if a.Spend != nil {
		dayEnd, monthEnd = a.Spend.Day.End, a.Spend.Month.End
	}
	for _, is := range [...]struct {
		budget     int
		max, spent money.Amount
		until      int64
	}{
		{state.SpendPerTenMinutes, a.Quota.MaxSpendPerTenMinutes, recent, leaves},
		{state.SpendPerDay, a.Quota.MaxSpendPerDay, a.Spend.OfDay(now.Wall), dayEnd},
		{state.SpendPerMonth, a.Quota.MaxSpendPerMonth, a.Spend.OfMonth(now.Wall), monthEnd},
	} {
		if is.max == 0 && is.spent == 0 {
			continue
		}
		b := Budget{Limit: state.Budgets[is.budget].Key, Max: is.max, Spent: is.spent}
		if is.spent != 0 {
			b.Until = time.Unix(0, is.until)
		}
		budgets = append(budgets, b)
	}
	return budgets
}

// foundOf returns the limits that were found for an account; nil where its quota searches for none.
func foundOf(a *account.Account, now account.Now) *Found {
	f := a.Found.View()
	if f == nil {
		return nil
	}
	known, b := f.Present(now.Instant, now.Wall), f.Bounds()
	l := &Found{
		FloorRPM: b.FloorRPM, CeilingRPM: b.CeilingRPM, RefusedRPM: account.Scaled(known.Rate.Knee, 60, 1e9),
		FloorInFlight: b.FloorSlots, CeilingInFlight: b.CeilingSlots, OverloadedInFlight: account.Scaled(known.Slots.Knee, 1, 1000),
		Told: known.Told,
	}
	l.RPM, l.InFlight = f.Found(now.Instant)
	l.RateLoweredAt, l.InFlightLoweredAt = loweredAt(&known.Rate, now), loweredAt(&known.Slots, now)
	return l
}

// loweredAt returns when a limit was last lowered; the zero time for never.
func loweredAt(s *state.Search, now account.Now) time.Time {
	if s.Lowered == 0 {
		return time.Time{}
	}
	return now.Time().Add(-time.Duration(s.Lowered))
}
