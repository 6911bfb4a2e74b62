package engine

import (
	"cmp"
	"slices"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/verdict"
	"dappco.re/go/core/go-ratelimit/money"
)

// By is who asks, and the settings of its process. They travel with each call, because the
// processes that share a quota may differ in them.
type By struct {
	ID       account.ID
	Class    string
	Flow     string
	Span     int64 // how long a charge of the minute counts: a minute and Config.Margin
	HoldTTL  int64 // after which a reservation that is not settled expires; 0 for never
	MaxQueue int   // how many may wait for one model; 0 for no bound
}

// Request is what is asked of one model.
type Request struct {
	Target
	Tokens  state.Count  // of the estimate; a negative one is denied
	Most    money.Amount // that the call can cost
	Priced  bool         // that is known
	Deny    bool         // it is denied where no quota stands for the model, and no pool names it
	Nearest string       // the end of the reason then
}

// Passes reports whether requests of one model certainly pass together; if not, Judge can say. It
// changes nothing.
func (e *Engine) Passes(t *Target, c *state.Cost, span int64, now account.Now) bool {
	a, cut := t.Account, now.Instant-span
	if len(e.withheld) > 0 || a.Waiting > 0 || c.Input < 0 || c.Output < 0 || !a.Listed && e.places.areFullFor(a) {
		return false
	}
	passes, _ := verdict.Admits(a, c, cut, now)
	for i := 0; passes && i < len(t.Pools); i++ {
		pool := t.Pools[i]
		if passes, _ = verdict.Admits(pool, c, cut, now); pool.Waiting > 0 {
			return false
		}
	}
	return passes
}

// Denies reports whether requests of one model certainly do not pass, and says in v why, as Judge
// does; if not, Judge can say. It changes nothing.
func (e *Engine) Denies(v *verdict.Verdict, t *Target, c *state.Cost, span int64, now account.Now) bool {
	a := t.Account
	if len(e.withheld)|len(t.Pools)|a.Waiting != 0 || c.Input < 0 || c.Output < 0 || !a.Listed && e.places.areFullFor(a) {
		return false
	}
	return v.Deny(a, c, span, now)
}

// Judge decides on requests that are to pass together, and behind those that wait. It changes
// nothing. items is room for what is asked of each account, and returned filled; but a single
// request that passes leaves it empty, which saves most of the time.
func (e *Engine) Judge(items []verdict.Item, by *By, reqs []Request, now account.Now) ([]verdict.Item, verdict.Verdict) {
	if len(reqs) == 1 {
		c := state.Cost{Requests: 1, Count: reqs[0].Tokens}
		if e.Passes(&reqs[0].Target, &c, by.Span, now) {
			return items[:0], verdict.Pass(reqs[0].Account)
		}
	}
	var v verdict.Verdict
	items = e.Explain(&v, items, by, reqs, now)
	return items, v
}

// Explain is Judge by a look at each limit, also for a single request that passes. It puts what
// comes of that into v.
func (e *Engine) Explain(v *verdict.Verdict, items []verdict.Item, by *By, reqs []Request, now account.Now) []verdict.Item {
	items = e.itemize(items[:0], by, reqs, now)
	*v = verdict.Judge(items, e.held(), now)
	e.bound(items, reqs, v)
	e.queue(items, by.Class, v)
	return items
}

// queue denies what would go before those that wait.
func (e *Engine) queue(items []verdict.Item, class string, v *verdict.Verdict) {
	if e.lines.Waiting() == 0 {
		return
	}
	for i := range items {
		if a := items[i].Account; a.Waiting > 0 && e.lines.Queues(a, class) {
			v.Queue(items, i)
			return
		}
	}
}

// itemize adds up what requests ask of each account: of their models, and of the pools of these.
func (e *Engine) itemize(items []verdict.Item, by *By, reqs []Request, now account.Now) []verdict.Item {
	for i := range reqs {
		items = e.add(items, 0, reqs[i].Account, reqs, i, by)
	}
	models := len(items)
	for i := range reqs {
		for _, pool := range reqs[i].Pools {
			was := len(items)
			if items = e.add(items, models, pool, reqs, i, by); len(items) > was {
				items[was].Member = find(items[:models], 0, reqs[i].Account, reqs, i)
			}
		}
	}
	if pools := items[models:]; len(reqs) > 1 && len(pools) > 1 {
		slices.SortStableFunc(pools, func(a, b verdict.Item) int { return cmp.Compare(a.Account.Name, b.Account.Name) })
	}
	e.findPlaces(items[:models], reqs, now)
	return items
}

