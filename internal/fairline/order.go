package fairline

import (
	"maps"
	"math/bits"
	"slices"

	"dappco.re/go/core/go-ratelimit/internal/state"
)

// Head returns the waiter that is next; nil where none is awake.
func (l *Line[W]) Head() *Entry[W] {
	k := l.next()
	if k == nil {
		return nil
	}
	return k.first()
}

// First returns the next waiter of a class; nil where none of it is awake.
func (l *Line[W]) First(class string) *Entry[W] {
	if k := l.find(class); k != nil && k.awake.Len() > 0 {
		return k.first()
	}
	return nil
}

// next returns the class that is next.
func (l *Line[W]) next() (next *class[W]) {
	if l.in == nil {
		return nil
	}
	yields := l.in.passed >= Overtaken
	for _, k := range l.in.classes {
		if k.awake.Len() > 0 && (next == nil || k.before(next, yields)) {
			next = k
		}
	}
	return next
}

// before orders classes with waiters. yields lets the classes that are not ahead go first.
func (k *class[W]) before(other *class[W], yields bool) bool {
	switch {
	case k.Ahead != other.Ahead:
		return k.Ahead != yields
	case k.start != other.start:
		return k.start < other.start
	}
	return k.first().arrival < other.first().arrival
}

// Heads returns the first waiter of each class, in the order in which they are next.
func (l *Line[W]) Heads() (heads []*Entry[W]) {
	if l.in == nil {
		return nil
	}
	yields := l.in.passed >= Overtaken
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
func (l *Line[W]) Leads(c Class) bool {
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
		return c.Ahead && l.in.passed < Overtaken
	}
	return max(start, *l.in.time(c.Ahead)) < head.class.start
}

// State returns how far the classes have been served, after a service of e that charges its class;
// nil for none. The zero State is that of an empty line.
func (l *Line[W]) State(e *Entry[W], charge int64) (s state.Line) {
	in := l.copied()
	if in == nil {
		return s
	}
	for _, k := range in.classes {
		if e == nil || e.class.Name != k.Name {
			continue
		}
		if k.turn = max(k.turn, e.turn); len(in.classes) > 1 {
			in.charge(k, charge)
		}
	}
	return in.state()
}

// StateAfterPass is State after a Pass.
func (l *Line[W]) StateAfterPass(c Class, charge int64) (s state.Line) {
	in := Line[W]{l.copied()}
	if in.in == nil {
		return s
	}
	in.Pass(c, charge)
	return in.in.state()
}

// copied returns a copy of what a service changes; nil for an empty line.
func (l *Line[W]) copied() *waiting[W] {
	if l.in == nil {
		return nil
	}
	in := *l.in
	in.classes = make([]*class[W], len(l.in.classes))
	for i, k := range l.in.classes {
		copied := *k
		in.classes[i] = &copied
	}
	return &in
}

func (in *waiting[W]) state() state.Line {
	s := state.Line{Virtual: in.virtual, Passed: in.passed, Classes: make(map[string]state.LineClass)}
	for _, k := range in.classes {
		s.Classes[k.Name] = state.LineClass{Start: k.start, Turn: k.turn}
	}
	return s
}

// SetState says how far the classes have been served.
func (l *Line[W]) SetState(s state.Line, classOf func(name string) Class) {
	if l.in == nil {
		return
	}
	l.in.virtual, l.in.passed = s.Virtual, s.Passed
	for _, name := range slices.Sorted(maps.Keys(s.Classes)) {
		is, k := s.Classes[name], l.find(name)
		if k == nil {
			c := classOf(name)
			if c.Name != name {
				continue
			}
			k = l.of(c)
		}
		k.start, k.turn = is.Start, is.Turn
	}
}

// Part returns an amount of a limit, at most all of it, in Units; at least 1.
func Part(amount, limit int) int64 {
	hi, lo := bits.Mul64(uint64(amount), uint64(Unit))
	part, _ := bits.Div64(hi, lo, uint64(limit))
	return max(int64(part), 1)
}

// BlocksAll reports whether the first of waiters blocks all others, each directly or by one that it
// blocks. isBlocked reports whether one of some blocks a waiter directly.
func BlocksAll[W comparable](waiters []W, isBlocked func(w W, some map[W]bool) bool) bool {
	blocked := map[W]bool{waiters[0]: true}
	for more := true; more; {
		more = false
		for _, w := range waiters {
			if !blocked[w] && isBlocked(w, blocked) {
				blocked[w], more = true, true
			}
		}
	}
	return len(blocked) == len(waiters)
}
