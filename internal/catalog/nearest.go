package catalog

import (
	"cmp"
	"iter"
)

// maxNearest is the longest name, in bytes, that Nearest compares: as many as a word has bits.
const maxNearest = 64

// Nearest returns the name that a program means by the name of a model without a quota: the one of
// which it is a version, else the name of a quota, or an alias of what has one, that is most like
// it, or else like it without its path and its date.
func (c *Catalog) Nearest(model string, names *Names) string {
	if name, ok := Match(model, c.IsListed); ok && name != model {
		return name
	}
	all := c.named(model, names)
	return cmp.Or(Nearest(model, all), Nearest(bare(model), all))
}

// bare returns the shortest name of which a model may be a version: without its path and its date.
func bare(model string) string {
	shortest := model
	Match(model, func(name string) bool {
		if len(name) < len(shortest) {
			shortest = name
		}
		return false
	})
	return shortest
}

// named yields the names of quotas, and the aliases of what has one, but for that of a model.
func (c *Catalog) named(model string, names *Names) iter.Seq[string] {
	return func(yield func(string) bool) {
		for name := range c.models {
			if name != model && !yield(name) { // it is there if an alias leads away from it
				return
			}
		}
		for name, counted := range names.Aliases {
			if _, _, known := c.Cover(counted); known && !yield(name) {
				return
			}
		}
	}
}

// Nearest returns the name that is most like model, for a hint to a caller who has mistyped it: the
// name that the fewest changes of a byte make of model, and of several such names the first in
// order. Upper and lower case are the same. It is empty where every name takes more changes than
// half of the bytes of model, or than one if that is more, and for a model of more than 64 bytes.
// Patterns and "*" are no names.
func Nearest(model string, names iter.Seq[string]) (nearest string) {
	return nearestOf(model, names, max(len(model)/2, 1))
}

// Closest is Nearest with any number of changes, for a model without its path and its date.
func Closest(model string, names iter.Seq[string]) string {
	return nearestOf(bare(model), names, maxNearest)
}

func nearestOf(model string, names iter.Seq[string], most int) (nearest string) {
	if len(model) > maxNearest {
		return ""
	}
	at := placesOf(model)
	least := most + 1
	for name := range names {
		if !IsName(name) || max(len(name)-len(model), len(model)-len(name)) > least || len(name) > maxNearest || IsPattern(name) {
			continue
		}
		if n := at.distance(name); n < least || n == least && nearest != "" && name < nearest {
			least, nearest = n, name
		}
	}
	return nearest
}

// places has a bit for each place of a text at which it has a byte, and the length of the text.
type places struct {
	of  [256]uint64
	len int
}

func placesOf(text string) *places {
	p := &places{len: len(text)}
	for i := range len(text) {
		p.of[lower(text[i])] |= 1 << i
	}
	return p
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}

// distance returns how many bytes have to be inserted, removed or replaced to make other of the
// text, upper and lower case being the same. It is Myers' algorithm: a column of the table of the
// distances of all beginnings is two words, which say by which bytes it goes up and down.
func (p *places) distance(other string) int {
	if p.len == 0 {
		return len(other)
	}
	up, down, distance := ^uint64(0), uint64(0), p.len
	last := uint64(1) << (p.len - 1)
	for i := range len(other) {
		same := p.of[lower(other[i])]
		column := same | down
		row := (same&up + up) ^ up | same
		more, less := down|^(row|up), up&row
		if more&last != 0 {
			distance++
		}
		if less&last != 0 {
			distance--
		}
		more, less = more<<1|1, less<<1
		up, down = less|^(column|more), more&column
	}
	return distance
}
