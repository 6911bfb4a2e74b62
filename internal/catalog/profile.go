package catalog

import (
	"cmp"
	"maps"
	"slices"

	"dappco.re/go/core/go-ratelimit/internal/state"
)

// Profile is what a provider's profile says.
type Profile struct {
	Provider string
	Rows     []Row
	Below    bool // it leaves alone what is said otherwise, which it else replaces
}

// Row is the quota of one model or pattern in a profile. The rows of a group share a bucket at the
// provider, and have the same quota.
type Row struct {
	Name, Group string
	Quota       state.Quota
}

// AddProfile takes over a profile. It makes pools of those of its groups that name more than one
// model.
func (c *Catalog) AddProfile(p *Profile) (changes []Change) {
	supply := (*sayings).Supply
	if p.Below {
		supply = (*sayings).SupplyBelow
	}
	groups := make(map[string][]Row)
	for _, row := range slices.SortedFunc(slices.Values(p.Rows), func(a, b Row) int { return cmp.Compare(a.Name, b.Name) }) {
		changes = c.say(changes, row.Name, func(said *sayings) { supply(said, row.Name, row.Quota) })
		delete(c.groups, row.Name)
		if row.Group == "" {
			continue
		}
		if c.groups == nil {
			c.groups = make(map[string]string)
		}
		pool := state.PoolName(p.Provider + "/" + row.Group)
		c.groups[row.Name] = pool
		groups[pool] = append(groups[pool], row)
	}
	for _, pool := range slices.Sorted(maps.Keys(groups)) {
		rows := groups[pool]
		if len(rows) == 1 && !IsPattern(rows[0].Name) {
			continue
		}
		changes = c.say(changes, pool, func(said *sayings) { supply(said, pool, rows[0].Quota) })
		names := make([]string, len(rows))
		for i, row := range rows {
			names[i] = row.Name
		}
		c.need(pool).profile = newMembers(names)
	}
	return changes
}
