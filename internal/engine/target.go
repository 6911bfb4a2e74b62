package engine

import (
	"hash/fnv"
	"strings"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// Target is what the name of a model stands for.
type Target struct {
	Account *account.Account // shared by all models of a quota where this one has nothing yet
	Counted string           // the name under which the model is counted
	Asked   string           // the name by which the caller asked for it
	Pools   []*account.Account
}

// blanks are accounts without charges, which stand for all models of a quota that have none of
// their own: names that are only asked for take no memory. The key is the name of the quota.
type blanks struct {
	version int // of the catalog
	of      map[string]*account.Account
}

// Find returns what a name stands for, and changes nothing. ok is false where Resolve has to be
// called once.
func (e *Engine) Find(counted, asked string) (t Target, ok bool) {
	ok = e.FindIn(&t, counted, asked)
	return t, ok
}

// FindIn is Find, which puts what it finds into t.
func (e *Engine) FindIn(t *Target, counted, asked string) (ok bool) {
	t.Account, t.Counted, t.Asked = e.accounts[counted], counted, asked
	if t.Account == nil {
		cover := e.cover(counted)
		if e.blanks.version != e.Catalog.Version() || e.blanks.of[cover] == nil {
			return false
		}
		t.Account = e.blanks.of[cover]
	}
	return e.FindPools(t)
}

// FindPools fills in the pools of a target that is known but for them. It is false where Resolve
// has to be called once.
func (e *Engine) FindPools(t *Target) (ok bool) {
	if t.Pools = nil; !e.Catalog.HasPools() {
		return true
	}
	return e.findPools(t)
}

// findPools fills in the pools. It reports false where they have to be looked up first.
func (e *Engine) findPools(t *Target) (ok bool) {
	if a := t.Account; a.Name == t.Counted && t.Counted == t.Asked {
		t.Pools = a.Pools
		return a.PoolsAt == e.Catalog.Version()
	}
	t.Pools = e.poolsOf(t.Counted, t.Asked)
	return true
}

// Resolve is Find, and remembers what it found.
func (e *Engine) Resolve(counted, asked string) Target {
	t, ok := e.Find(counted, asked)
	if ok {
		return t
	}
	if t.Account == nil {
		t.Account = e.blank(counted)
	}
	if t.Pools = e.poolsOf(counted, asked); t.Account.Name == counted && counted == asked {
		t.Account.Pools, t.Account.PoolsAt = t.Pools, e.Catalog.Version()
	}
	return t
}

// cover returns the name of the quota that covers a model; "" where there is none.
func (e *Engine) cover(counted string) string {
	cover, _, known := e.Catalog.Cover(counted)
	if !known {
		return ""
	}
	return cover
}

func (e *Engine) poolsOf(counted, asked string) (pools []*account.Account) {
	for _, name := range e.Catalog.Pools(counted, asked) {
		pools = append(pools, e.accounts[name])
	}
	return pools
}

// blank returns the account that stands for a model which has none.
func (e *Engine) blank(counted string) *account.Account {
	if b := &e.blanks; b.version != e.Catalog.Version() || b.of == nil {
		b.version, b.of = e.Catalog.Version(), make(map[string]*account.Account)
	}
	a := account.New("")
	e.quote(a, counted)
	e.blanks.of[e.cover(counted)] = a
	return a
}

// need returns the account of a counted name, made where there is none.
func (e *Engine) need(counted string) *account.Account {
	a := e.accounts[counted]
	if a == nil {
		a = account.New(strings.Clone(counted)) // it may be a part of a longer string, which must not stay for it
		e.accounts[a.Name] = a
		a.Seed = mix(e.seed, a.Name)
		e.requote(a)
	}
	return a
}

// own has a target stand for the account of its model alone, made where there is none.
func (e *Engine) own(t *Target) *account.Account {
	if t.Account.Name == "" {
		t.Account = e.need(t.Counted)
	}
	return t.Account
}

// requote has an account follow the quota that covers it.
func (e *Engine) requote(a *account.Account) { e.quote(a, a.Name) }

// quote has an account follow the quota that covers a name.
func (e *Engine) quote(a *account.Account, counted string) {
	_, q, known := e.Catalog.Cover(counted)
	a.SetQuota(q, known, e.zone(q.DayZone), e.last, e.span)
	a.Bind(e.zoneOfSpend(q.DayZone), e.last)
	a.Listed = e.Catalog.IsListed(counted)
	e.share(a, counted)
}

// share links the money of a model without a quota of its own to the spend that all such models
// share. The link counts only while the model has no present spend of its own.
func (e *Engine) share(a *account.Account, counted string) {
	if a.Spend == nil {
		return
	}
	if a.Spend.Shared = e.other.Spend; a.Listed {
		a.Spend.Shared = nil
	}
}

// drop forgets an account of which nothing is left that anybody could ask for. One that is there
// for a cooldown or the like alone keeps no room for classes that have asked.
func (e *Engine) drop(a *account.Account, now account.Now) {
	if a.IsShown() || a.InFlight > 0 || a.Waiting > 0 || e.isListed(a.Name) {
		return
	}
	a.ForgetAsks(account.Never)
	if cooling.has(a, now) || reported.has(a, now) || spending.has(a, now) || searching.has(a, now) && e.hasRoom(searching, now) {
		return
	}
	a.Gone = true
	delete(e.accounts, a.Name)
}

// isListed reports whether a name has a quota of its own, or is that of a pool which is there.
func (e *Engine) isListed(name string) bool {
	if state.IsPool(name) {
		return e.Catalog.IsPool(name)
	}
	return e.Catalog.IsListed(name)
}

// hide forgets the usage of an account.
func (e *Engine) hide(a *account.Account, evicted bool) {
	if !a.IsShown() {
		return
	}
	e.places.remove(a)
	a.Refresh(e.last, e.span) // a day that is over has ended, whatever is forgotten
	a.Forget(e.last)
	e.observer.Hidden(a, evicted)
}

// Account returns the account of a counted name; nil where there is none.
func (e *Engine) Account(counted string) *account.Account { return e.accounts[counted] }

// mix returns the seed of a name, not 0: splitmix64. It depends on nothing else that an engine has
// done.
func mix(seed uint64, name string) uint64 {
	n := fnv.New64a()
	n.Write([]byte(name))
	z := seed + n.Sum64()*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return max(z^z>>31, 1)
}
