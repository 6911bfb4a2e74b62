// Package eviction finds the models whose state may be forgotten to make places for others. The
// limiter keeps the models without a quota of their own in an [Index], and its waiters for a place
// in a [Queue].
package eviction

import (
	"math"
	"time"
)

// Never is the instant that is not reached.
const Never = int64(math.MaxInt64)

// Model is a model in an [Index]. Its name must not change.
type Model struct {
	Name string

	key      int64          // orders the queue
	queue    *Queue[*Model] // that it is in; nil for none
	position int            // where in that
}

// Before orders models by their keys, and then by their names.
func (m *Model) Before(other *Model) bool {
	if m.key != other.key {
		return m.key < other.key
	}
	return m.Name < other.Name
}

// Position returns where the queue of the model keeps its position.
func (m *Model) Position() *int { return &m.position }

// Leave takes the model out of its index. One that is in none stays as it is.
func (m *Model) Leave() {
	if m.queue != nil {
		m.queue.Remove(m)
		m.queue = nil
	}
}

func (m *Model) move(to *Queue[*Model], key int64) {
	if m.queue != to {
		m.Leave()
	}
	m.key, m.queue = key, to
	to.Put(m)
}

// Use is how a model is used. The zero value is a model that was used at instant 0 and is idle
// from then on.
type Use struct {
	LastAt int64 // the instant of the last use

	// IdleAt is the instant from which on nothing in the minute of the model counts: Never where
	// only an event ends that, math.MinInt64 where nothing counts.
	IdleAt int64

	// DayEnd is the end of the model's day in UnixNano, where the day counts and was used; else 0.
	DayEnd int64
}

// Look is a look at the models of an [Index].
type Look struct {
	Instant  int64 // the present, in nanoseconds
	UnixNano int64 // the same by the wall clock
	Span     int64 // how long a use counts to the minute, in nanoseconds

	// Reorder calls Index.Order for a model with its present use, or takes it out of the index.
	Reorder func(m *Model, instant int64)

	// Beside reports whether a model keeps its place, by its name; nil for none.
	Beside func(name string) bool
}

// instantOf returns the instant of a time of the wall clock.
func (l *Look) instantOf(unixNano int64) int64 { return unixNano - (l.UnixNano - l.Instant) }

// Index keeps models in order: idle ones by their last use, the others by a bound before which they
// are not idle. A use moves the instant at which the model is idle, but not the bound, which is
// checked when it is reached. A change that lets a model be idle earlier must call Ease. So no call
// reviews more models than have changed.
//
// The zero value is an empty index. An Index must not be copied while it holds models, and is not
// safe for concurrent use.
type Index struct {
	busy  Queue[*Model] // by the instant before which they are not idle, which may be Never
	daily Queue[*Model] // the same in UnixNano, where it is the end of the day
	idle  Queue[*Model] // by the instant of the last use
}

// Len returns the number of models.
func (x *Index) Len() int { return x.busy.Len() + x.daily.Len() + x.idle.Len() }

// AddIdle puts a model that is idle into the index, by the instant of its last use.
func (x *Index) AddIdle(m *Model, lastAt int64) { m.move(&x.idle, lastAt) }

// AddBusy puts a model into the index, to be reviewed at an instant and not before.
func (x *Index) AddBusy(m *Model, until int64) { m.move(&x.busy, until) }

// Order puts a model into the index, or moves it to where its use belongs at the present, which is
// an instant and the same in UnixNano.
func (x *Index) Order(m *Model, use Use, instant, unixNano int64) {
	l := Look{Instant: instant, UnixNano: unixNano}
	switch {
	case use.DayEnd > unixNano && l.instantOf(use.DayEnd) >= use.IdleAt:
		m.move(&x.daily, use.DayEnd)
	case use.IdleAt > instant:
		m.move(&x.busy, use.IdleAt)
	default:
		m.move(&x.idle, use.LastAt)
	}
}

