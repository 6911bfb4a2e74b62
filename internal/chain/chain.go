// Package chain links elements in the order in which they were added, without an allocation. An
// element may be in several chains and be removed from the middle of each. The limiter's open
// calls, of which Config.Events is told, use it.
package chain

// Links are the neighbours of an element in a chain. Each element has Links for each chain that it
// is in. The zero value is that of an element in no chain.
type Links[E any] struct{ before, after *E }

// Chain is elements in the order in which they were added. Its methods take a function that returns
// the Links of an element in this chain. The zero value is an empty chain. A Chain is not safe for
// concurrent use.
type Chain[E any] struct{ first, last *E }

// First returns the element that was added first of those that are there; nil for none.
func (c *Chain[E]) First() *E { return c.first }

// Add appends an element, which must not be in the chain.
func (c *Chain[E]) Add(e *E, links func(*E) *Links[E]) {
	if links(e).before = c.last; c.last == nil {
		c.first = e
	} else {
		links(c.last).after = e
	}
	c.last = e
}

// Remove takes out an element, which must be in the chain.
func (c *Chain[E]) Remove(e *E, links func(*E) *Links[E]) {
	l := links(e)
	if l.before == nil {
		c.first = l.after
	} else {
		links(l.before).after = l.after
	}
	if l.after == nil {
		c.last = l.before
	} else {
		links(l.after).before = l.before
	}
	*l = Links[E]{}
}
