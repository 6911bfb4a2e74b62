package tally

import (
	"container/list"
	"iter"
	"strings"
)

const (
	mostOthers = 1000 // names in a Table that nothing keeps
	mostBytes  = 1024 // of such a name
)

// Table has a value for each name that is kept, and for the 1,000 others that were used last. The
// zero value is empty. A Table is not safe for concurrent use.
type Table[T any] struct {
	all   map[string]*list.Element
	byUse list.List // of *named[T], the last used first
}

type named[T any] struct {
	name  string
	value T
}

// Get returns the value of a name; nil for none.
func (t *Table[T]) Get(name string) *T {
	if e := t.all[name]; e != nil {
		return &e.Value.(*named[T]).value
	}
	return nil
}

// Use returns the value of a name, a zero one for a new name; nil for another name of more than
// 1,024 bytes. keeps reports whether a name is kept, which at most so many are at a time.
func (t *Table[T]) Use(name string, most int, keeps func(name string) bool) *T {
	if e := t.byUse.Front(); e != nil && e.Value.(*named[T]).name == name { // most often it is, and costs no hash
		return &e.Value.(*named[T]).value
	}
	if e := t.all[name]; e != nil {
		t.byUse.MoveToFront(e)
		return &e.Value.(*named[T]).value
	}
	if len(name) > mostBytes && !keeps(name) {
		return nil
	}
	if t.all == nil {
		t.all = make(map[string]*list.Element)
	}
	n := &named[T]{name: strings.Clone(name)} // which may be a part of a longer string
	t.all[n.name] = t.byUse.PushFront(n)
	for len(t.all) > mostOthers+most {
		last := t.byUse.Back().Value.(*named[T]).name
		if keeps(last) { // it is looked at again after all the others
			t.byUse.MoveToFront(t.byUse.Back())
			continue
		}
		t.Forget(last)
	}
	return &n.value
}

// Forget removes a name.
func (t *Table[T]) Forget(name string) {
	if e := t.all[name]; e != nil {
		t.byUse.Remove(e)
		delete(t.all, name)
	}
}

// All yields the names and their values in no order. The table may be changed meanwhile; a name
// that comes then may be left out.
func (t *Table[T]) All() iter.Seq2[string, *T] {
	return func(yield func(string, *T) bool) {
		for name, e := range t.all {
			if !yield(name, &e.Value.(*named[T]).value) {
				return
			}
		}
	}
}
