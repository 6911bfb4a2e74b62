package ratelimit

import (
	"slices"

	"dappco.re/go/core/go-ratelimit/internal/modelname"
	"dappco.re/go/core/go-ratelimit/internal/pooling"
	"dappco.re/go/core/go-ratelimit/internal/provenance"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// groupPool returns the name of the pool of a group of a profile, such as "anthropic/opus-5".
func groupPool(provider Provider, group string) string { return string(provider) + "/" + group }

// addGroupsLocked makes pools of the groups of a profile, of which each is one bucket of the
// provider: of those that name more than one model.
func (rl *RateLimiter) addGroupsLocked(profile *ProviderProfile, supply supplying) {
	groups := make(map[string][]string)
	for row, source := range profile.Sources {
		if source.Group != "" {
			groups[source.Group] = append(groups[source.Group], row)
		}
	}
	for group, rows := range groups {
		if len(rows) == 1 && !modelname.IsPattern(rows[0]) {
			continue
		}
		slices.Sort(rows)
		quota := profile.Models[rows[0]] // that of all rows of a group
		counted := state.PoolName(groupPool(profile.Provider, group))
		rl.sayLocked(counted, byProfile, func(p *provenance.Quotas) { supply(p, counted, state.Quota(quota)) })
		p := rl.pools.need(counted)
		p.profile = pooling.New(rows)
		rl.pools.changed(p)
	}
}

// providedPoolRLocked returns the pool of a profile that a model is in; nil for none. The model has
// to have the quota of the profile, be it corrected by reports: limits that the program or the
// account said are not those of the profile's bucket.
func (rl *RateLimiter) providedPoolRLocked(name string) *pool {
	quota := rl.quotaNameRLocked(name)
	q, has := rl.Quotas[quota]
	if !has || len(rl.profiled) == 0 {
		return nil
	}
	row, ok := rl.provenance.ProfileOf(quota, state.Quota(q))
	if !ok {
		return nil
	}
	of, ok := rl.profiled[row]
	if !ok || of.source.Group == "" {
		return nil
	}
	if p := rl.pools.get(state.PoolName(groupPool(of.provider, of.source.Group))); p != nil && p.isProvided() {
		return p
	}
	return nil
}
