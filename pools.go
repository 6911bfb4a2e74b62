package ratelimit

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"dappco.re/go/core/go-ratelimit/internal/pooling"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// poolSet is the pools of a limiter. RateLimiter.mu guards it. The zero value has none.
//
// Inside, a pool is a model with a counted name of its own (state.PoolName): cooldowns, external
// usage, slots and the events of a shared log have it by that name, beside those of models. Only
// its quota and its usage are kept here, because Quotas and State are the program's.
type poolSet struct {
	all   map[string]*pool // by counted name; also what is a pool no more, as long as it has usage
	count int              // how many of them are pools
	gone  map[string]bool  // that RemovePool took away: no Load brings them back

	byQuota bool // the members of some of them depend on the quotas of models
	lists   poolLists
}

// pool is one pool.
type pool struct {
	name     string // as programs call it
	counted  string // under which it is counted
	quota    ModelQuota
	hasQuota bool
	stats    *UsageStats // nil until something was charged

	// Its members, as they were said. The first that is not nil counts.
	program *pooling.Members // by the program, or another process of the same store
	file    *pooling.Members // by a file
	profile *pooling.Members // by a profile: the names of its rows, of which the models are that have their quotas
}

// isPool reports whether it is a pool, and not only the usage of one that is gone.
func (p *pool) isPool() bool { return p.program != nil || p.file != nil || p.profile != nil }

// isProvided reports whether it is a pool of a profile.
func (p *pool) isProvided() bool { return p.program == nil && p.file == nil && p.profile != nil }

func (p *pool) members() *pooling.Members { return cmp.Or(p.program, p.file, p.profile) }

// any reports whether there are pools.
func (s *poolSet) any() bool { return s.count > 0 }

// get returns what is known of a pool; nil for nothing.
func (s *poolSet) get(counted string) *pool { return s.all[counted] }

// need is get, and makes what is missing.
func (s *poolSet) need(counted string) *pool {
	p := s.all[counted]
	if p == nil {
		counted = strings.Clone(counted) // see stateLocked
		name, _ := state.PoolOf(counted)
		p = &pool{name: name, counted: counted}
		if s.all == nil {
			s.all = make(map[string]*pool)
		}
		s.all[counted] = p
	}
	return p
}

// changed notes that something of a pool has changed.
func (s *poolSet) changed(p *pool) {
	if !p.isPool() && p.stats == nil && !p.hasQuota {
		delete(s.all, p.counted)
	}
	s.count, s.byQuota = 0, false
	for _, p := range s.all {
		if p.isPool() {
			s.count++
		}
		s.byQuota = s.byQuota || p.isProvided()
	}
	s.lists = poolLists{serial: s.lists.serial}
}

// names returns the names of the pools, sorted.
func (s *poolSet) names() []string {
	names := make([]string, 0, s.count)
	for _, p := range s.all {
		if p.isPool() {
			names = append(names, p.name)
		}
	}
	slices.Sort(names)
	return names
}

// statsRLocked returns the usage that is counted under a name, of a model or a pool; nil for none.
func (rl *RateLimiter) statsRLocked(name string) *UsageStats {
	if stats := rl.State[name]; stats != nil || rl.pools.all == nil {
		return stats
	}
	return rl.pools.stats(name)
}

func (s *poolSet) stats(counted string) *UsageStats {
	if p := s.all[counted]; p != nil {
		return p.stats
	}
	return nil
}

// allStatsRLocked visits the usage of all models and pools.
func (rl *RateLimiter) allStatsRLocked(yield func(name string, stats *UsageStats) bool) {
	for name, stats := range rl.State {
		if !yield(name, stats) {
			return
		}
	}
	for name, p := range rl.pools.all {
		if p.stats != nil && !yield(name, p.stats) {
			return
		}
	}
}

// allQuotasRLocked visits the quotas of all models and pools.
func (rl *RateLimiter) allQuotasRLocked(yield func(name string, q ModelQuota) bool) {
	for name, q := range rl.Quotas {
		if !yield(name, q) {
			return
		}
	}
	for name, p := range rl.pools.all {
		if p.hasQuota && !yield(name, p.quota) {
			return
		}
	}
}

// putStatsLocked makes stats the usage that is counted under a name, or forgets it where stats are
// nil.
func (rl *RateLimiter) putStatsLocked(name string, stats *UsageStats) {
	switch {
	case state.IsPool(name):
		p := rl.pools.need(name)
		if p.stats = stats; stats == nil && !p.isPool() {
			rl.pools.changed(p)
		}
	case stats == nil:
		delete(rl.State, name)
	default:
		if rl.State == nil {
			rl.State = make(map[string]*UsageStats)
		}
		rl.State[name] = stats
	}
}

// forgetAllStatsLocked forgets the usage of all models and pools.
func (rl *RateLimiter) forgetAllStatsLocked() {
	rl.State = make(map[string]*UsageStats)
	for _, p := range slices.Collect(maps.Values(rl.pools.all)) {
		if p.stats = nil; !p.isPool() {
			rl.pools.changed(p)
		}
	}
}

