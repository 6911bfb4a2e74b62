package ratelimit

import (
	"unsafe"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/catalog"
	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/tally"
)

// Quotas and State belong to the program, and the engine has the same. This file is the door
// between them: each method asks here whether the program has put something else there by hand.

// seen is the maps of the program as the engine knows them.
type seen struct {
	quotas map[string]ModelQuota
	named  int // the length of quotas
	state  map[string]*UsageStats
}

// knows reports whether the engine knows what quotas say of a counted name.
func (s *seen) knows(quotas map[string]ModelQuota, counted string, a *account.Account) bool {
	if q, own := quotas[counted]; own {
		return (a.Name != "" || a.Listed) && a.Quota.Is((*state.Quota)(&q))
	}
	return s.same(quotas)
}

// same reports whether quotas are the map that was seen last, with as many entries.
func (s *seen) same(quotas map[string]ModelQuota) bool {
	return len(quotas) == s.named && sameMap(quotas, s.quotas)
}

// local is what this process notes beside an account.
type local struct {
	home  *driver // of the limiter
	marks account.Marks
	noted tally.Noted // of what Audit adds up

	provider   Provider // of the model, as of
	providedAt int      // this change of what tells it: see teller.providerLocked

	report              state.ReportedLimits // the last that was sent
	reports, reportedAt int64                // sent of late, in nanoseconds of their pace, at an instant: see shared.observeLocked
}

// entryOf shows the usage of an account as an entry of State, and shownBy is the reverse: the types
// have the same layout, which TestLayout makes sure of.
func entryOf(u *account.Usage) *UsageStats { return (*UsageStats)(unsafe.Pointer(u)) }

func shownBy(s *UsageStats) *account.Usage { return (*account.Usage)(unsafe.Pointer(s)) }

// sameMap reports whether two maps are one: the value of a map is a pointer.
func sameMap[K comparable, V any](a, b map[K]V) bool {
	return *(*unsafe.Pointer)(unsafe.Pointer(&a)) == *(*unsafe.Pointer)(unsafe.Pointer(&b))
}

// lookRLocked returns the present moment, and puts into t what the name of a model stands for; ok
// is false where enterLocked has to be called, because something has to be brought in order first.
func (rl *RateLimiter) lookRLocked(model string, t *engine.Target) (now account.Now, ok bool) {
	if rl.shared != nil {
		ok = rl.engine.FindIn(t, rl.nameRLocked(model), model)
		return rl.shared.now(), ok && rl.shared.shutRLocked() == nil
	}
	if now, ok = rl.nowRLocked(); !ok {
		return now, false
	}
	counted := rl.nameRLocked(model)
	if a := rl.shownRLocked(counted); a != nil {
		t.Account, t.Counted, t.Asked = a, a.Name, model
		return now, rl.engine.FindPools(t)
	}
	if _, exists := rl.State[counted]; exists {
		return now, false
	}
	if ok = rl.engine.FindIn(t, counted, model); !ok || t.Account.IsShown() {
		return now, false
	}
	return now, rl.seen.knows(rl.Quotas, counted, t.Account)
}

// shownRLocked returns the account of a counted name that State shows, if the engine knows what the
// program says of it; else nil.
func (rl *RateLimiter) shownRLocked(counted string) *account.Account {
	stats := rl.State[counted]
	if stats == nil {
		return nil
	}
	a := stats.account
	if a == nil || entryOf(a.Usage()) != stats || !a.Mirrors() {
		return nil
	}
	if is, _ := a.Local.(*local); is == nil || is.home != &rl.driver {
		return nil
	}
	// One look at the map is enough where the quota limits something: one that is not there does
	// not.
	if q := rl.Quotas[counted]; a.Listed && !a.Has(account.Unlimited) && a.Quota.Is((*state.Quota)(&q)) || rl.seen.knows(rl.Quotas, counted, a) {
		return a
	}
	return nil
}

// nameRLocked returns the name under which a model is counted.
func (rl *RateLimiter) nameRLocked(model string) string {
	if rl.naming.Aliases != nil || rl.naming.MatchVersions || state.IsMarked(model) {
		return countedAs(&rl.naming, rl.engine, model)
	}
	return model
}

func countedAs(n *catalog.Names, e *engine.Engine, model string) string {
	if n.Aliases != nil || n.MatchVersions {
		model = n.Counted(model, e.Catalog.IsListed)
	}
	return state.ModelName(model)
}

// enterLocked is lookRLocked for a method that may change something: it brings in order what the
// program has changed by hand.
func (rl *RateLimiter) enterLocked(model string) (now account.Now, t engine.Target) {
	now = rl.enterForLocked(model, &t)
	return now, t
}

