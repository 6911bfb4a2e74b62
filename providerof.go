package ratelimit

import (
	"slices"
	"strings"
	"sync"

	"dappco.re/go/core/go-ratelimit/internal/explain"
	"dappco.re/go/core/go-ratelimit/internal/modelname"
)

// providerNames tells which of the built-in profiles know a model. It never changes.
type providerNames struct {
	exact    map[string][]Provider // each in the order of preference
	patterns []providerPatterns    // in that order
	all      map[Provider]bool     // the value is whether the profile names any model
}

type providerPatterns struct {
	provider Provider
	index    *modelname.Index
}

// hosts serve models of others, often under the same names, so their profiles come last.
var hosts = []Provider{ProviderAzure, ProviderBedrock, ProviderOpenRouter, ProviderVertex}

// knownProviders returns what the built-in profiles know, at any tier.
var knownProviders = sync.OnceValue(func() *providerNames {
	x := &providerNames{exact: make(map[string][]Provider), all: make(map[Provider]bool)}
	var order []Provider
	for _, name := range profiles().Names() {
		if p := Provider(name); !slices.Contains(hosts, p) {
			order = append(order, p)
		}
	}
	for _, provider := range append(order, hosts...) {
		p := profiles().Provider(string(provider))
		x.all[provider] = len(p.Rows) > 0
		var patterns []string
		for i := range p.Rows {
			for _, model := range p.Rows[i].Models {
				switch {
				case modelname.IsPattern(model):
					patterns = append(patterns, model)
				case !slices.Contains(x.exact[model], provider):
					x.exact[model] = append(x.exact[model], provider)
				}
			}
		}
		if index := modelname.NewIndex(slices.Values(patterns)); index != nil {
			x.patterns = append(x.patterns, providerPatterns{provider, index})
		}
	}
	return x
})

// first returns the first of the providers that knows a name exactly, else by a pattern, among those
// that want accepts; "" for none.
func (x *providerNames) first(name string, want func(Provider) bool) Provider {
	for _, p := range x.exact[name] {
		if want(p) {
			return p
		}
	}
	for _, p := range x.patterns {
		if _, ok := p.index.Longest(name); ok && want(p.provider) {
			return p.provider
		}
	}
	return ""
}

// profileRowRLocked returns the row of a profile that the quota of a counted name is. A quota that
// the program or the account said, or a provider corrected, is none, also if it has the same limits.
func (rl *RateLimiter) profileRowRLocked(name string) (row profiledQuota, ok bool) {
	quota := rl.quotaNameRLocked(name)
	if row, ok = rl.profiled[quota]; !ok || rl.Quotas[quota] != row.quota {
		return profiledQuota{}, false
	}
	_, origins := rl.originsRLocked(name)
	return row, origins.whole(false) == explain.Given
}

// providerOfRLocked returns the provider of the models that are counted under a name: that of the
// profile that its quota came from; else one that the program has loaded; else the one that a
// leading "provider/" names, or whose built-in profile knows the name or the model that it is a
// version of. It is "" where nothing tells. Of a name it is the same as long as the quotas are.
func (rl *RateLimiter) providerOfRLocked(name string) Provider {
	if row, ok := rl.profiled[rl.quotaNameRLocked(name)]; ok {
		return row.provider
	}
	x := knownProviders()
	if p := x.first(name, func(p Provider) bool { return slices.Contains(rl.loaded, p) }); p != "" {
		return p
	}
	if len(rl.loaded) == 1 && !x.all[rl.loaded[0]] {
		return rl.loaded[0] // its profile names no models, because they are the account's own
	}
	every := func(Provider) bool { return true }
	if p := x.first(name, every); p != "" {
		return p
	}
	if prefix, _, ok := strings.Cut(name, "/"); ok {
		if _, known := x.all[Provider(prefix)]; known {
			return Provider(prefix)
		}
	}
	base, _ := modelname.Match(name, func(name string) bool { return x.exact[name] != nil })
	return x.first(base, every)
}