// quotaRLocked returns the quota of a name, which may be that of a pool.
func (rl *RateLimiter) quotaRLocked(name string) (q ModelQuota, has bool) {
	if q, has = rl.Quotas[name]; has || rl.pools.all == nil {
		return q, has
	}
	if p := rl.pools.all[name]; p != nil {
		return p.quota, p.hasQuota
	}
	return q, false
}

// putQuotaLocked makes q the quota of a name, or takes that away.
func (rl *RateLimiter) putQuotaLocked(name string, q ModelQuota, has bool) {
	switch {
	case state.IsPool(name):
		p := rl.pools.need(name)
		p.quota, p.hasQuota = q, has
		rl.pools.changed(p)
	case has:
		if rl.Quotas == nil {
			rl.Quotas = make(map[string]ModelQuota)
		}
		rl.Quotas[name] = q
	default:
		delete(rl.Quotas, name)
	}
}

// poolLists caches which pools models are in. It is dropped whole when pools or quotas change, or
// when it has as many lists as models may have state.
type poolLists struct {
	serial  int                   // tells the lists from those before; windows remember theirs
	quotas  map[string]ModelQuota // by which they were made
	named   int                   // the length of quotas
	version int                   // RateLimiter.quotaVersion
	counted map[string]*poolList  // of models that are asked for by the name under which they are counted
	asked   map[[2]string][]*pool // of others, by that name and the one that is asked for
}

// poolList is the pools of a model, sorted by name.
type poolList struct {
	serial int // of the lists
	in     []*pool
}

// areCurrent reports whether the lists are those of the present quotas.
func (l *poolLists) areCurrent(rl *RateLimiter) bool {
	return l.counted != nil && l.version == rl.quotaVersion &&
		(!rl.pools.byQuota && !rl.naming.MatchVersions || l.named == len(rl.Quotas) && sameMap(l.quotas, rl.Quotas))
}

// poolsRLocked returns the pools of a model that is counted under a name, and whose window is w or
// unused. ok is false where poolsLocked has to find them.
func (rl *RateLimiter) poolsRLocked(name, model string, w *window) (in []*pool, ok bool) {
	l := &rl.pools.lists
	switch {
	case !l.areCurrent(rl):
		return nil, false
	case name != model:
		in, ok = l.asked[[2]string{name, model}]
		return in, ok
	case w.pools != nil && w.pools.serial == l.serial:
		return w.pools.in, true
	}
	list := l.counted[name]
	if list == nil {
		return nil, false
	}
	return list.in, true
}

// poolsLocked is poolsRLocked where the lock is held for writing.
func (rl *RateLimiter) poolsLocked(name, model string, w *window) (in []*pool) {
	if l := &rl.pools.lists; w.pools != nil && w.pools.serial == l.serial && name == model && l.areCurrent(rl) {
		return w.pools.in
	}
	in, ok := rl.poolsRLocked(name, model, w)
	if !ok {
		in = rl.listPoolsLocked(name, model)
	}
	if l := &rl.pools.lists; name == model && w != unused && (w.pools == nil || w.pools.serial != l.serial) {
		w.pools = l.counted[name]
	}
	return in
}

// listPoolsLocked finds the pools of a model, and notes them.
func (rl *RateLimiter) listPoolsLocked(name, model string) (in []*pool) {
	l := &rl.pools.lists
	if !l.areCurrent(rl) {
		*l = poolLists{
			serial: l.serial + 1, quotas: rl.Quotas, named: len(rl.Quotas), version: rl.quotaVersion,
			counted: make(map[string]*poolList), asked: make(map[[2]string][]*pool),
		}
	}
	in = rl.findPoolsRLocked(name, model)
	if len(l.counted)+len(l.asked) >= rl.mostModels() {
		clear(l.counted)
		clear(l.asked)
	}
	if name == model {
		l.counted[strings.Clone(name)] = &poolList{l.serial, in}
	} else {
		l.asked[[2]string{strings.Clone(name), strings.Clone(model)}] = in
	}
	return in
}

// findPoolsRLocked looks at all pools.
func (rl *RateLimiter) findPoolsRLocked(name, model string) (in []*pool) {
	provided := rl.providedPoolRLocked(name)
	for _, p := range rl.pools.all {
		if p.isProvided() && p == provided || !p.isProvided() && (p.members().Has(name) || p.members().Has(model)) {
			in = append(in, p)
		}
	}
	slices.SortFunc(in, func(a, b *pool) int { return strings.Compare(a.counted, b.counted) })
	return in
}

// isNamedByPoolRLocked reports whether a pool names a model, by its name or by a pattern other than
// "*". It counts as known then.
func (rl *RateLimiter) isNamedByPoolRLocked(model string) bool {
	if !rl.pools.any() {
		return false
	}
	name := rl.nameRLocked(model)
	in, ok := rl.poolsRLocked(name, model, unused)
	if !ok {
		in = rl.findPoolsRLocked(name, model)
	}
	return slices.ContainsFunc(in, func(p *pool) bool {
		return !p.isProvided() && (p.members().Names(name) || p.members().Names(model))
	})
}
