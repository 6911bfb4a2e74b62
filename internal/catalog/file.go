package catalog

import (
	"maps"
	"slices"

	"dappco.re/go/core/go-ratelimit/internal/state"
)

// File is what a state file has of names.
type File struct {
	Quotas map[string]state.Quota
	Said   map[string]state.Said // who said them; nothing of a quota that the program said alone
	Pools  map[string][]string   // the members of pools
}

// Stored returns what a file is to hold, and which of its quotas neither the program nor the
// account said. It leaves out what comes from a profile again: its pools, and their quotas unless
// reports have corrected them.
func (c *Catalog) Stored() (f File, supplied map[string]bool) {
	f = File{Quotas: maps.Clone(c.quotas), Pools: make(map[string][]string)}
	if f.Quotas == nil {
		f.Quotas = make(map[string]state.Quota)
	}
	for _, p := range c.pools {
		if !p.isProvided() {
			f.Pools[p.name] = p.members().Given()
		} else if _, origins := c.Origins(p.name); !slices.Contains(origins[:], state.Learned) {
			delete(f.Quotas, p.name)
		}
	}
	f.Said, supplied = c.said.Stored(f.Quotas)
	return f, supplied
}

// Loaded takes over a file, below what the program said. It returns only what it changed. A file of
// very many quotas may be taken over in steps instead: by LoadPools, LoadQuota for each name in
// order, and LoadEnd.
func (c *Catalog) Loaded(f *File, learns bool) (changes []Change) {
	c.LoadPools(f.Pools)
	for _, name := range slices.Sorted(maps.Keys(f.Quotas)) {
		changes = c.LoadQuota(changes, name, f.Quotas[name], f.Said[name], learns)
	}
	return c.LoadEnd(changes)
}

// LoadQuota takes over the quota of one name, and appends what that changed. What the file says was
// learned counts where the limiter learns.
func (c *Catalog) LoadQuota(to []Change, name string, q state.Quota, from state.Said, learns bool) []Change {
	return c.sayChanged(to, name, func(said *sayings) { said.Loaded(name, q, from, learns) })
}

// Grow makes room for the quotas of a file.
func (c *Catalog) Grow(quotas int) {
	room := make(map[string]state.Quota, len(c.quotas)+quotas)
	maps.Copy(room, c.quotas)
	c.quotas = room
}

// LoadEnd ends a Load: what was learned of a model that had no quota does not stand beside one that
// covers it now. It appends what that changed.
func (c *Catalog) LoadEnd(to []Change) []Change {
	for _, name := range c.said.Alone() {
		if _, covered := c.quotas[c.sharedCover(name)]; covered && !state.IsPool(name) {
			to = c.sayChanged(to, name, func(said *sayings) { said.Forget(name) })
		}
	}
	return to
}

// sayChanged is say, and appends only what has changed.
func (c *Catalog) sayChanged(to []Change, name string, what func(said *sayings)) []Change {
	before := len(to)
	to = c.say(to, name, what)
	said := slices.DeleteFunc(to[before:], func(change Change) bool { return !change.Changed() })
	return to[:before+len(said)]
}

// LoadPools takes over the members of the pools of a file.
func (c *Catalog) LoadPools(pools map[string][]string) {
	for name, models := range pools {
		if _, gone := c.gone.Get(name); state.IsPool(name) && !gone {
			c.need(name).file = newMembers(models)
		}
	}
}
