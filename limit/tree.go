package limit

import (
	"fmt"
	"slices"
	"time"
)

// Tree is a level of hierarchical limits, such as a user's in a team's in a company's.
// What is taken at a level is taken from every level between it and the root, or from
// none: a leaf that admits while the root refuses loses nothing. Make the root with
// NewTree and the others with Child: the zero Tree panics. It is a Holder, and safe for
// concurrent use.
//
// All levels of a tree share one lock, so requests in one tree never refuse each other
// but by what they take; limiters that are charged outside of the tree as well, and
// those that are not Holders, and Queues, are as in a Set. A Decision of a level is that of the Set of
// all limiters from it to the root; one that is at several levels is taken once.
//
// A tree has as many levels as were added and not removed: who makes one for every user
// has to remove those that are gone.
type Tree struct {
	together // of this level and those above it
	path     []*Tree
	name     string
	limiter  Limiter
	children map[string]*Tree // the turn's lock guards it
}

// NewTree returns a tree that has only its root. It returns an error that matches
// ErrInvalid where the name is empty or there is no limiter.
func NewTree(name string, limiter Limiter) (*Tree, error) {
	return newTree("new tree", name, limiter, new(turn), nil)
}

// newTree returns a level below those above, which are in order from the leaf to the
// root.
func newTree(operation, name string, limiter Limiter, t *turn, above []*Tree) (*Tree, error) {
	switch {
	case name == "":
		return nil, fmt.Errorf("%s: %w: name is %q, want one", operation, ErrInvalid, name)
	case limiter == nil:
		return nil, fmt.Errorf("%s %q: %w: limiter is nil", operation, name, ErrInvalid)
	}
	node := &Tree{name: name, limiter: limiter}
	node.path = append([]*Tree{node}, above...)
	limiters := make([]Limiter, len(node.path))
	for i, level := range node.path {
		limiters[i] = level.limiter
	}
	node.joint = newJoint(t, limiters)
	node.init(node)
	return node, nil
}

// Child adds a level below t. It returns an error that matches ErrInvalid where the name
// is empty or is that of another child of t, or there is no limiter.
func (t *Tree) Child(name string, limiter Limiter) (*Tree, error) {
	child, err := newTree("new child", name, limiter, t.joint.turn, t.path)
	if err != nil {
		return nil, err
	}
	t.joint.turn.mu.Lock()
	defer t.joint.turn.mu.Unlock()
	if _, ok := t.children[name]; ok {
		return nil, fmt.Errorf("new child: %w: name is %q, which %q has already", ErrInvalid, name, t.name)
	}
	if t.children == nil {
		t.children = make(map[string]*Tree)
	}
	t.children[name] = child
	return child, nil
}

// Find returns the level to which the names lead down from t, nil if there is none.
func (t *Tree) Find(names ...string) *Tree {
	t.joint.turn.mu.Lock()
	defer t.joint.turn.mu.Unlock()
	for _, name := range names {
		if t = t.children[name]; t == nil {
			return nil
		}
	}
	return t
}

// Remove takes the child of a name, and what is below it, out of the tree, and reports
// whether there was one. Whoever has the child can go on to use it, and to end what it
// has on hold: it still takes from the levels above. A child that is added under the
// name again begins with what its limiter has.
func (t *Tree) Remove(name string) bool {
	t.joint.turn.mu.Lock()
	defer t.joint.turn.mu.Unlock()
	_, ok := t.children[name]
	delete(t.children, name)
	return ok
}

// Name returns the name of the level.
func (t *Tree) Name() string { return t.name }

// Parent returns the level above, nil for the root.
func (t *Tree) Parent() *Tree {
	if len(t.path) == 1 {
		return nil
	}
	return t.path[1]
}

// Path returns the names of the levels from the root to this one.
func (t *Tree) Path() []string {
	names := make([]string, 0, len(t.path))
	for _, level := range slices.Backward(t.path) {
		names = append(names, level.name)
	}
	return names
}

// Limiter returns the limiter of this level alone.
func (t *Tree) Limiter() Limiter { return t.limiter }

// TakePathAt is TakeAt that returns which level refused, nil if none did. If several
// did, it is the one for which the request has to wait longest: one that can never admit
// it comes first, then one that waits for the end of a Hold, then the one with the
// largest RetryAfter; of equals, the one nearest to the leaf.
func (t *Tree) TakePathAt(now time.Time, n int) (d Decision, refused *Tree) {
	d, level := t.joint.takeAt(now, n)
	if d.OK {
		return d, nil
	}
	return d, t.path[level]
}
