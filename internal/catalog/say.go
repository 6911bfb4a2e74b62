package catalog

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"dappco.re/go/core/go-ratelimit/internal/modelname"
	"dappco.re/go/core/go-ratelimit/internal/pooling"
	"dappco.re/go/core/go-ratelimit/internal/provenance"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// Change is what a saying has made of the quota of one name. It may have left it as it was.
type Change struct {
	Name     string
	Was, Is  state.Quota // zero where there was or is none
	Had, Has bool
}

// Changed reports whether the quota is another one than before.
func (c *Change) Changed() bool { return c.Had != c.Has || c.Was != c.Is }

// say changes what is said of a name, and gives it the quota that holds then. Models whose
// corrected copy of another quota is outdated by that lose what was learned of them. It appends a
// Change for each name of which anything was said, in that order.
func (c *Catalog) say(to []Change, name string, what func(said *provenance.Quotas)) []Change {
	var pending []string // a stack: a forgotten copy may itself be a pattern that has copies
	for {
		change := Change{Name: name}
		change.Was, change.Had = c.quotas[name]
		c.said.Notice(name, change.Was, change.Had)
		what(&c.said)
		change.Is, change.Has = c.said.Settle(name)
		c.put(name, change.Is, change.Has)
		c.version++
		to = append(to, change)
		if !state.IsPool(name) { // which is no pattern, whatever its name
			outdated := c.said.Outdated(name)
			slices.Reverse(outdated)
			pending = append(pending, outdated...)
		}
		if len(pending) == 0 {
			return to
		}
		name, pending = pending[len(pending)-1], pending[:len(pending)-1]
		what = func(said *provenance.Quotas) { said.Forget(name) }
	}
}

// SetQuota is the program's quota of a name.
func (c *Catalog) SetQuota(name string, q state.Quota) []Change {
	return c.say(nil, name, func(said *provenance.Quotas) { said.SetProgram(name, q) })
}

// RemoveQuota takes back what the program said of a name, or an earlier run of it in a file.
func (c *Catalog) RemoveQuota(name string) []Change {
	return c.say(nil, name, func(said *provenance.Quotas) { said.Remove(name) })
}

// Notice notes a quota that the program has put by hand into the map of the limiter, or has taken
// out of it. It holds as it is until the next saying of that name, which counts it as the
// program's. The map has no quotas of pools.
func (c *Catalog) Notice(name string, q state.Quota, has bool) []Change {
	if state.IsPool(name) {
		return nil
	}
	change := Change{Name: name, Has: has}
	if has {
		change.Is = q
	}
	change.Was, change.Had = c.quotas[name]
	c.put(name, q, has)
	c.version++
	return []Change{change}
}

// SetAccount is all limits of the account. They replace those of the last call.
func (c *Catalog) SetAccount(all map[string]state.Quota) (changes []Change) {
	c.said.Resaid()
	for _, name := range c.said.Changes(all) {
		q, named := all[name]
		changes = c.say(changes, name, func(said *provenance.Quotas) { said.SetAccount(name, q, named) })
	}
	return changes
}

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
	supply := (*provenance.Quotas).Supply
	if p.Below {
		supply = (*provenance.Quotas).SupplyBelow
	}
	groups := make(map[string][]Row)
	for _, row := range slices.SortedFunc(slices.Values(p.Rows), func(a, b Row) int { return cmp.Compare(a.Name, b.Name) }) {
		changes = c.say(changes, row.Name, func(said *provenance.Quotas) { supply(said, row.Name, row.Quota) })
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
		if len(rows) == 1 && !modelname.IsPattern(rows[0].Name) {
			continue
		}
		changes = c.say(changes, pool, func(said *provenance.Quotas) { supply(said, pool, rows[0].Quota) })
		names := make([]string, len(rows))
		for i, row := range rows {
			names[i] = row.Name
		}
		c.need(pool).profile = pooling.New(names)
	}
	return changes
}

// Learn is a quota that Lesson returned for a name.
func (c *Catalog) Learn(name string, next state.Quota) []Change {
	var cover string
	var is, bounds state.Quota
	if _, own := c.quotas[name]; !own {
		name = strings.Clone(name) // which may be a part of a whole request
		var known bool
		if cover, is, known = c.Cover(name); known {
			bounds = c.said.Bounds(cover, is)
		} else {
			cover = ""
		}
	}
	return c.say(nil, name, func(said *provenance.Quotas) { said.Learn(name, next, cover, is, bounds) })
}

// ForgetLearned forgets what was learned of a name, or of all names where it is "".
func (c *Catalog) ForgetLearned(name string) (changes []Change) {
	names := []string{name}
	if name == "" {
		names = c.said.Learned()
	}
	for _, name := range names {
		changes = c.say(changes, name, func(said *provenance.Quotas) { said.Forget(name) })
	}
	return changes
}

// Loaded takes over a file, below what the program said. What it says was learned counts where the
// limiter learns. What was learned of a model that had no quota does not stand beside one that
// covers it now. Loaded returns only what it changed.
func (c *Catalog) Loaded(f *File, learns bool) (changes []Change) {
	c.loadPools(f.Pools)
	say := func(name string, what func(said *provenance.Quotas)) {
		before := len(changes)
		changes = c.say(changes, name, what)
		said := slices.DeleteFunc(changes[before:], func(change Change) bool { return !change.Changed() })
		changes = changes[:before+len(said)]
	}
	for _, name := range slices.Sorted(maps.Keys(f.Quotas)) {
		say(name, func(said *provenance.Quotas) { said.Loaded(name, f.Quotas[name], f.Said[name], learns) })
	}
	for _, name := range c.said.Alone() {
		if _, covered := c.quotas[c.sharedCover(name)]; covered && !state.IsPool(name) {
			say(name, func(said *provenance.Quotas) { said.Forget(name) })
		}
	}
	return changes
}
