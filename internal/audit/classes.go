package audit

import (
	"slices"
	"strings"
)

// Mark is the number of a class among the first that were asked for, in seven bits. The eighth is
// the caller's: it says that a call is watched.
type Mark uint8

// Watched is the bit of a Mark that says nothing of a class.
const Watched Mark = 1 << 7

// IsWatched reports whether the Watched bit is set.
func (m Mark) IsWatched() bool { return m&Watched != 0 }

// mostClasses bounds the classes, whose names callers choose.
const mostClasses = 1000

// Classes is the sums of classes. A call keeps a Mark, where its class has one, instead of a
// pointer. The zero value is empty.
type Classes struct {
	book   Book
	marks  map[string]Mark
	marked []*Sums // by Mark; the first is nil
}

// All returns the sums by class. They may be read.
func (c *Classes) All() Book { return c.book }

// Mark returns the mark of a class; 0 before the first Need of it, and for a class without one.
func (c *Classes) Mark(class string) Mark { return c.marks[class] }

// Marked returns the sums of the class with a mark; nil for none.
func (c *Classes) Marked(m Mark) *Sums {
	if m &^= Watched; m == 0 {
		return nil
	}
	return c.marked[m]
}

// Need returns the sums of a class, and its mark if it has one.
func (c *Classes) Need(class string) (*Sums, Mark) {
	if m := c.marks[class]; m != 0 {
		return c.marked[m], m
	}
	a := c.book.Of(class, len(c.book) < mostClasses)
	if c.marks == nil {
		c.marks = make(map[string]Mark)
	}
	if c.marked == nil {
		c.marked = make([]*Sums, 1)
	}
	m := Mark(max(slices.Index(c.marked, a), 0))
	if m == 0 && len(c.marked) < int(Watched) {
		m, c.marked = Mark(len(c.marked)), append(c.marked, a)
	}
	if m != 0 {
		c.marks[strings.Clone(class)] = m
	}
	return a, m
}

// Forget has no class have a mark until the next Need of it. Marks that calls keep stay good.
func (c *Classes) Forget() { c.marks = nil }
