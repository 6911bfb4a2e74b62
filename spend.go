package ratelimit

import (
	"time"

	"dappco.re/go/core/go-ratelimit/internal/clock"
	"dappco.re/go/core/go-ratelimit/internal/spend"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/tokens"
	"dappco.re/go/core/go-ratelimit/money"
)

// CommitUsage is Commit for a call whose cost depends on more than its prompt and output: used has
// all kinds of tokens that are billed, and promptTokens and outputTokens are those that count to
// the limits, which often differ: see package money. Commit(p, o) is CommitUsage with
// money.Usage{Input: p, Output: o}.
//
// Only the first settlement of a reservation counts. CommitUsage is safe for concurrent use.
func (r *Reservation) CommitUsage(promptTokens, outputTokens int, used money.Usage) {
	r.commit(tokens.Count{Input: max(promptTokens, 0), Output: max(outputTokens, 0)}, &used)
}

// RecordSpend is RecordUsage for a call whose cost depends on more than its prompt and output, as
// CommitUsage is Commit. It is safe for concurrent use.
func (rl *RateLimiter) RecordSpend(model string, promptTokens, outputTokens int, used money.Usage) {
	rl.recordUsage(model, tokens.Count{Input: max(promptTokens, 0), Output: max(outputTokens, 0)}, &used)
}

// billed returns what is billed of a usage: what the caller says, or the usage as it is.
func billed(used tokens.Count, said *money.Usage) money.Usage {
	if said != nil {
		return *said
	}
	return money.Usage{Input: used.Input, Output: used.Output}
}

// charged is the money of a reservation. It is the same in its pools as in its model.
type charged struct {
	most  money.Amount // that the call can cost, which was charged;
	cost  money.Amount // what it did cost, once it is known
	at    int64        // when it was charged, in UnixNano
	other bool         // to the account that models share
	known bool         // money is counted for it
}

// account returns the name of the account to which the money of a reservation was charged.
func (r *Reservation) account() string {
	if r.extra.other {
		return spend.Other
	}
	return r.slots().name
}

// mostRLocked fills in the most that requests of a model, which is counted under a name, can cost.
func (rl *RateLimiter) mostRLocked(c *cost, name, model string) {
	rl.pricing.Most(&rl.naming, c, name, model)
}

// spendLocked charges the most that the call of a reservation can cost, as of the instant of its
// charge, and remembers it.
func (r *Reservation) spendLocked(q *ModelQuota, most money.Amount, instant int64) {
	if r.home == nil {
		return
	}
	rl, x := r.home, r.more()
	x.charged = charged{most: most, at: rl.clock.UnixNano(instant), known: true}
	if most != 0 {
		name := rl.accountLocked(r.slots().name, x.at)
		x.other = name != r.slots().name
		rl.spends.Add(name, spend.Charge(rl.spends[name], most, x.at, zoneOf(q.DayZone)))
	}
}

// madeLocked ends a charge: it counts the money that a call can cost at most, and adds it up.
func (rl *RateLimiter) madeLocked(made *Reservation, q *ModelQuota, most money.Amount, instant int64) *Reservation {
	if rl.pricing != nil {
		made.spendLocked(q, most, instant)
	}
	if made.home != nil {
		made.auditReservedLocked()
	}
	return made
}

// priceLocked notes what a call did cost, before its reservation and those of its pools are
// settled.
func (r *Reservation) priceLocked(used money.Usage) {
	if r.settled {
		return
	}
	name, model := r.slots().name, r.slots().name
	if r.extra != nil && r.extra.model != "" {
		model = r.extra.model
	}
	if state.IsPool(name) { // its model had no place
		name = r.home.nameRLocked(model)
	}
	price, _ := r.home.pricing.Find(&r.home.naming, name, model)
	cost := price.Cost(used)
	for part := r; part != nil; part = part.pool {
		x := part.more()
		x.cost, x.known = cost, true // also of a call that was made before there were prices
	}
}

// correctionRLocked returns by how much the cost of a reservation, as it ends, differs from what
// was charged.
func (r *Reservation) correctionRLocked(end EventKind) money.Amount {
	switch {
	case r.extra == nil || !r.extra.known || end == EventExpired:
		return 0
	case end == EventReleased:
		r.extra.cost = 0
	}
	return r.extra.cost.Sub(r.extra.most)
}

// endMoneyLocked replaces the charge of a reservation that ends by what the call did cost, and adds
// it up.
func (r *Reservation) endMoneyLocked(end EventKind, used tokens.Count) {
	if r.extra != nil {
		r.respendLocked(end)
	}
	r.auditEndedLocked(end, used)
}

// respendLocked has a settlement replace the charge by what the call did cost.
func (r *Reservation) respendLocked(end EventKind) {
	more := r.correctionRLocked(end)
	if more == 0 {
		return
	}
	rl, name := r.home, r.account()
	wall := rl.clock.UnixNano(rl.clock.Sync())
	if change, any := rl.changeRLocked(name, r.extra.at, more, wall); any {
		rl.spends.Add(name, change)
		rl.changedNowLocked()
	}
}

