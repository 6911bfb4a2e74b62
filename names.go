package ratelimit

import (
	"maps"
	"sync/atomic"

	"dappco.re/go/core/go-ratelimit/internal/fairline"
	"dappco.re/go/core/go-ratelimit/internal/modelname"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// everyModel is the name of the quota for models that have none of their own.
const everyModel = modelname.Every

// coverRLocked looks up the quota of the models that are counted under a name: their own, that of
// the longest pattern, or "*".
func (rl *RateLimiter) coverRLocked(name string, q *ModelQuota) (known bool) {
	if *q, known = rl.quotaRLocked(name); !known && !state.IsPool(name) {
		*q, known = rl.Quotas[rl.sharedCoverRLocked(name)]
	}
	return known
}

// quotaNameRLocked returns the name of the quota that coverRLocked finds. There may be none of that
// name.
func (rl *RateLimiter) quotaNameRLocked(name string) string {
	if _, own := rl.Quotas[name]; own || state.IsPool(name) {
		return name
	}
	return rl.sharedCoverRLocked(name)
}

// sharedCoverRLocked returns the name of the quota for a model that has none of its own. There may
// be none of that name, either.
func (rl *RateLimiter) sharedCoverRLocked(name string) string {
	if x := rl.patterns.indexRLocked(rl); x != nil {
		if pattern, ok := x.Longest(name); ok {
			return pattern
		}
	}
	return everyModel
}

// zoneRLocked returns the zone of the day of the models that are counted under a name.
func (rl *RateLimiter) zoneRLocked(name string) string {
	var q ModelQuota
	rl.coverRLocked(name, &q)
	return q.DayZone
}

// patterns caches the patterns among the names of the quotas. A reader that finds them out of date
// works them out again; several readers may do so at once. The zero value is an empty cache.
type patterns struct{ last atomic.Pointer[patternsOf] }

// patternsOf is the patterns of Quotas, and how to see that Quotas has changed since.
type patternsOf struct {
	quotas  map[string]ModelQuota
	len     int
	version int // RateLimiter.quotaVersion
	index   *modelname.Index
}

// indexRLocked returns the patterns among the names of the limiter's present quotas.
func (p *patterns) indexRLocked(rl *RateLimiter) *modelname.Index {
	last := p.last.Load()
	if last == nil || last.len != len(rl.Quotas) || last.version != rl.quotaVersion || !sameMap(last.quotas, rl.Quotas) {
		last = &patternsOf{rl.Quotas, len(rl.Quotas), rl.quotaVersion, modelname.NewIndex(maps.Keys(rl.Quotas))}
		p.last.Store(last)
	}
	return last.index
}

// findRLocked resolves the name that a caller uses for a model: to the name under which it
// is counted, and its quota.
func (rl *RateLimiter) findRLocked(model string, q *ModelQuota) (name string, known bool) {
	if *q, known = rl.Quotas[model]; known && rl.naming.Aliases == nil {
		return model, true
	}
	return rl.resolveRLocked(model, q)
}

func (rl *RateLimiter) resolveRLocked(model string, q *ModelQuota) (name string, known bool) {
	name = rl.nameRLocked(model)
	return name, rl.coverRLocked(name, q)
}

// nameRLocked returns the name under which a model is counted.
func (rl *RateLimiter) nameRLocked(model string) string {
	return state.ModelName(rl.naming.Counted(model, rl.isListedRLocked))
}

// renamedRLocked is nameRLocked for what was counted under a name.
func (rl *RateLimiter) renamedRLocked(name string) string {
	if state.IsPool(name) {
		return name
	}
	return rl.nameRLocked(name)
}

// QuotaFor returns the quota by which this limiter limits model, and its name in Quotas; ok is
// false where there is none. It looks for the exact name first; then, with Config.MatchVersions,
// for the longest name that model extends: by ":" or "@" and any text, or by "-" and a date or
// version (YYYY-MM-DD, YYYYMMDD, MMDD, three digits, "latest", "v" and a number), also after
// removing "models/", "publishers/…/models/" and one leading "provider/"; then for the longest
// pattern that covers model, in which "*" stands for any run of bytes; then for the quota named
// "*". Config.Aliases apply before. The methods of the limiter resolve names in the same way.
//
// A quota that is all zero is returned as well, although it limits nothing. Limits of a pool are
// not looked at. QuotaFor is safe for concurrent use.
func (rl *RateLimiter) QuotaFor(model string) (name string, quota ModelQuota, ok bool) {
	rl.ledger.fresh()
	rl.mu.RLock()
	defer rl.mu.RUnlock()
	name = rl.quotaNameRLocked(rl.nameRLocked(model))
	if quota, ok = rl.Quotas[name]; ok {
		return name, quota, true
	}
	return "", ModelQuota{}, false
}

// CountedAs returns the name under which the usage of model is counted: model itself, or what it
// stands for by Config.Aliases and Config.MatchVersions. It is safe for concurrent use.
func (rl *RateLimiter) CountedAs(model string) string {
	rl.ledger.fresh()
	rl.mu.RLock()
	defer rl.mu.RUnlock()
	return rl.nameRLocked(model)
}

// followQuotasLocked applies a change of quotas: models may be counted under other names now, and
// their days may end at other times. It serves no waiter.
func (rl *RateLimiter) followQuotasLocked() {
	rl.quotaVersion++
	if rl.naming.MatchVersions {
		rl.renameLocked()
	}
	if rl.naming.MatchVersions || rl.pools.all != nil {
		rl.requeueLocked()
	}
}

// requoteLocked follows a change of quotas, and serves all lines. A waiter that no longer fits is
// refused at any place in its line.
func (rl *RateLimiter) requoteLocked() {
	rl.followQuotasLocked()
	if rl.ledger.reviewLaterLocked() {
		return
	}
	l := rl.linesLocked()
	for g := range l.occupied {
		g.headroom.Forget()
	}
	for _, w := range l.waitersLocked() {
		if w.process != 0 {
			continue
		}
		if b := rl.decideBatchLocked(w.requests); !l.refuseLocked(w, b) {
			l.boundLocked(w, b)
		}
	}
	l.serveAllLocked()
}

// renameLocked moves cooldowns and external usage to the names under which their models are counted
// now.
func (rl *RateLimiter) renameLocked() {
	rl.cooldowns.Rename(rl.renamedRLocked)
	rl.teller.renameLocked()
	rl.external.Rename(rl.renamedRLocked)
}

// requeueLocked puts all waiters into the lines of the names under which their models are counted
// now, and of their pools, in the order of their arrival. Flows keep their turns.
func (rl *RateLimiter) requeueLocked() {
	l := rl.linesLocked()
	waiters := l.waitersLocked()
	states := l.statesLocked()
	circles := make(map[string]fairline.Circle)
	for g := range l.occupied {
		circles[g.name] = g.line.Circle()
	}
	for _, w := range waiters {
		l.leaveLinesLocked(w)
	}
	for _, w := range waiters {
		l.queueLocked(w, l.rl.costsRLocked(w.requests))
	}
	for name, s := range states {
		l.setStateLocked(name, s)
	}
	for g := range l.occupied {
		g.line.SetCircle(circles[g.name])
	}
}
