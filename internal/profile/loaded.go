package profile

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/catalog"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// Loaded is the profiles that a limiter has loaded. The zero value is none.
type Loaded struct {
	providers []string
	quotas    map[string]Quota
	prices    foundPrices
}

// Quota is a quota of a profile, and where and when it was read.
type Quota struct {
	state.Quota
	Provider string
	URL      string
	ReadOn   time.Time
}

// IsOld reports whether the provider may have another quota by now.
func (q *Quota) IsOld(now time.Time) bool { return now.Sub(q.ReadOn) > FreshFor }

// Add notes that the profile of a provider was loaded, also one without quotas.
func (l *Loaded) Add(provider string) {
	if !slices.Contains(l.providers, provider) {
		l.providers = append(l.providers, provider)
	}
}

// AddQuota notes a quota of a profile, by its name in a catalog.
func (l *Loaded) AddQuota(name string, q Quota) {
	if l.quotas == nil {
		l.quotas = make(map[string]Quota)
	}
	l.quotas[name] = q
}

// Take notes a profile with its quotas, and returns what it says to a catalog.
func (l *Loaded) Take(p *Chosen) catalog.Profile {
	is := catalog.Profile{Provider: p.Name}
	l.Add(p.Name)
	for _, name := range slices.Sorted(maps.Keys(p.Rows)) {
		q, from := p.Rows[name].Limits.Quota(), p.SourceOf(p.Rows[name], p.Tier)
		l.AddQuota(name, Quota{Quota: q, Provider: p.Name, URL: from.URL, ReadOn: from.ReadOn})
		is.Rows = append(is.Rows, catalog.Row{Name: name, Quota: q, Group: from.Group})
	}
	return is
}

// Providers returns how many profiles were loaded.
func (l *Loaded) Providers() int { return len(l.providers) }

// HasQuotas reports whether any of the profiles has a quota.
func (l *Loaded) HasQuotas() bool { return len(l.quotas) > 0 }

// Behind returns the quota of a profile that covers a counted name, as long as it is the same.
func (l *Loaded) Behind(name string, c *catalog.Catalog) (q Quota, ok bool) {
	quota, is, _ := c.Cover(name)
	q, ok = l.quotas[quota]
	return q, ok && q.Quota == is
}

// Given is Behind for a quota that a profile gave. One that the program or the account said, or a
// provider corrected, is none, even with the same limits.
func (l *Loaded) Given(name string, c *catalog.Catalog) (q Quota, ok bool) {
	if q, ok = l.Behind(name, c); !ok {
		return q, false
	}
	_, origins := c.Origins(name)
	isOther := func(by state.Origin) bool { return by != state.File && by != state.Profile }
	return q, !slices.ContainsFunc(origins[:], isOther)
}

// ProviderOf returns the provider of the models that are counted under a name: that of the profile
// that its quota came from; else one that was loaded; else the one that a leading "provider/"
// names, or whose built-in profile knows the name or the model that it is a version of. It is ""
// where nothing tells. Of a name it is the same as long as the quotas are.
func (l *Loaded) ProviderOf(name string, c *catalog.Catalog) string {
	quota, _, _ := c.Cover(name)
	if q, ok := l.quotas[quota]; ok {
		return q.Provider
	}
	known := Models()
	isLoaded := func(provider string) bool { return slices.Contains(l.providers, provider) }
	if p := known.First(name, isLoaded); p != "" {
		return p
	}
	if len(l.providers) == 1 {
		if names, _ := known.Names(l.providers[0]); !names {
			return l.providers[0] // its profile names no models, because they are the account's own
		}
	}
	if p := known.First(name, nil); p != "" {
		return p
	}
	if prefix, _, ok := strings.Cut(name, "/"); ok {
		if _, is := known.Names(prefix); is {
			return prefix
		}
	}
	return known.First(known.Base(name), nil)
}

// NoFigure returns which of the loaded profiles says that no current figure is known of a model,
// which is counted under a name; "" for none. One that names the model comes first, and of these
// one of whoever makes models. One that says so of all others counts where it is alone, or that of
// ProviderOf.
func (l *Loaded) NoFigure(name, model string, c *catalog.Catalog) string {
	host, others := "", ""
	for _, loaded := range l.providers {
		p := Builtin().Provider(loaded)
		switch {
		case p == nil:
		case p.NoFigure.has(model) || p.NoFigure.has(name):
			if !slices.Contains(hosts, loaded) {
				return loaded
			}
			host = cmp.Or(host, loaded)
		case slices.Contains(p.NoFigure.Models, "*") && (len(l.providers) == 1 || l.ProviderOf(name, c) == loaded):
			others = loaded
		}
	}
	return cmp.Or(host, others)
}

// NearestOf returns the name of a provider's quota that is most like that of a model, and "" where
// its profile gave none.
func (l *Loaded) NearestOf(provider, model string) string {
	return catalog.Closest(model, func(yield func(string) bool) {
		for name := range l.quotas {
			if l.quotas[name].Provider == provider && !yield(name) {
				return
			}
		}
	})
}