// enterForLocked is enterLocked, which puts what it finds into t.
func (rl *RateLimiter) enterForLocked(model string, t *engine.Target) account.Now {
	now, ok := rl.lookRLocked(model, t)
	if !ok {
		now = rl.nowLocked()
		counted := rl.adoptLocked(model, now)
		*t = rl.engine.Resolve(counted, model)
	}
	return now
}

// adoptLocked has the engine know what the program says of a model, and returns the name under
// which that is counted.
func (rl *RateLimiter) adoptLocked(model string, now account.Now) (counted string) {
	counted = rl.adoptQuotaLocked(model, now)
	if rl.shared == nil {
		rl.adoptStatsLocked(counted, now)
	}
	return counted
}

// adoptQuotaLocked is adoptLocked for the quota alone.
func (rl *RateLimiter) adoptQuotaLocked(model string, now account.Now) (counted string) {
	if rl.shared != nil {
		return rl.nameRLocked(model)
	}
	rl.adoptQuotasLocked(now)
	counted = rl.nameRLocked(model)
	if q, own := rl.Quotas[counted]; own {
		rl.noticeLocked(counted, q, now)
	}
	return counted
}

// adoptQuotasLocked has the engine know all quotas where there is another map, or another number of
// them.
func (rl *RateLimiter) adoptQuotasLocked(now account.Now) {
	if rl.shared != nil || rl.seen.same(rl.Quotas) {
		return
	}
	for _, name := range rl.engine.Catalog.Names() {
		if _, has := rl.Quotas[name]; !has {
			rl.adoptSayingLocked(name, ModelQuota{}, false, now)
		}
	}
	for name, q := range rl.Quotas {
		rl.noticeLocked(name, q, now)
	}
	rl.seen.quotas, rl.seen.named = rl.Quotas, len(rl.Quotas)
}

// noticeLocked has the engine know a quota that the program put into Quotas.
func (rl *RateLimiter) noticeLocked(name string, q ModelQuota, now account.Now) {
	if is, has := rl.engine.Catalog.Quota(name); !has || is != state.Quota(q) {
		rl.adoptSayingLocked(name, q, true, now)
	}
}

// adoptSayingLocked has the engine know what the program says of a name by the map Quotas.
func (rl *RateLimiter) adoptSayingLocked(name string, q ModelQuota, has bool, now account.Now) {
	rl.sayer = byProgram
	rl.engine.Say(engine.Hand, func(c *catalog.Catalog) []catalog.Change { return c.Notice(name, state.Quota(q), has) }, now)
	rl.saidLocked(now)
}

// adoptStatsLocked has the engine know the entry of State of a counted name.
func (rl *RateLimiter) adoptStatsLocked(counted string, now account.Now) {
	stats, exists := rl.State[counted]
	a := rl.engine.Account(counted)
	switch {
	case stats == nil:
		if exists {
			delete(rl.State, counted)
		}
		if a != nil && a.IsShown() {
			rl.engine.Hide(counted, now)
		}
	case a != nil && shownBy(stats) == a.Usage():
		if !a.Mirrors() {
			rl.adoptEntryLocked(counted, stats, nil, func(*account.Charge) bool { return true }, now)
		}
	default:
		rl.adoptEntryLocked(counted, stats, nil, func(*account.Charge) bool { return false }, now)
	}
}

// adoptChargedLocked has the engine know what the program has changed by hand of what a call has
// charged.
func (rl *RateLimiter) adoptChargedLocked(c *account.Call, now account.Now) {
	for i := range c.Charges {
		if a := c.Charges[i].Account(); a != nil && a.IsShown() && !a.Mirrors() {
			rl.adoptStatsLocked(a.Name, now)
		}
	}
}

// adoptEntryLocked has the engine count what an entry of State shows, or the usage of a pool. p is
// its entries, if they were put in order before.
func (rl *RateLimiter) adoptEntryLocked(counted string, stats *UsageStats, p *account.Prepared, keeps func(*account.Charge) bool, now account.Now) *account.Account {
	_, q, _ := rl.engine.Catalog.Cover(counted)
	day := state.DayFrom(stats.DayStart, q.DayZone)
	if p != nil {
		rl.engine.AdoptPrepared(counted, shownBy(stats), p, day, keeps, now)
	} else {
		rl.engine.Adopt(counted, shownBy(stats), day, keeps, now)
	}
	a := rl.engine.Account(counted)
	rl.localLocked(a)
	return a
}
