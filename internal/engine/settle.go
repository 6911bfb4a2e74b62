package engine

import (
	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/money"
)

// Settle ends a call: with what it used and cost where it was committed; otherwise these do not
// matter. The call must not be used after it.
func (e *Engine) Settle(c *account.Call, how account.How, used state.Count, cost money.Amount, now account.Now) {
	now = e.begin(now, 0)
	if c.Ended {
		return // by itself, just before
	}
	e.end(c, &account.Ending{How: how, Used: used, Cost: cost, Now: now, Span: e.span})
	e.release(c)
	if e.lines.Waiting() > 0 {
		e.lines.Serve(now)
	}
}

// EndsAnytime reports whether committing a call as of the last moment leads to the same state as
// committing it now, so that nobody is served by it and nothing becomes due. That holds if the call
// cost nothing and used no more than its estimate, nobody waits, nothing is due, and no limit of
// its accounts looks at the time.
func (e *Engine) EndsAnytime(c *account.Call, used state.Count, cost money.Amount) bool {
	if cost != 0 || used.Input > c.Tokens.Input || used.Output > c.Tokens.Output || len(e.holds)|e.lines.Waiting() != 0 {
		return false
	}
	for i := range c.Charges {
		if a := c.Charges[i].Account(); a == nil || !a.IsShown() || !a.IsPlain() {
			return false
		}
	}
	return true
}

// end ends a call, and has those served that wait for what it gives back.
func (e *Engine) end(c *account.Call, is *account.Ending) {
	if is.Cost != 0 { // also of a call that was made before there were prices
		e.findPayers(c, is)
	}
	if c.Model == nil || !c.Model.Listed {
		e.tidyPlaces(c, is.Now)
	}
	c.End(is)
	e.holds.remove(c)
	e.open.remove(c)
	for i := range c.Charges {
		a := c.Charges[i].Account()
		if a == nil {
			continue
		}
		e.lines.Mark(a)
		if !a.IsShown() {
			e.show(a, is.Now)
		}
		if a.InFlight == 0 && !a.IsShown() {
			e.drop(a, is.Now)
		}
	}
	e.lines.MarkNeedy()
}

// findPayers notes to whose spend the cost of a call counts.
func (e *Engine) findPayers(c *account.Call, is *account.Ending) {
	for i := range c.Charges {
		charge := &c.Charges[i]
		if a := charge.Account(); a != nil && charge.Payer == nil {
			charge.Payer = e.payer(a, is.Cost, is.Now)
		}
	}
}

// tidyPlaces has models of a call give back places of which nothing is to be kept: what the call
// charges them anew needs one.
func (e *Engine) tidyPlaces(c *account.Call, now account.Now) {
	for i := range c.Charges {
		if a := c.Charges[i].Account(); a != nil && !a.Listed && !a.IsPool() {
			e.hideEmpty(a, now)
		}
	}
}

// show makes the usage of an account visible again after a forgotten call was charged to it
// again, if there is a place for it.
func (e *Engine) show(a *account.Account, now account.Now) {
	if a.IsShown() || a.IsIdle(now, e.span) {
		return
	}
	if !e.isListed(a.Name) {
		if state.IsPool(a.Name) || !e.makePlace(now) {
			a.Forget(now)
			return
		}
		e.places.use(a)
	}
	a.Show()
	e.observer.Shown(a)
}

// Arrive has a call count as of the instant at which its provider counted it, and not before.
func (e *Engine) Arrive(c *account.Call, at int64, now account.Now) {
	now = e.begin(now, 0)
	if c.Ended {
		return
	}
	e.tidyPlaces(c, now)
	for i := range c.Charges {
		if a := c.Charges[i].Account(); a != nil {
			a.Refresh(now, e.span)
		}
	}
	if !c.Arrive(min(at, now.Instant), now, e.span) {
		return
	}
	for i := range c.Charges {
		if a := c.Charges[i].Account(); a != nil {
			e.show(a, now)
			e.lines.Mark(a)
		}
	}
	if e.lines.Waiting() > 0 {
		e.lines.Serve(now)
	}
}

// Record charges a request that was sent without a reservation, and what it has cost. It returns
// the account of the model; nil if there was no place for one, so that only its pools were charged.
func (e *Engine) Record(t *Target, span int64, used state.Count, cost money.Amount, now account.Now) *account.Account {
	now = e.begin(now, span)
	a := e.toCharge(t, now)
	if a != nil {
		e.record(a, used, cost, now)
	} else if cost != 0 {
		e.other.Spend.Settle(now.Wall)
		e.other.Spend.Charge(account.Bill{Most: cost}, now)
	}
	for _, pool := range t.Pools {
		e.record(pool, used, cost, now)
	}
	if e.lines.Waiting() > 0 {
		e.lines.Serve(now)
	}
	return a
}

func (e *Engine) record(a *account.Account, used state.Count, cost money.Amount, now account.Now) {
	if !a.IsFresh(now, e.span) {
		a.Refresh(now, e.span)
	}
	var payer *account.Account
	if cost != 0 {
		payer = e.payer(a, cost, now)
	}
	wasShown := a.IsShown()
	a.Record(payer, used, cost, now, e.span)
	e.lines.Mark(a)
	if !wasShown {
		e.observer.Shown(a)
	}
}

// payer returns the account to whose spend the money of a call counts; nil if amount is zero.
// That is a itself, with one exception: a model without a quota of its own and without present
// spend pays into e.other, if e.other still counts any spend or there is no room for another one.
func (e *Engine) payer(a *account.Account, amount money.Amount, now account.Now) *account.Account {
	switch {
	case amount == 0:
		return nil
	case !a.Spend.IsOver(now.Wall), e.Catalog.IsListed(a.Name):
	case !e.other.Spend.IsOver(now.Wall) || !e.hasRoom(spending, now):
		a = e.other
	}
	s := a.NeedSpend(e.zoneOfSpend(a.Quota.DayZone))
	s.Settle(now.Wall)
	return a
}
