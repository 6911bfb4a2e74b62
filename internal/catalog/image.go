package catalog

import (
	"maps"
	"math"
	"slices"

	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/wire"
)

// AppendImage appends the catalog as bytes from which Read makes one that behaves in the same way
// from then on. Catalogs that do so have the same bytes. The version is not among them.
func (c *Catalog) AppendImage(to []byte) []byte {
	to = c.said.AppendImage(to)
	to = c.appendByHand(to)
	to = wire.AppendUint(to, uint64(len(c.groups)))
	for _, row := range slices.Sorted(maps.Keys(c.groups)) {
		to = wire.AppendString(wire.AppendString(to, row), c.groups[row])
	}
	to = wire.AppendUint(to, uint64(len(c.pools)))
	for _, p := range c.pools {
		to = wire.AppendString(to, p.name)
		for _, m := range [...]*members{p.program, p.file, p.profile} {
			to = appendMembers(to, m)
		}
	}
	return c.gone.AppendImage(to, func(to []byte, _ struct{}) []byte { return to })
}

func appendMembers(to []byte, m *members) []byte {
	if to = wire.AppendBool(to, m != nil); m == nil {
		return to
	}
	given := m.Given()
	to = wire.AppendUint(to, uint64(len(given)))
	for _, name := range given {
		to = wire.AppendString(to, name)
	}
	return to
}

// appendByHand appends what Notice has noted of names of which nothing was said since: all other
// quotas follow from what was said.
func (c *Catalog) appendByHand(to []byte) []byte {
	var names []string
	for name, q := range c.quotas {
		if is, ok := c.said.Holds(name); !ok || is != q {
			names = append(names, name)
		}
	}
	for name := range c.said.All() {
		if _, has := c.quotas[name]; !has {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	to = wire.AppendUint(to, uint64(len(names)))
	for _, name := range names {
		q, has := c.quotas[name]
		if to = wire.AppendBool(wire.AppendString(to, name), has); has {
			to = q.AppendImage(to)
		}
	}
	return to
}

// Read reads the image of a catalog, and leaves r behind it.
func Read(r *wire.Reader) (*Catalog, error) {
	c := new(Catalog)
	c.said = readSayings(r)
	for name, q := range c.said.All() {
		c.put(name, q, true)
	}
	readNames(r, 2, c.readByHand)
	readNames(r, 2, func(r *wire.Reader, row string) {
		if c.groups == nil {
			c.groups = make(map[string]string)
		}
		pool := r.String(math.MaxInt)
		checkPoolName(r, pool)
		c.groups[row] = pool
	})
	readNames(r, 4, c.readPool)
	c.gone = readRecent(r, func(*wire.Reader) (none struct{}) { return none })
	if err := r.Err(); err != nil {
		return nil, err
	}
	return c, nil
}

// readNames reads values of at least so many bytes, each behind its name, in the order of these.
func readNames(r *wire.Reader, least int, value func(r *wire.Reader, name string)) {
	last := ""
	for i := range r.Count(math.MaxInt, least) {
		name := r.String(math.MaxInt)
		if i > 0 && name <= last {
			r.Fail("name out of order")
		}
		if r.Err() != nil {
			return
		}
		value(r, name)
		last = name
	}
}

func checkPoolName(r *wire.Reader, name string) {
	if !state.IsPool(name) {
		r.Fail("name that is not of a pool")
	}
}

func (c *Catalog) readByHand(r *wire.Reader, name string) {
	if state.IsPool(name) {
		r.Fail("quota of a pool set by hand")
	}
	said, holds := c.said.Holds(name)
	has := r.Bool()
	var q state.Quota
	if has {
		q = state.ReadQuota(r)
	}
	if has == holds && q == said {
		r.Fail("quota by hand that holds anyway")
	}
	if r.Err() == nil {
		c.put(name, q, has)
	}
}

func (c *Catalog) readPool(r *wire.Reader, name string) {
	checkPoolName(r, name)
	read := pool{program: readMembers(r), file: readMembers(r), profile: readMembers(r)}
	if read.members() == nil {
		r.Fail("pool without members")
	}
	if r.Err() == nil {
		p := c.need(name)
		p.program, p.file, p.profile = read.program, read.file, read.profile
	}
}

// readMembers reads the members of a pool; nil where nobody said any.
func readMembers(r *wire.Reader) *members {
	if !r.Bool() {
		return nil
	}
	given := make([]string, r.Count(math.MaxInt, 1))
	for i := range given {
		given[i] = r.String(math.MaxInt)
	}
	return newMembers(given)
}
