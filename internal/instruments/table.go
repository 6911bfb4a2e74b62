package instruments

import (
	"iter"
	"maps"
	"sync"
	"sync/atomic"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// MaxModels is how many models have series of their own unless an option says otherwise. It is
// below Config.MaxModels, because a collection tells all of them each time.
const MaxModels = 1000

// MaxPools and MaxClasses are how many pools, and classes of a model, have series of their own.
// Only a configuration makes them, and Config.Classes has no more; but a program may change it for
// ever.
const MaxPools, MaxClasses = 1000, 100

// OtherName is the name of the models, pools and classes for which a Table has no room.
const OtherName = "_other"

// Other is the Key of the models for which a Table has no room.
var Other = Key{Model: OtherName}

// Key is what the series of a model are distinguished by.
type Key struct {
	Model    string // the counted name
	Provider ratelimit.Provider
}

// Table is a bounded map that makes the value of a key when the key is first asked for, and never
// removes one. In the steady state it takes no lock and does not allocate. It is safe for
// concurrent use.
type Table[K comparable, V any] struct {
	made  func(K) V
	max   int
	rest  K
	other V // the value of rest

	full atomic.Bool             // read has all, for good
	read atomic.Pointer[map[K]V] // never written to
	mu   sync.Mutex
	all  map[K]V // at least what is in read
	slow int     // reads of all since read was replaced
}

// NewTable returns a Table of at most limit keys. All further ones have the value of rest, which
// does not count. made makes the values, without a lock held, and may be called more than once for
// a key.
func NewTable[K comparable, V any](limit int, rest K, made func(K) V) *Table[K, V] {
	t := &Table[K, V]{made: made, max: limit, rest: rest, other: made(rest), all: make(map[K]V)}
	t.read.Store(&map[K]V{})
	t.full.Store(limit <= 0)
	return t
}

// Of returns the value of a key: its own, or that of rest.
func (t *Table[K, V]) Of(k K) V {
	v, _ := t.find(k)
	return v
}

// Holds returns the key that has the value of k: k, or rest.
func (t *Table[K, V]) Holds(k K) K {
	if _, own := t.find(k); own {
		return k
	}
	return t.rest
}

// Seen returns k if it has a value of its own already, and else rest.
func (t *Table[K, V]) Seen(k K) K {
	_, own := (*t.read.Load())[k]
	if !own {
		_, own = t.recent(k)
	}
	if own {
		return k
	}
	return t.rest
}

// All returns an iterator over the values at its start, with that of rest, in no order.
func (t *Table[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		t.mu.Lock()
		if len(*t.read.Load()) < len(t.all) {
			t.publishLocked()
		}
		t.mu.Unlock()
		for k, v := range *t.read.Load() {
			if !yield(k, v) {
				return
			}
		}
		yield(t.rest, t.other)
	}
}

func (t *Table[K, V]) find(k K) (v V, own bool) {
	full := t.full.Load() // before read, which is complete then
	if v, own = (*t.read.Load())[k]; own {
		return v, true
	}
	if full || k == t.rest {
		return t.other, false
	}
	if v, own = t.recent(k); own {
		return v, true
	}
	return t.add(k, t.made(k))
}

// recent looks up what may not be in read yet. When that happened as often as there are keys, read
// gets all of them: so the copies cost no more than the lookups do.
func (t *Table[K, V]) recent(k K) (v V, own bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if v, own = t.all[k]; own {
		if t.slow++; t.slow >= len(t.all) {
			t.publishLocked()
		}
	}
	return v, own
}

func (t *Table[K, V]) add(k K, v V) (of V, own bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if first, ok := t.all[k]; ok {
		return first, true
	}
	if len(t.all) >= t.max {
		return t.other, false
	}
	t.all[k] = v
	if len(t.all) == t.max {
		t.publishLocked()
		t.full.Store(true)
	}
	return v, true
}

func (t *Table[K, V]) publishLocked() {
	read := maps.Clone(t.all)
	t.read.Store(&read)
	t.slow = 0
}