// find returns the index, from from on, of the item of account a that request i adds to;
// len(items) if there is none. Models without an account of their own share a blank one, so find
// tells them apart by their counted names.
func find(items []verdict.Item, from int, a *account.Account, reqs []Request, i int) int {
	at := from
	for at < len(items) && (items[at].Account != a || a.Name == "" && reqs[items[at].Request].Counted != reqs[i].Counted) {
		at++
	}
	return at
}

// add counts a request to the item of an account, which may be among the items from a place on.
func (e *Engine) add(items []verdict.Item, from int, a *account.Account, reqs []Request, i int, by *By) []verdict.Item {
	r, at := &reqs[i], find(items, from, a, reqs, i)
	if at == len(items) {
		items = append(items, verdict.Item{})
		is := &items[at] // filled in there: copying so much takes longer
		is.Account, is.Asked, is.Request, is.Nearest = a, r.Asked, i, r.Nearest
		is.Deny = r.Deny && a.Has(account.Unknown) && !e.Catalog.NamesModel(r.Counted, r.Asked)
		is.Ask.Class, is.Ask.Span, is.Ask.Patience, is.Ask.Priced = by.Class, by.Span, by.Span+1, true
	}
	ask := &items[at].Ask
	if ask.Requests++; min(r.Tokens.Input, r.Tokens.Output) < 0 {
		ask.Count = state.Count{Input: -1, Output: -1}
	} else if ask.Input >= 0 {
		ask.Count = ask.Plus(r.Tokens)
	}
	ask.Money, ask.Priced = ask.Money.Add(r.Most), ask.Priced && r.Priced
	return items
}

// findPlaces notes for which of the models there is no place.
func (e *Engine) findPlaces(items []verdict.Item, reqs []Request, now account.Now) {
	if e.places.len+len(items) <= e.places.most {
		return
	}
	var beside []*account.Account
	needed, back := 0, 0
	for i := range items {
		a := items[i].Account
		if beside = append(beside, a); e.isNewcomer(&items[i], reqs, now) {
			needed++
		}
		if a.IsShown() && e.needsPlace(a, now) {
			back++
		}
	}
	if needed == 0 {
		return
	}
	free := e.freePlaces(needed, back, beside, now)
	for i := range items {
		if !e.isNewcomer(&items[i], reqs, now) {
			continue
		}
		if free--; free < 0 {
			items[i].Full, items[i].PlaceIn = true, e.placeIn(beside, now)
		}
	}
}

// isNewcomer reports whether the model of an item is limited and needs a place.
func (e *Engine) isNewcomer(i *verdict.Item, reqs []Request, now account.Now) bool {
	if i.Account.Has(account.Unknown | account.Unlimited) {
		return false
	}
	return e.needsPlace(reqs[i.Request].Account, now)
}

// bound refuses more models than ever find a place together.
func (e *Engine) bound(items []verdict.Item, reqs []Request, v *verdict.Verdict) {
	if len(reqs) <= e.places.most || v.Never {
		return
	}
	most := e.places.most
	for i := range items {
		if a := items[i].Account; a.IsPool() || a.Has(account.Unknown|account.Unlimited) || e.Catalog.IsListed(reqs[items[i].Request].Counted) {
			continue
		}
		if most--; most < 0 {
			*v = verdict.Verdict{Never: true, Code: verdict.TooManyModels, Reason: verdict.TooManyNewModels, Item: i}
			return
		}
	}
}

// Admit charges requests that pass together, or none of them: their requests, their tokens, their
// money, their slots. The calls are in the order of the requests. A model without a quota that has
// no place is not counted; its pools are.
func (e *Engine) Admit(into []*account.Call, by *By, reqs []Request, now account.Now) ([]*account.Call, verdict.Verdict) {
	now = e.begin(now, by.Span)
	e.see(by.Class, reqs, now)
	var v verdict.Verdict
	e.items, v = e.Judge(e.items, by, reqs, now)
	if !v.Allowed {
		return into, v
	}
	into = e.charge(into, by, reqs, now)
	if e.lines.Waiting() > 0 {
		e.lines.Passed(e.items, by.Class) // one that needed no items is asked of accounts without a line
		e.lines.Serve(now)
	}
	return into, v
}

