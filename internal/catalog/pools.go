package catalog

import (
	"cmp"
	"slices"
	"strings"

	"dappco.re/go/core/go-ratelimit/internal/state"
)

// pool is the members of one pool, as they were said. The first that is not nil counts.
type pool struct {
	name    string
	program *members // by the program
	file    *members // by a file
	profile *members // the names of its rows: the models are in it that have their quotas
}

func (p *pool) members() *members { return cmp.Or(p.program, p.file, p.profile) }

// isProvided reports whether it is the pool of a profile.
func (p *pool) isProvided() bool { return p.program == nil && p.file == nil }

// Pool is what was said of a pool.
type Pool struct {
	Members  []string // the names and patterns, as they were given
	Quota    state.Quota
	Provided bool // by a profile: the members are those models that have the quota of one of its rows
}

// Pool returns a pool, which the caller may change; ok is false where there is none of that name.
func (c *Catalog) Pool(name string) (is Pool, ok bool) {
	p := c.pool(name)
	if p == nil {
		return Pool{}, false
	}
	return Pool{p.members().Given(), c.quotas[name], p.isProvided()}, true
}

// PoolNames returns the names of the pools, sorted.
func (c *Catalog) PoolNames() []string { return namesOf(c.pools) }

func namesOf(pools []*pool) []string {
	names := make([]string, len(pools))
	for i, p := range pools {
		names[i] = p.name
	}
	return names
}

// at returns the place of a pool among the others.
func (c *Catalog) at(name string) (at int, ok bool) {
	return slices.BinarySearchFunc(c.pools, name, func(p *pool, name string) int { return strings.Compare(p.name, name) })
}

// pool returns a pool; nil for none.
func (c *Catalog) pool(name string) *pool {
	if at, ok := c.at(name); ok {
		return c.pools[at]
	}
	return nil
}

// need returns a pool to which members are to be given, and makes one where there is none.
func (c *Catalog) need(name string) *pool {
	c.version++
	at, ok := c.at(name)
	if !ok {
		c.pools = slices.Insert(c.pools, at, &pool{name: strings.Clone(name)})
	}
	if c.lists == nil {
		c.lists = new(lists)
	}
	return c.pools[at]
}

// SetPool is a pool of the program. A name without the mark of pools changes nothing.
func (c *Catalog) SetPool(name string, models []string, q state.Quota) []Change {
	if !state.IsPool(name) {
		return nil
	}
	changes := c.SetQuota(name, q)
	c.need(name).program = newMembers(models)
	c.gone.Drop(name)
	return changes
}

// RemovePool takes back what the program and files said of a pool. That of a profile comes back;
// any other is gone, and no file brings it back.
func (c *Catalog) RemovePool(name string) []Change {
	if !state.IsPool(name) {
		return nil
	}
	changes := c.RemoveQuota(name)
	at, ok := c.at(name)
	if !ok || c.pools[at].isProvided() {
		return changes
	}
	p := c.pools[at]
	p.program, p.file = nil, nil
	if p.profile == nil {
		c.pools = slices.Delete(c.pools, at, at+1)
	}
	c.gone.Put(p.name, struct{}{})
	return changes
}

// HasPools reports whether there are pools.
func (c *Catalog) HasPools() bool { return len(c.pools) > 0 }

// IsPool reports whether a name is that of a pool which is there.
func (c *Catalog) IsPool(name string) bool { return c.pool(name) != nil }
