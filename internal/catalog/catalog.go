// Package catalog has everything that is known by name: the quotas of models, patterns and pools,
// who said them, the members of pools, and the groups of providers' profiles. It knows no accounts,
// windows or spends. A change of it is a saying: SetQuota, SetAccount, AddProfile, Learn, Loaded
// and others. The type sayings decides which of several holds. What names stand for (Names, Match)
// and cost (Prices) is here, too, but no part of a Catalog.
//
// A name of the catalog is a counted name: that of a pool has the mark of state.PoolName, and
// aliases and versions are resolved. The catalog has no clock and no lock, and the same sayings in
// the same order lead to the same catalog.
package catalog

import (
	"slices"
	"sync/atomic"

	"dappco.re/go/core/go-ratelimit/internal/state"
)

// Catalog is what is known by name. The zero value knows nothing. Methods that do not change it may
// run beside each other; a method that does needs the catalog for itself.
type Catalog struct {
	quotas map[string]state.Quota // that hold, those of pools included
	pooled int                    // how many of them are of pools
	said   sayings                // who said them

	pools  []*pool           // sorted by name
	groups map[string]string // the pools of the rows of profiles that have a group
	gone   recent[struct{}]  // pools that were removed: no file brings them back

	version  int
	patterns atomic.Pointer[patterns] // of quotas; nil where they are to be found again
	lists    *lists                   // made with the first pool
}

// patterns are the patterns among the names of quotas.
type patterns struct{ *PatternIndex }

// Version returns a number that is another one after each saying.
func (c *Catalog) Version() int { return c.version }

// Cover returns the quota of what is counted under a name, and the name of that quota: its own,
// that of the longest pattern that covers it, or "*". A pool has none but its own. Where ok is
// false, there is no quota of the name that is returned.
func (c *Catalog) Cover(name string) (quota string, q state.Quota, ok bool) {
	if q, ok = c.quotas[name]; ok || state.IsPool(name) {
		return name, q, ok
	}
	quota = c.sharedCover(name)
	q, ok = c.quotas[quota]
	return quota, q, ok
}

// Quota returns the quota of exactly that name.
func (c *Catalog) Quota(name string) (q state.Quota, ok bool) {
	q, ok = c.quotas[name]
	return q, ok
}

// sharedCover returns the name of the quota of a model that has none of its own. There may be none
// of that name.
func (c *Catalog) sharedCover(name string) string {
	p := c.patterns.Load()
	if p == nil {
		p = &patterns{NewPatternIndex(c.models)}
		c.patterns.Store(p)
	}
	if pattern, ok := p.Longest(name); ok {
		return pattern
	}
	return Every
}

// models visits the names of the quotas that are not of pools, in any order.
func (c *Catalog) models(yield func(string) bool) {
	for name := range c.quotas {
		if !state.IsPool(name) && !yield(name) {
			return
		}
	}
}

// IsListed reports whether a name has a quota of its own that is no pattern, or is that of a pool.
func (c *Catalog) IsListed(name string) bool {
	if state.IsPool(name) {
		return true
	}
	_, own := c.quotas[name]
	return own && !IsPattern(name)
}

// Quotas returns the quotas of all models and pools by name. The caller must not change them.
func (c *Catalog) Quotas() map[string]state.Quota { return c.quotas }

// Names returns the names of the quotas that are not of pools, sorted.
func (c *Catalog) Names() []string { return slices.Sorted(c.models) }

// Origins returns the name of the quota that covers a name, and who said each of its limits.
func (c *Catalog) Origins(name string) (quota string, origins [state.Dimensions]state.Origin) {
	quota, q, _ := c.Cover(name)
	return quota, c.said.Origins(quota, q)
}

// Account returns what the account says, or what a file has of that as long as it says nothing.
func (c *Catalog) Account() map[string]state.Quota { return c.said.Account() }

// put makes q the quota of a name, or takes its quota away.
func (c *Catalog) put(name string, q state.Quota, has bool) {
	_, had := c.quotas[name]
	switch {
	case has && c.quotas == nil:
		c.quotas = map[string]state.Quota{name: q}
	case has:
		c.quotas[name] = q
	default:
		delete(c.quotas, name)
	}
	switch {
	case has == had:
	case !state.IsPool(name):
		if IsPattern(name) {
			c.patterns.Store(nil)
		}
	case has:
		c.pooled++
	default:
		c.pooled--
	}
}
