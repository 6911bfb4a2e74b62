package catalog

import (
	"hash/maphash"
	"strings"
	"sync/atomic"
)

// Pools returns the names of the pools that a model is in, sorted. It is in those of which a member
// names or covers its counted name or the name by which it was asked for. It is in the pool of a
// profile if it has the quota of the profile, be it corrected by reports: limits that the program
// or the account said are not those of the profile's bucket. The caller must not change the result.
func (c *Catalog) Pools(counted, asked string) []string {
	if len(c.pools) == 0 {
		return nil
	}
	return c.list(counted, asked).names
}

// NamesModel reports whether a pool of the program or a file names a model, by a name or by a
// pattern other than "*". It counts as known then.
func (c *Catalog) NamesModel(counted, asked string) bool {
	return len(c.pools) > 0 && c.list(counted, asked).named
}

// list is the pools of a model. It never changes.
type list struct {
	version        int
	counted, asked string
	names          []string
	pools          []*pool
	named          bool // see NamesModel
}

// lists caches lists, each in the place that the names of its model tell. Readers fill it beside
// each other: a list that another one has replaced is made again.
type lists [4096]atomic.Pointer[list]

// longestListed bounds the names in the cache, in bytes.
const longestListed = 256

var listSeed = maphash.MakeSeed() // decides only which lists replace each other

// list returns the pools of a model. There must have been a pool.
func (c *Catalog) list(counted, asked string) *list {
	if len(counted) > longestListed || len(asked) > longestListed {
		return c.makeList(counted, asked)
	}
	hash := maphash.String(listSeed, counted)
	if asked != counted {
		hash = hash*31 + maphash.String(listSeed, asked)
	}
	place := &c.lists[hash%uint64(len(c.lists))]
	l := place.Load()
	if l == nil || l.version != c.version || l.counted != counted || l.asked != asked {
		l = c.makeList(strings.Clone(counted), strings.Clone(asked))
		place.Store(l)
	}
	return l
}

// makeList looks at all pools.
func (c *Catalog) makeList(counted, asked string) *list {
	l := &list{version: c.version, counted: counted, asked: asked}
	provided := c.providedPool(counted)
	for _, p := range c.pools {
		switch m := p.members(); {
		case p.isProvided():
			if p == provided {
				l.pools = append(l.pools, p)
			}
		case m.Names(counted) || m.Names(asked):
			l.named = true
			l.pools = append(l.pools, p)
		case m.Has(counted):
			l.pools = append(l.pools, p)
		}
	}
	l.names = namesOf(l.pools)
	return l
}

// providedPool returns the pool of a profile that a model is in; nil for none. The program or a
// file may have given it other members meanwhile.
func (c *Catalog) providedPool(counted string) *pool {
	quota, q, has := c.Cover(counted)
	if !has || len(c.groups) == 0 {
		return nil
	}
	row, ok := c.said.ProfileOf(quota, q)
	if !ok {
		return nil
	}
	return c.pool(c.groups[row])
}
