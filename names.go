package ratelimit

import "dappco.re/go/core/go-ratelimit/internal/modelname"

// everyModel is the name of the quota for models that have none of their own.
const everyModel = modelname.Every

// coverOf looks up the quota of the models that are counted under a name.
func coverOf(name string, quotas map[string]ModelQuota, q *ModelQuota) (known bool) {
	if *q, known = quotas[name]; !known {
		*q, known = quotas[everyModel]
	}
	return known
}

// zoneOf returns the zone of the day of the models that are counted under a name.
func zoneOf(name string, quotas map[string]ModelQuota) string {
	var q ModelQuota
	coverOf(name, quotas, &q)
	return q.DayZone
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
	return name, coverOf(name, rl.Quotas, q)
}

// nameRLocked returns the name under which a model is counted.
func (rl *RateLimiter) nameRLocked(model string) string {
	return rl.naming.Counted(model, rl.isListedRLocked)
}

// QuotaFor returns the quota that covers model, and its name in Quotas. It looks for the exact
// name first; then for the longest name that model extends: by ":" or "@" and any text, or by "-"
// and a date or version (YYYY-MM-DD, YYYYMMDD, MMDD, three digits, "latest", "v" and a number),
// also after removing "models/", "publishers/…/models/" and one leading "provider/"; then for the
// quota named "*". Config.Aliases apply before.
//
// With Config.MatchVersions the methods of the limiter resolve names like this; without it they
// take an alias, the exact name, or "*". QuotaFor is safe for concurrent use.
func (rl *RateLimiter) QuotaFor(model string) (name string, quota ModelQuota, ok bool) {
	rl.ledger.fresh()
	rl.mu.RLock()
	defer rl.mu.RUnlock()
	name, _ = rl.naming.Match(model, rl.isListedRLocked)
	if quota, ok = rl.Quotas[name]; ok {
		return name, quota, true
	}
	if quota, ok = rl.Quotas[everyModel]; ok {
		return everyModel, quota, true
	}
	return "", ModelQuota{}, false
}

// followQuotasLocked applies a change of quotas to names, which may stand for others now, and to
// days, which may end at other times. It serves no waiter.
func (rl *RateLimiter) followQuotasLocked() {
	rl.quotaVersion++
	if rl.naming.MatchVersions {
		rl.renameLocked()
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

// renameLocked moves cooldowns, external usage and waiters to the names that theirs stand for
// now. In a merged line the order of arrival counts.
func (rl *RateLimiter) renameLocked() {
	rl.cooldowns.Rename(rl.nameRLocked)
	rl.external.Rename(rl.nameRLocked)
	l := rl.linesLocked()
	waiters := l.waitersLocked()
	for _, w := range waiters {
		l.leaveLinesLocked(w)
	}
	for _, w := range waiters {
		l.queueLocked(w, rl.costsRLocked(w.requests))
	}
}
