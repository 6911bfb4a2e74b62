package engine

import (
	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/catalog"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// A file is loaded in steps, so that its owner can let others in between: LoadPools, Change with
// its quotas, Unload for each account, and then AdoptPrepared and the other methods of this file
// for what the file has. Serve follows.

// LoadPools takes over the members of the pools of a file. Change follows, for their quotas and for
// those that wait.
func (e *Engine) LoadPools(pools map[string][]string, now account.Now) {
	e.begin(now, 0)
	e.Catalog.LoadPools(pools)
	for _, name := range e.Catalog.PoolNames() {
		e.need(name)
	}
}

// Change is Say, and serves nobody.
func (e *Engine) Change(say func(*catalog.Catalog) []catalog.Change, now account.Now) {
	e.change(Provider, say, now)
}

// Unload forgets what no file replaces of an account: the reports of its provider and, where the
// file has no usage of it, its usage.
func (e *Engine) Unload(a *account.Account, hasUsage bool, now account.Now) {
	a.Report(nil)
	var month account.Month
	if a.Month != nil {
		month = *a.Month
	}
	if !hasUsage {
		e.hide(a, false)
	}
	if a.Month != nil { // LoadSpendOver compares it with the file
		*a.Month = month
	}
	e.drop(a, now)
}

// LoadCooldown has an account cool as a file says, unless it does for longer.
func (e *Engine) LoadCooldown(counted string, until int64, cause string, now account.Now) {
	if a := e.accounts[counted]; until > now.Wall && (a == nil || until > a.CoolUntil) {
		e.need(counted).Cool(until, cause)
	}
}

// LoadFound has the search for limits go on where a file left it, unless it has gone on later. A
// name whose quota does not search has nothing to do with it.
func (e *Engine) LoadFound(counted string, known state.Found, now account.Now) {
	if _, q, _ := e.Catalog.Cover(counted); !q.Adapts() {
		return
	}
	a := e.need(counted)
	if is, ok := a.Found.Stored(now); !ok || is.At < known.At {
		a.AdoptFound(known, now)
	}
}

// LoadSpend makes the spend of a name that of a file, and adds what was spent since that was
// written.
func (e *Engine) LoadSpend(counted string, is, since state.Spend, now account.Now) {
	a := e.Spender(counted)
	if a == nil {
		a = e.need(counted)
	}
	a.LoadSpent(is, since, e.zoneOfSpend(a.Quota.DayZone), now)
}

// LoadSpendOver is LoadSpend for a name that may have spent more than was written, by account, when
// the file and the engine last had the same.
func (e *Engine) LoadSpendOver(written map[string]state.Spend, counted string, is state.Spend, now account.Now) {
	var spends state.Spend
	if a := e.Spender(counted); a != nil {
		spends = a.Spent(now)
	}
	spent := make(map[string]state.Spend)
	if !spends.IsOver(now.Wall) {
		spent[counted] = spends
	}
	if !catalog.IsName(counted) || is.IsOver(now.Wall) {
		is = state.Spend{}
	}
	if is != (state.Spend{}) || spends != (state.Spend{}) {
		e.LoadSpend(counted, is, state.SpendSince(spent, written)[counted], now)
	}
}

// Spender is Account, and knows also the one whose spend is that of the models for which there is
// no room: it has the name state.OtherAccount, and is not among Accounts.
func (e *Engine) Spender(name string) *account.Account {
	if name == state.OtherAccount {
		return e.other
	}
	return e.accounts[name]
}