// Used notes a use of a model, which is not idle before the instant until.
func (x *Index) Used(m *Model, until int64) {
	const slack = int64(time.Second) // lest a busy model is moved at each use
	if m.queue == nil || m.queue == &x.daily {
		return
	}
	if m.queue == &x.idle || m.key < until-slack {
		m.move(&x.busy, until)
	}
}

// Ease notes that a model may be idle earlier than it would have been.
func (x *Index) Ease(m *Model, use Use) {
	switch {
	case m.queue == &x.idle:
	case use.DayEnd != 0:
		m.move(&x.daily, use.DayEnd)
	case use.IdleAt == math.MinInt64:
		m.move(&x.idle, use.LastAt)
	case m.queue != &x.busy || use.IdleAt < m.key:
		m.move(&x.busy, use.IdleAt)
	}
}

// first returns the key in front of a queue; Never for an empty one.
func first(q *Queue[*Model]) int64 {
	if q.Len() == 0 {
		return Never
	}
	return q.First().key
}

// Idlest returns the least recently used idle model; nil where none is idle.
func (x *Index) Idlest(l *Look) *Model {
	for {
		// A model whose bound is reached may be idle, too. It was used no earlier than a minute
		// before the bound, so those of a later bound need not be looked at.
		switch due := first(&x.busy); {
		case due <= l.Instant && (x.idle.Len() == 0 || x.idle.First().key > due-l.Span-1):
			l.Reorder(x.busy.First(), l.Instant)
			continue
		case first(&x.daily) <= l.UnixNano:
			l.Reorder(x.daily.First(), l.Instant)
			continue
		case x.idle.Len() == 0:
			return nil
		}
		m := x.idle.First()
		key := m.key
		if l.Reorder(m, l.Instant); m.queue == &x.idle && m.key == key {
			return m
		}
	}
}

// Places returns how many idle models there are that may be forgotten, at most n.
func (x *Index) Places(n int, l *Look) (places int) {
	var aside []*Model
	for places < n {
		m := x.Idlest(l)
		if m == nil {
			break
		}
		if l.Beside == nil || !l.Beside(m.Name) {
			if places++; places == n {
				break
			}
		}
		m.Leave()
		aside = append(aside, m)
	}
	for _, m := range aside {
		m.move(&x.idle, m.key)
	}
	return places
}

// PlaceAt returns the instant at which time alone makes the n-th model idle that may be forgotten;
// Never where it does not. None is idle at present.
func (x *Index) PlaceAt(n int, l *Look) (at int64) {
	type bounded struct {
		model *Model
		queue *Queue[*Model]
	}
	var aside []bounded
	for at = Never; n > 0; {
		m := x.next(l)
		if m == nil {
			at = Never
			break
		}
		// It is the next one if it still is when its bound was looked at again.
		if l.Reorder(m, l.Instant); m.queue == &x.idle || m != x.next(l) {
			continue
		}
		if l.Beside == nil || !l.Beside(m.Name) {
			n--
		}
		at = x.DueAt(m, l)
		aside = append(aside, bounded{m, m.queue})
		m.Leave()
	}
	for _, b := range aside {
		b.model.move(b.queue, b.model.key)
	}
	return at
}

// next returns the model whose bound is reached first; nil where time alone reaches none.
func (x *Index) next(l *Look) *Model {
	due := first(&x.busy)
	if end := first(&x.daily); end != Never && l.instantOf(end) < due {
		return x.daily.First()
	}
	if due == Never {
		return nil
	}
	return x.busy.First()
}

// DueAt returns the instant of the bound of a model, before which it is not idle: math.MinInt64 for
// one that is, Never for one that is not in the index.
func (x *Index) DueAt(m *Model, l *Look) int64 {
	switch m.queue {
	case &x.idle:
		return math.MinInt64
	case &x.busy:
		return m.key
	case &x.daily:
		return l.instantOf(m.key)
	}
	return Never
}
