package limit

import (
	"fmt"
	"slices"
	"time"
)

// Tree is a level of hierarchical limits, such as those of a user, a team and a company. A
// request at a level takes from every level between it and the root, or from none: a leaf
// that admits while the root refuses loses nothing. Make the root with NewTree and the
// other levels with Child: the zero Tree panics. It is a Holder, and safe for concurrent
// use.
//
// All levels of a tree share one lock, so requests in one tree refuse each other only by
// the units that they take. Limiters that are also charged outside the tree, limiters that
// are not Holders, and Queues behave as in a Set. The Decision of a level is that of the
// Set of all limiters from it to the root; a limiter at several levels counts once.
//
// Levels stay until they are removed: a program that adds one for every user has to Remove
// the users that are gone.
type Tree struct {
	joint    // of this level and those above it
	path     []*Tree
	name     string
	limiter  Limiter
	children map[string]*Tree // guarded by the lock of the joint
}

// NewTree returns a tree that has only its root. It returns an error that matches
// ErrInvalid if the name is empty or the limiter is nil.
func NewTree(name string, limiter Limiter) (*Tree, error) {
	return newTree("new tree", name, limiter, new(jointLock), nil)
}

// newTree returns a level below those above, which are in order from the leaf to the
// root.
func newTree(operation, name string, limiter Limiter, l *jointLock, above []*Tree) (*Tree, error) {
	switch {
	case name == "":
		return nil, fmt.Errorf("%s: %w: name is %q, want a name", operation, ErrInvalid, name)
	case limiter == nil:
		return nil, fmt.Errorf("%s %q: %w: limiter is nil", operation, name, ErrInvalid)
	}
	node := &Tree{name: name, limiter: limiter}
	node.path = append([]*Tree{node}, above...)
	limiters := make([]Limiter, len(node.path))
	for i, level := range node.path {
		limiters[i] = level.limiter
	}
	node.begin(l, limiters)
	return node, nil
}

// Child adds a level below t. It returns an error that matches ErrInvalid if the name is
// empty, if another child of t has it, or if the limiter is nil.
func (t *Tree) Child(name string, limiter Limiter) (*Tree, error) {
	child, err := newTree("new child", name, limiter, t.lock, t.path)
	if err != nil {
		return nil, err
	}
	t.lock.Lock()
	defer t.lock.Unlock()
	if _, ok := t.children[name]; ok {
		return nil, fmt.Errorf("new child: %w: name is %q, which %q already has", ErrInvalid, name, t.name)
	}
	if t.children == nil {
		t.children = make(map[string]*Tree)
	}
	t.children[name] = child
	return child, nil
}

// Find returns the level that the names lead to, each a child of the one before, from t
// down; nil if there is none.
func (t *Tree) Find(names ...string) *Tree {
	t.lock.Lock()
	defer t.lock.Unlock()
	for _, name := range names {
		if t = t.children[name]; t == nil {
			return nil
		}
	}
	return t
}

// Remove removes the child of a name, and the levels below it, from the tree, and reports
// whether there was one. The child stays usable and its holds can end; it still takes from
// the levels above. A child that is added under the name again has the state of its
// limiter.
func (t *Tree) Remove(name string) bool {
	t.lock.Lock()
	defer t.lock.Unlock()
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

// TakePathAt is TakeAt that also returns the level that refused, nil if none did. If
// several refused, it is the one with the longest wait: first a level that can never admit
// the request, then one that waits for the end of a Hold, then the one with the largest
// RetryAfter; of equals, the one nearest to the leaf.
func (t *Tree) TakePathAt(now time.Time, n int) (d Decision, refused *Tree) {
	d, level := t.takeAt(now, n)
	if d.OK {
		return d, nil
	}
	return d, t.path[level]
}
