// Package outbox keeps the events that a limiter has made and applied while its shared log is
// down, until the log has them. It packs them, so that it does not grow for as long as the log is
// down. The limiter's ledger has one Outbox.
package outbox

import (
	"slices"

	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
)

// Outbox holds the events of one process that are in its memory and not known to be in the log,
// in their order. The zero value is empty. An Outbox is not safe for concurrent use.
type Outbox struct {
	events []*sharedlog.Event
	added  map[*sharedlog.Event]sharedlog.DayAdded // of those that a step has planned
	packAt int                                     // how long it must be to be packed; 0 for packFrom
	tried  int64                                   // own events up to this number may be in the log already
}

// Events returns the events. The slice is good until the next change, and must not be changed.
func (o *Outbox) Events() []*sharedlog.Event { return o.events }

// Put adds an event of which is not known what it added to the day.
func (o *Outbox) Put(e *sharedlog.Event) { o.events = append(o.events, e) }

// Add adds an event, and what it added to the day.
func (o *Outbox) Add(e *sharedlog.Event, added sharedlog.DayAdded) {
	if o.added == nil {
		o.added = make(map[*sharedlog.Event]sharedlog.DayAdded)
	}
	o.added[e] = added
	o.Put(e)
}

// Added returns what an event added to the day. It is unknown of an event that came by Put, and
// of a Tally that Pack made.
func (o *Outbox) Added(e *sharedlog.Event) (added sharedlog.DayAdded, known bool) {
	added, known = o.added[e]
	return added, known
}

// AllAdded returns what each of the events added to the day, and reports whether that is all there
// is to know: it is not where an event may change days otherwise.
func (o *Outbox) AllAdded() (added []sharedlog.DayAdded, known bool) {
	known = true
	for _, e := range o.events {
		is, ok := o.added[e]
		switch e.Kind {
		case sharedlog.Reset, sharedlog.Quota, sharedlog.Day:
			ok = false
		case sharedlog.Tally:
			is, ok = sharedlog.DayAdded{Requests: e.Requests, Tokens: e.Total()}, true
		}
		added, known = append(added, is), known && ok
	}
	return added, known
}

// Remove takes an event out, and reports whether it was there.
func (o *Outbox) Remove(key sharedlog.Key) bool {
	i := slices.IndexFunc(o.events, func(e *sharedlog.Event) bool { return e.Key() == key })
	if i < 0 {
		return false
	}
	delete(o.added, o.events[i])
	switch i {
	case 0:
		o.events = o.events[1:] // without moving all that are behind
	default:
		o.events = slices.Concat(o.events[:i], o.events[i+1:])
	}
	return true
}

// Replace makes the outbox consist of the given events. It goes on to know what those of them
// that it had have added to the day.
func (o *Outbox) Replace(events []*sharedlog.Event) {
	added := make(map[*sharedlog.Event]sharedlog.DayAdded, len(events))
	for _, e := range events {
		if is, known := o.added[e]; known {
			added[e] = is
		}
	}
	o.events, o.added = events, added
}

// Tried notes that the log may have the events up to a number from now on: a write of them began.
func (o *Outbox) Tried(n int64) { o.tried = n }

// Lasting counts the events that outlast the process.
func (o *Outbox) Lasting() (n int) {
	for _, e := range o.events {
		switch e.Kind {
		case sharedlog.Wait, sharedlog.Leave, sharedlog.Gone, sharedlog.Evict:
		default:
			n++
		}
	}
	return n
}
