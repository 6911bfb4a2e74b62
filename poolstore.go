package ratelimit

import (
	"maps"
	"slices"

	"dappco.re/go/core/go-ratelimit/internal/pooling"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// addPoolQuotasRLocked adds the quotas of pools to those that a file may hold. Those of profiles
// come from there again, unless reports of the provider have corrected them.
func (rl *RateLimiter) addPoolQuotasRLocked(quotas map[string]state.Quota) {
	for counted, p := range rl.pools.all {
		if !p.hasQuota {
			continue
		}
		if p.isProvided() {
			if _, origins := rl.originsRLocked(counted); !slices.Contains(origins[:], state.Learned) {
				continue
			}
		}
		quotas[counted] = state.Quota(p.quota)
	}
}

// pools returns the members of the pools that a file may hold: not of those of profiles, nor of
// those that no Load would accept.
func (s saving) pools() map[string][]string {
	rl := s.rl
	rl.mu.RLock()
	defer rl.mu.RUnlock()
	members := make(map[string][]string)
	for counted, p := range rl.pools.all {
		if p.isPool() && !p.isProvided() && p.quota.validate(counted) == nil {
			members[counted] = p.members().Given()
		}
	}
	return members
}

// loadPoolsLocked takes over the members of the pools of a file, below those that the program said.
func (rl *RateLimiter) loadPoolsLocked(pools map[string][]string) {
	s := &rl.pools
	for counted, models := range pools {
		if state.IsPool(counted) && !s.gone[counted] {
			p := s.need(counted)
			p.file = pooling.New(models)
			s.changed(p)
		}
	}
}

// takePoolStatsLocked makes loaded usage of pools theirs, and returns that of models.
func (rl *RateLimiter) takePoolStatsLocked(usage map[string]*UsageStats) (models map[string]*UsageStats) {
	for _, p := range slices.Collect(maps.Values(rl.pools.all)) {
		if p.stats = nil; usage[p.counted] == nil && !p.isPool() {
			rl.pools.changed(p)
		}
	}
	for name, stats := range usage {
		if state.IsPool(name) {
			rl.putStatsLocked(name, stats)
			delete(usage, name)
		}
	}
	return usage
}