// changeRLocked returns the change of an account for a call that cost more, or less, than was
// charged for it.
func (rl *RateLimiter) changeRLocked(name string, charged int64, more money.Amount, wall int64) (change state.Spend, any bool) {
	s := rl.spends[name]
	return spend.Correct(s, charged, more, wall, rl.spendZoneRLocked(s, name, wall))
}

// costOf returns what a call has cost when it ends; of a call that goes on, the most that it can.
func (r *Reservation) costOf(end EventKind) money.Amount {
	switch {
	case r.extra == nil || !r.extra.known:
		return 0
	case end == EventSettled:
		return r.extra.cost
	case end == EventReleased:
		return 0
	}
	return r.extra.most
}

// recordSpendLocked charges what a call has cost that was not reserved.
func (rl *RateLimiter) recordSpendLocked(name, model string, used money.Usage, instant int64) (cost money.Amount) {
	price, _ := rl.pricing.Find(&rl.naming, name, model)
	cost = price.Cost(used)
	rl.spentMoreLocked(name, cost, instant)
	return cost
}

// spentMoreLocked charges an amount to the account of a counted name.
func (rl *RateLimiter) spentMoreLocked(name string, cost money.Amount, instant int64) {
	if cost != 0 {
		wall := rl.clock.UnixNano(instant)
		account := rl.accountLocked(name, wall)
		s := rl.spends[account]
		rl.spends.Add(account, spend.Charge(s, cost, wall, rl.spendZoneRLocked(s, name, wall)))
		rl.changedLocked(instant)
	}
}

// accountLocked returns the account of a counted name: its own, or the one that models share for
// which there is no room. As long as anything counts in that, models without an account go there.
func (rl *RateLimiter) accountLocked(name string, wall int64) string {
	if rl.spends[name] != nil || rl.isListedRLocked(name) || state.IsPool(name) {
		return name
	}
	if other := rl.spends[spend.Other]; other != nil && !other.IsOver(wall) {
		return spend.Other
	}
	most := rl.mostModels() + len(rl.Quotas)
	if len(rl.spends) >= most {
		rl.spends.DropOver(wall)
	}
	if len(rl.spends) >= most {
		return spend.Other
	}
	return name
}

// spentRLocked returns the account of a counted name; nil where there is none.
func (rl *RateLimiter) spentRLocked(name string) *state.Spend {
	if s := rl.spends[name]; s != nil {
		return s
	}
	if other := rl.spends[spend.Other]; other != nil && !rl.isListedRLocked(name) && !state.IsPool(name) {
		return other
	}
	return nil
}

// spendZoneRLocked returns the zone of an account where a period has to be begun.
func (rl *RateLimiter) spendZoneRLocked(s *state.Spend, name string, wall int64) *time.Location {
	if spend.Lasts(s, wall) {
		return nil
	}
	return zoneOf(rl.zoneRLocked(name))
}

// zoneOf returns a zone by its name; nil for none, and for a bad one, whose quota admits nothing.
func zoneOf(name string) *time.Location {
	zone, _ := clock.LoadZone(name)
	return zone
}

// rezoneSpendLocked follows a change of the quota of a name, which may be a pattern.
func (rl *RateLimiter) rezoneSpendLocked(name string, instant int64) {
	wall := rl.clock.UnixNano(instant)
	if s := rl.spends[name]; s != nil {
		spend.Rezone(s, wall, zoneOf(rl.zoneRLocked(name)))
		return
	}
	for name, s := range rl.spends {
		if !rl.isListedRLocked(name) {
			spend.Rezone(s, wall, zoneOf(rl.zoneRLocked(name)))
		}
	}
}

// readSpend reads the account of a view. It reports whether that is in order: not where the clock
// was set back.
func (r *view) readSpend(rl *RateLimiter, name string) (ok bool) {
	r.spent = rl.spentRLocked(name)
	return r.spent == nil || !spend.IsAhead(r.spent, r.wall)
}

// settleSpendLocked is readSpend, and brings the account in order.
func (r *view) settleSpendLocked(rl *RateLimiter, name string) {
	if !r.readSpend(rl, name) {
		spend.Settle(r.spent, r.wall, zoneOf(rl.zoneRLocked(name)))
	}
}

// daySpend and monthSpend are what counts of the spend.
func (r *view) daySpend() money.Amount   { return spend.OfDay(r.spent, r.wall) }
func (r *view) monthSpend() money.Amount { return spend.OfMonth(r.spent, r.wall) }

// affordable reports whether more fits a limit of which some is spent, as fits does.
func affordable(spent, more, limit money.Amount) bool {
	return limit == 0 || more <= limit && spent <= limit-more
}

