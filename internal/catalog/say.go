package catalog

import (
	"slices"

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
func (c *Catalog) say(to []Change, name string, what func(said *sayings)) []Change {
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
		what = func(said *sayings) { said.Forget(name) }
	}
}

// SetQuota is the program's quota of a name.
func (c *Catalog) SetQuota(name string, q state.Quota) []Change {
	return c.say(nil, name, func(said *sayings) { said.SetProgram(name, q) })
}

// RemoveQuota takes back what the program said of a name, or an earlier run of it in a file.
func (c *Catalog) RemoveQuota(name string) []Change {
	return c.say(nil, name, func(said *sayings) { said.Remove(name) })
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
		changes = c.say(changes, name, func(said *sayings) { said.SetAccount(name, q, named) })
	}
	return changes
}
