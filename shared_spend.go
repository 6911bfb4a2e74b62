package ratelimit

import (
	"maps"
	"slices"

	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
	"dappco.re/go/core/go-ratelimit/internal/sharedlog/combine"
	"dappco.re/go/core/go-ratelimit/internal/spend"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/tokens"
	"dappco.re/go/core/go-ratelimit/money"
)

// commit is Reservation.commit with Config.Shared.
func (s *ledger) commit(r *Reservation, used tokens.Count, bill money.Usage) {
	s.update(combine.Appended, func(p *plan) {
		if p.rl.pricing != nil && r.more().plan != p.serial {
			r.priceLocked(bill)
		}
		p.commit(r, EventSettled, used)
	})
	s.rl.teller.tellEnded(r)
}

// spend plans a change of an account. model is the counted name for which it is: the next decision
// of the plan has to know what is spent on that.
func (p *plan) spend(account, model string, change state.Spend, amount money.Amount) {
	p.addNow(&sharedlog.Event{Kind: sharedlog.Spend, Model: account, Text: state.SpendText(change)})
	if p.s.remote != nil && amount > 0 {
		b := &p.day(model, p.instant).beside
		b.cost.Money = b.cost.Money.Add(amount)
	}
}

// spendMost plans to charge the most that the call of a reservation can cost.
func (p *plan) spendMost(r *Reservation, name string, most money.Amount) {
	rl := p.rl
	if rl.pricing == nil || r.home == nil {
		return
	}
	x := r.more()
	x.charged = charged{most: most, at: rl.clock.UnixNano(p.instant), known: true}
	if most == 0 {
		return
	}
	account := rl.accountLocked(name, x.at)
	x.other = account != name
	s := rl.spends[account]
	p.spend(account, name, spend.Charge(s, most, x.at, rl.spendZoneRLocked(s, name, x.at)), most)
}

// respend plans that what a call did cost replaces what was charged for it.
func (p *plan) respend(r *Reservation, end EventKind) {
	more := r.correctionRLocked(end)
	if more == 0 {
		return
	}
	account := r.account()
	if change, any := p.rl.changeRLocked(account, r.extra.at, more, p.rl.clock.UnixNano(p.instant)); any {
		p.spend(account, r.slots().name, change, more)
	}
}

// recordSpend plans to charge what a call has cost that was not reserved.
func (p *plan) recordSpend(name, model string, used money.Usage) (cost money.Amount) {
	rl := p.rl
	price, _ := rl.pricing.Find(&rl.naming, name, model)
	cost = price.Cost(used)
	p.spendMore(name, cost)
	return cost
}

// spendMore plans to charge an amount to the account of a counted name.
func (p *plan) spendMore(name string, cost money.Amount) {
	rl := p.rl
	if cost == 0 {
		return
	}
	wall := rl.clock.UnixNano(p.instant)
	account := rl.accountLocked(name, wall)
	s := rl.spends[account]
	p.spend(account, name, spend.Charge(s, cost, wall, rl.spendZoneRLocked(s, name, wall)), cost)
}

// spend applies a change of an account.
func (f effect) spend(e *sharedlog.Event) {
	change, err := state.ParseSpendChange(e.Text)
	if err != nil {
		return // Check has refused it
	}
	rl, wall := f.rl, f.rl.clock.UnixNano(f.instant)
	if s := rl.spends[e.Model]; s != nil && spend.IsAhead(s, wall) {
		spend.Settle(s, wall, zoneOf(rl.zoneRLocked(e.Model)))
	}
	if len(rl.spends) >= rl.mostModels() && rl.spends[e.Model] == nil {
		rl.spends.DropOver(wall)
	}
	rl.spends.Add(e.Model, change)
	rl.linesLocked().spentLocked(e.Model)
}

// loadSpend makes the accounts those of the log. What this limiter knows of a log that another one
// replaces is no less in that: restoreSpend.
func (b *rebuild) loadSpend() {
	b.rl.spends = nil
	for account, s := range b.img.Spend {
		b.rl.spends.AtLeast(account, s)
	}
}

// restoreSpend makes the accounts of a log that took the place of another no less than they were.
func (b *rebuild) restoreSpend() {
	wall := b.rl.clock.UnixNano(b.instant)
	for _, account := range slices.Sorted(maps.Keys(b.s.lost.spends)) {
		was := b.s.lost.spends[account]
		var is state.Spend
		if s := b.rl.spends[account]; s != nil {
			is = *s
		}
		change := is.AtLeast(*was).Less(is)
		if was.IsOver(wall) || change.Day.Spent == 0 && change.Month.Spent == 0 {
			continue
		}
		b.rl.spends.Add(account, change)
		b.emit(&sharedlog.Event{Kind: sharedlog.Spend, Model: account, At: b.instant, Text: state.SpendText(change)})
	}
}

// ending is how a reservation ends.
type ending struct {
	end  EventKind
	used tokens.Count
}

// auditLocked adds up the reservations that a plan has made and ended, once it was carried out.
func (p *plan) auditLocked() {
	for _, made := range p.made {
		for part := made; part != nil; part = part.pool {
			part.auditReservedLocked()
		}
	}
	for i, r := range p.settled {
		r.auditEndedLocked(p.ends[i].end, p.ends[i].used)
	}
}

// spentApart is amounts that count as spent without having been.
type spentApart struct{ Day, Month money.Amount }

// shareSpend counts the shares of the others in what was left to spend as spent.
func (r *view) shareSpend(d *division, name string, q *ModelQuota) {
	before := d.spent[name]
	apart := func(limit money.Amount, was, is *state.SpendPeriod) money.Amount {
		left := limit
		if is != nil && was.Begin < is.End && is.Begin < was.End {
			left = max(limit.Sub(was.Spent), 0)
		}
		return left - left/money.Amount(d.sharers)
	}
	var day, month *state.SpendPeriod
	if r.spent != nil {
		day, month = &r.spent.Day, &r.spent.Month
	}
	r.apart.Day = apart(q.MaxSpendPerDay, &before.Day, day)
	r.apart.Month = apart(q.MaxSpendPerMonth, &before.Month, month)
}
