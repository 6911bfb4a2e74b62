package lines

import (
	"maps"
	"math/bits"
	"slices"
)

// Head returns the waiter that is next; nil where none is awake.
func (l *fairLine[W]) Head() *fairEntry[W] {
	k := l.next()
	if k == nil {
		return nil
	}
	return k.first()
}

// First returns the next waiter of a class; nil where none of it is awake.
func (l *fairLine[W]) First(class string) *fairEntry[W] {
	if k := l.find(class); k != nil && k.awake.Len() > 0 {
		return k.first()
	}
	return nil
}

// next returns the class that is next.
func (l *fairLine[W]) next() (next *fairClass[W]) {
	if l.in == nil {
		return nil
	}
	yields := l.in.passed >= overtaken
	for _, k := range l.in.classes {
		if k.awake.Len() > 0 && (next == nil || k.before(next, yields)) {
			next = k
		}
	}
	return next
}

// before orders classes with waiters. yields lets the classes that are not ahead go first.
func (k *fairClass[W]) before(other *fairClass[W], yields bool) bool {
	switch {
	case k.Ahead != other.Ahead:
		return k.Ahead != yields
	case k.start != other.start:
		return k.start < other.start
	}
	return k.first().arrival < other.first().arrival
}

// Heads returns the first waiter of each class, in the order in which they are next.
func (l *fairLine[W]) Heads() (heads []*fairEntry[W]) {
	if l.in == nil {
		return nil
	}
	yields := l.in.passed >= overtaken
	for _, k := range l.in.classes {
		if k.awake.Len() == 0 {
			continue
		}
		at := len(heads)
		for at > 0 && k.before(heads[at-1].class, yields) {
			at--
		}
		heads = append(heads, nil)
		copy(heads[at+1:], heads[at:])
		heads[at] = k.first()
	}
	return heads
}

// Leads reports whether a call of a class that comes now would be next: no other of its class
// waits, and its class is ahead of those that wait, or got less than its share.
func (l *fairLine[W]) Leads(c Share) bool {
	head := l.Head()
	if head == nil {
		return true
	}
	start := int64(0)
	if k := l.find(c.Name); k != nil {
		if k.awake.Len() > 0 {
			return false
		}
		start = k.start
	}
	if c.Ahead != head.class.Ahead {
		return c.Ahead && l.in.passed < overtaken
	}
	return max(start, *l.in.time(c.Ahead)) < head.class.start
}

// fairProgress is how far the classes of a line have been served. The zero value is that of an
// empty line.
type fairProgress struct {
	virtual [2]int64
	passed  int
	starts  map[string]int64 // of the classes
}

// Progress returns how far the classes have been served.
func (l *fairLine[W]) Progress() (p fairProgress) {
	if l.in == nil {
		return p
	}
	p = fairProgress{virtual: l.in.virtual, passed: l.in.passed, starts: make(map[string]int64)}
	for _, k := range l.in.classes {
		p.starts[k.Name] = k.start
	}
	return p
}

// Resume says how far the classes have been served.
func (l *fairLine[W]) Resume(p fairProgress, classOf func(name string) Share) {
	if l.in == nil {
		return
	}
	l.in.virtual, l.in.passed = p.virtual, p.passed
	for _, name := range slices.Sorted(maps.Keys(p.starts)) {
		k := l.find(name)
		if k == nil {
			c := classOf(name)
			if c.Name != name {
				continue
			}
			k = l.of(c)
		}
		k.start = p.starts[name]
	}
}

// chargeOf returns an amount of a limit, at most all of it, as a part of wholeCharge; at least 1.
func chargeOf(amount, limit int) int64 {
	hi, lo := bits.Mul64(uint64(amount), uint64(wholeCharge))
	part, _ := bits.Div64(hi, lo, uint64(limit))
	return max(int64(part), 1)
}