// AdmitOne is Admit for one request that certainly passes. It returns nil for any other: only Admit
// can say then.
func (e *Engine) AdmitOne(by *By, r *Request, now account.Now) *account.Call {
	now = e.begin(now, by.Span)
	reserves := e.HasReserve(by.Class)
	if reserves && r.Account.Listed {
		e.own(&r.Target)
	}
	if reserves || !r.Account.IsFresh(now, e.span) { // nearly each call is spared this
		e.seeOne(r.Account, by.Class, reserves, now)
	}
	for _, pool := range r.Pools {
		e.seeOne(pool, by.Class, reserves, now)
	}
	cost := state.Cost{Requests: 1, Count: r.Tokens}
	if !e.Passes(&r.Target, &cost, by.Span, now) {
		return nil
	}
	c := e.chargeOne(by, 0, r, now)
	if e.lines.Waiting() > 0 {
		e.lines.Serve(now)
	}
	return c
}

// Items returns what the last Admit asked of each account, as Judge does.
func (e *Engine) Items() []verdict.Item { return e.items }

// see notes that a class with a reserve asks, and brings the accounts in order.
func (e *Engine) see(class string, reqs []Request, now account.Now) {
	reserves := e.HasReserve(class)
	for i := range reqs {
		if reserves && reqs[i].Account.Listed {
			e.own(&reqs[i].Target)
		}
		e.seeOne(reqs[i].Account, class, reserves, now)
		for _, pool := range reqs[i].Pools {
			e.seeOne(pool, class, reserves, now)
		}
	}
}

func (e *Engine) seeOne(a *account.Account, class string, reserves bool, now account.Now) {
	a.Refresh(now, e.span)
	if reserves && e.keepsUse(a, now) {
		u := a.NeedUse(class)
		u.SeenAt = max(u.SeenAt, now.Instant, 1)
	}
}

// HasReserve reports whether room is kept for a class for as long as its calls ask.
func (e *Engine) HasReserve(class string) bool {
	for i := range e.reserves {
		if e.reserves[i].Class == class {
			return true
		}
	}
	return false
}

// charge charges requests that pass. Those go first whose models keep their places, so that none of
// these is idle when another one needs a place, and then those that are limited.
func (e *Engine) charge(into []*account.Call, by *By, reqs []Request, now account.Now) []*account.Call {
	from := len(into)
	into = slices.Grow(into, len(reqs))[:from+len(reqs)]
	clear(into[from:])
	for turn := range 3 {
		for i := range reqs {
			a := reqs[i].Account
			if into[from+i] == nil && (turn == 2 || turn == 1 && !a.Has(account.Unknown|account.Unlimited) || !e.needsPlace(a, now)) {
				into[from+i] = e.chargeOne(by, int32(i), &reqs[i], now)
			}
		}
	}
	return into
}

func (e *Engine) chargeOne(by *By, place int32, r *Request, now account.Now) *account.Call {
	c := e.newCall()
	c.ID = by.ID
	c.ID.Place = place
	c.Asked, c.Class = r.Asked, by.Class
	c.Tokens, c.Most, c.At = r.Tokens.Clamp(), r.Most, now
	if a := e.toCharge(&r.Target, now); a != nil {
		c.Model = a
		e.chargeTo(c, a, now)
	}
	for _, pool := range r.Pools {
		e.chargeTo(c, pool, now)
	}
	if !c.IsCounted() { // there is nothing to settle
		c.Ended = true
		return c
	}
	e.open.add(c)
	if by.HoldTTL > 0 {
		c.HoldUntil = now.Instant + by.HoldTTL
		e.holds.put(c)
	}
	return c
}

func (e *Engine) chargeTo(c *account.Call, a *account.Account, now account.Now) {
	var payer *account.Account
	if c.Most != 0 {
		payer = e.payer(a, c.Most, now)
	}
	if e.HasReserve(c.Class) { // the account may be new
		u := a.NeedUse(c.Class)
		u.SeenAt = max(u.SeenAt, now.Instant, 1)
	}
	wasShown := a.IsShown()
	c.ChargeTo(a, payer, now, e.span)
	e.lines.Mark(a) // it may have eased a limit, or keep somebody out who now waits for another one
	if !wasShown {
		e.observer.Shown(a)
	}
}

// toCharge returns the account of a model that is charged; nil where there is no place for one.
func (e *Engine) toCharge(t *Target, now account.Now) *account.Account {
	a := t.Account
	if a.Listed {
		return e.own(t)
	}
	if !a.IsShown() {
		a = cmp.Or(e.accounts[t.Counted], a)
	}
	if e.needsPlace(a, now) {
		e.places.remove(a) // it may have the place that it gives back
		if !e.makePlace(now) {
			e.hide(a, true)
			e.drop(a, now)
			return nil
		}
		a = e.need(t.Counted)
	}
	e.places.use(a)
	return a
}
