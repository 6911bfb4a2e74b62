package debugpage

import (
	"slices"
	"strings"
	"sync"
)

// maxShown is the most models on the page.
const maxShown = 2000

// content is what the page shows at one version. But for what is computed from it, it does not
// change.
type content struct {
	version  uint64 // grows when something changes; the first is 1
	previous uint64 // the version before
	rows     []*row // of all models, by name

	// active and idle are the rows in the order of the page, and above is the text that stands over
	// them. The versions tell when each of them last changed.
	active, idle                             []*row
	above                                    string
	activeVersion, idleVersion, aboveVersion uint64

	pools        []poolShown
	poolsVersion uint64

	fresh map[uint64]bool // of more rows than are shown, those shown since this version

	delta struct { // from the version before, which is what most viewers have
		once sync.Once
		text []byte
	}
}

// arrange puts the rows that are shown in the order of the page: those of models in use, blocked
// ones first, then the idle ones.
func (c *content) arrange() {
	for _, r := range c.rows {
		if r.active {
			c.active = append(c.active, r)
		} else {
			c.idle = append(c.idle, r)
		}
	}
	slices.SortFunc(c.active, func(a, b *row) int {
		switch {
		case a.first == b.first:
			return strings.Compare(a.explained.Model, b.explained.Model)
		case a.first:
			return -1
		}
		return 1
	})
	c.active = c.active[:min(len(c.active), maxShown)]
	c.idle = c.idle[:min(len(c.idle), maxShown-len(c.active))]
}

// since compares the content with the one before, and reports whether anything has changed.
func (c *content) since(last *content) (changed bool) {
	mark := func(version *uint64, before uint64, differs bool) {
		if *version = before; differs || last.version == 0 {
			*version, changed = c.version, true
		}
	}
	mark(&c.activeVersion, last.activeVersion, !sameOrder(c.active, last.active))
	mark(&c.idleVersion, last.idleVersion, !sameOrder(c.idle, last.idle))
	mark(&c.aboveVersion, last.aboveVersion, c.above != last.above)
	mark(&c.poolsVersion, last.poolsVersion, !samePools(c.pools, last.pools))
	if changed && len(c.rows) > maxShown {
		c.fresh = make(map[uint64]bool)
		for r := range c.shown {
			c.fresh[r.id] = true
		}
		for r := range last.shown {
			delete(c.fresh, r.id)
		}
	}
	for r := range c.shown {
		changed = changed || r.version == c.version
	}
	return changed
}

func sameOrder(a, b []*row) bool {
	return slices.EqualFunc(a, b, func(a, b *row) bool { return a.id == b.id })
}

// shown yields the rows that are shown.
func (c *content) shown(yield func(*row) bool) {
	for _, list := range [][]*row{c.active, c.idle} {
		for _, r := range list {
			if !yield(r) {
				return
			}
		}
	}
}

// changed yields the rows that a page with the given version lacks.
func (c *content) changed(seen uint64) func(yield func(*row) bool) {
	if seen != c.previous && len(c.rows) > maxShown {
		seen = 0 // which rows that page has is not known any more
	}
	return func(yield func(*row) bool) {
		for r := range c.shown {
			if (r.version > seen || c.fresh[r.id]) && !yield(r) {
				return
			}
		}
	}
}