// affords reports whether a request fits the limits of spend.
func (r *view) affords(q *ModelQuota, c *cost) bool {
	return c.Priced && affordable(r.daySpend().Add(r.apart.Day), c.Money, q.MaxSpendPerDay) &&
		affordable(r.monthSpend().Add(r.apart.Month), c.Money, q.MaxSpendPerMonth)
}

// affordsBy reports whether a request may fit the limits of spend in so many nanoseconds. The calls
// in flight may give back what they were charged, if that is known of all.
func (r *view) affordsBy(q *ModelQuota, c *cost, left int64) bool {
	back, known := money.Amount(0), true
	if n := r.slots.calls(); n > 0 {
		back, known = r.slots.audit.OpenMoney(n)
	}
	if r.spent == nil || !known {
		return true
	}
	lasts := func(p *state.SpendPeriod) bool { return p.End > r.wall && p.End-r.wall > left }
	return (!lasts(&r.spent.Day) || affordable(r.spent.Day.Spent.Sub(back), c.Money, q.MaxSpendPerDay)) &&
		(!lasts(&r.spent.Month) || affordable(r.spent.Month.Spent.Sub(back), c.Money, q.MaxSpendPerMonth))
}

// spentLocked notes that money was spent, and what a call has reserved became final. Once none is
// in flight, a waiter may be too late.
func (l *waitLines) spentLocked(name string) {
	if name == spend.Other {
		for g := range l.occupied {
			l.reviewAllLaterLocked(g)
		}
	} else if g := l.allSlots[name]; g.calls() == 0 {
		l.reviewAllLaterLocked(g)
	}
}

// The reasons of the refusals by spend.
const (
	noPrice      = "the model has no price (Config.Prices), and spend is limited"
	dayOver      = "the spend of the day is used up"
	monthOver    = "the spend of the month is used up"
	dayTooMuch   = "the request alone may cost more than the spend of a day"
	monthTooMuch = "the request alone may cost more than the spend of a month"
)

// checkSpend checks the limits of spend.
func (f *refusal) checkSpend(r *view, q *ModelQuota, c *cost) {
	switch {
	case !q.limitsSpend():
		return
	case !c.Priced:
		f.refuse(DecisionUnpriced, noPrice)
		f.never(noPrice)
		return
	}
	if day := r.daySpend(); !affordable(day.Add(r.apart.Day), c.Money, q.MaxSpendPerDay) {
		f.spendOver(c.Money > q.MaxSpendPerDay, dayOver, dayTooMuch)
		f.until(r.spentUntil(affordable(day, c.Money, q.MaxSpendPerDay), func(s *state.Spend) int64 { return s.Day.End }))
	}
	if month := r.monthSpend(); !affordable(month.Add(r.apart.Month), c.Money, q.MaxSpendPerMonth) {
		f.spendOver(c.Money > q.MaxSpendPerMonth, monthOver, monthTooMuch)
		f.until(r.spentUntil(affordable(month, c.Money, q.MaxSpendPerMonth), func(s *state.Spend) int64 { return s.Month.End }))
	}
}

func (f *refusal) spendOver(never bool, reason, tooMuch string) {
	f.budget = reason
	if f.refuse(DecisionSpendLimit, reason); never {
		f.never(tooMuch)
	}
}

// spentUntil returns how long spend denies: until its period ends or, where only the shares of
// others deny, for a moment, because these change all the time.
func (r *view) spentUntil(byShares bool, end func(*state.Spend) int64) time.Duration {
	switch {
	case byShares:
		return time.Second
	case r.spent == nil:
		return 0
	}
	return time.Duration(end(r.spent) - r.wall)
}

// addMostRLocked adds the most that a request can cost to the cost of a batch. It is rounded up for
// each call, as the calls are charged.
func (rl *RateLimiter) addMostRLocked(c *cost, name string, req *Request) {
	one := req.cost()
	rl.mostRLocked(&one, name, req.Model)
	c.Priced = one.Priced && (c.Priced || c.Requests == 0)
	c.Money = c.Money.Add(one.Money)
}

// mostOfRLocked returns the most that a request can cost.
func (rl *RateLimiter) mostOfRLocked(name string, req *Request) money.Amount {
	if rl.pricing == nil {
		return 0
	}
	c := req.cost()
	rl.mostRLocked(&c, name, req.Model)
	return c.Money
}

// budgets returns the spend of a view, for Explain.
func (r *view) budgets(q *ModelQuota) (budgets []BudgetState) {
	day := BudgetState{Limit: state.Spends[0].Key, Max: q.MaxSpendPerDay, Spent: r.daySpend()}
	month := BudgetState{Limit: state.Spends[1].Key, Max: q.MaxSpendPerMonth, Spent: r.monthSpend()}
	if day.Spent != 0 {
		day.Until = time.Unix(0, r.spent.Day.End)
	}
	if month.Spent != 0 {
		month.Until = time.Unix(0, r.spent.Month.End)
	}
	for _, b := range [...]BudgetState{day, month} {
		if b.Max != 0 || b.Spent != 0 {
			budgets = append(budgets, b)
		}
	}
	return budgets
}
