package ratelimit

import (
	"slices"
	"strings"
	"sync"

	"dappco.re/go/core/go-ratelimit/internal/profile"
	"dappco.re/go/core/go-ratelimit/internal/verdict"
)

// knownProviders returns which built-in profile knows which model.
var knownProviders = sync.OnceValue(func() *profile.Owners { return profiles().Owners() })

// profileRowRLocked returns the row of a profile that the quota of a counted name is. A quota that
// the program or the account said, or a provider corrected, is none, even with the same limits.
func (rl *RateLimiter) profileRowRLocked(name string) (row profiledQuota, ok bool) {
	quota, _, _ := rl.engine.Catalog.Cover(name)
	if row, ok = rl.profiled[quota]; !ok || rl.Quotas[quota] != row.quota {
		return profiledQuota{}, false
	}
	var origins quotaOrigins
	_, origins = rl.engine.Catalog.Origins(name)
	return row, origins.whole() == verdict.OriginGiven
}

// providerOfRLocked returns the provider of the models that are counted under a name: that of the
// profile that its quota came from; else one that the program has loaded; else the one that a
// leading "provider/" names, or whose built-in profile knows the name or the model that it is a
// version of. It is "" where nothing tells. Of a name it is the same as long as the quotas are.
func (rl *RateLimiter) providerOfRLocked(name string) Provider {
	quota, _, _ := rl.engine.Catalog.Cover(name)
	if row, ok := rl.profiled[quota]; ok {
		return row.provider
	}
	owners := knownProviders()
	isLoaded := func(provider string) bool { return slices.Contains(rl.loaded, Provider(provider)) }
	if p := owners.First(name, isLoaded); p != "" {
		return Provider(p)
	}
	if len(rl.loaded) == 1 {
		if names, _ := owners.Names(string(rl.loaded[0])); !names {
			return rl.loaded[0] // its profile names no models, because they are the account's own
		}
	}
	if p := owners.First(name, nil); p != "" {
		return Provider(p)
	}
	if prefix, _, ok := strings.Cut(name, "/"); ok {
		if _, known := owners.Names(prefix); known {
			return Provider(prefix)
		}
	}
	return Provider(owners.First(owners.Base(name), nil))
}
