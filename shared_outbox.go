package ratelimit

import (
	"maps"
	"slices"

	"dappco.re/go/core/go-ratelimit/internal/clock"
	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
	"dappco.re/go/core/go-ratelimit/internal/tokens"
)

// outbox holds the events that are in memory and not known to be in the log.
type outbox struct {
	events []*sharedlog.Event
	added  map[*sharedlog.Event]dayAdded // of those that a step has planned
	packAt int                           // how long it must be to be packed; 0 for packFrom
	tried  int64                         // own events up to this number may be in the log already
}

// add adds the events of a plan that are not in the log.
func (o *outbox) add(e *sharedlog.Event, added dayAdded) {
	if o.added == nil {
		o.added = make(map[*sharedlog.Event]dayAdded)
	}
	o.added[e] = added
	o.events = append(o.events, e)
}

// packFrom is how many events the outbox holds before it is packed for the first time.
const packFrom = 10_000

// remove takes an event out, and reports whether it was there.
func (o *outbox) remove(key sharedlog.Key) bool {
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

// lasting counts the events that outlast this limiter.
func (o *outbox) lasting() (n int) {
	for _, e := range o.events {
		switch e.Kind {
		case sharedlog.Wait, sharedlog.Leave, sharedlog.Gone, sharedlog.Evict:
		default:
			n++
		}
	}
	return n
}

// packLocked makes the outbox shorter, which would grow for as long as the log is down: of
// charges that count no more, only what they add to the day is kept. An event that may be
// in the log already stays as it is, because there it would be known by its number.
func (s *ledger) packLocked() {
	if len(s.outbox.events) < max(s.outbox.packAt, packFrom) || !s.down.Load() {
		return
	}
	p := newPacking(s)
	kept := make([]*sharedlog.Event, 0, len(s.outbox.events))
	for _, e := range s.outbox.events {
		switch {
		case e.Kind == sharedlog.Reset:
			// What was before it must not be added after it.
			kept = append(append(kept, p.tallies()...), e)
		case !p.takes(e):
			kept = append(kept, e)
		}
	}
	s.outbox.events = append(kept, p.tallies()...)
	added := make(map[*sharedlog.Event]dayAdded, len(kept))
	for _, e := range kept {
		if is, known := s.outbox.added[e]; known {
			added[e] = is
		}
	}
	s.outbox.added = added
	s.outbox.packAt = 2 * len(s.outbox.events)
}

// packing is the events that are put together.
type packing struct {
	ledger  *ledger
	instant int64
	machine clock.Machine
	horizon int64
	charges map[int64]*sharedlog.Event // reservations that are packed, by number
	waits   map[int64]bool             // places in line that are left already
	days    map[string]*sharedlog.Event
}

func newPacking(s *ledger) *packing {
	p := &packing{
		ledger: s, instant: s.rl.clock.Sync(), machine: s.log.Clock(),
		charges: make(map[int64]*sharedlog.Event), waits: make(map[int64]bool), days: make(map[string]*sharedlog.Event),
	}
	p.horizon = s.horizon(p.instant)
	latest := make(map[int64]int64) // when the charge of a reservation counts
	for _, e := range s.outbox.events {
		switch e.Kind {
		case sharedlog.Move:
			latest[e.Ref] = e.At
		case sharedlog.Reserve:
			latest[e.N] = max(latest[e.N], e.At)
		}
	}
	for _, e := range s.outbox.events {
		switch {
		case !p.mayPack(e):
		case e.Kind == sharedlog.Reserve && latest[e.N] < p.horizon && s.peers.reservation(s.id, e.N) == nil:
			p.charges[e.N] = e
		case e.Kind == sharedlog.Wait && !s.peers.hasWaiter(s.id, e.N):
			p.waits[e.N] = true
		}
	}
	return p
}

// mayPack reports whether an event is surely not in the log.
func (p *packing) mayPack(e *sharedlog.Event) bool {
	return e.N > p.ledger.outbox.tried && e.Process == p.ledger.id
}

// takes puts an event to the others, if it can.
func (p *packing) takes(e *sharedlog.Event) bool {
	charge := p.charges[e.Ref]
	switch {
	case !p.mayPack(e):
		return false
	case e.Kind == sharedlog.Tally:
		p.add(e, e.Requests, e.Total())
		return true
	case e.Kind == sharedlog.Reserve && p.charges[e.N] != nil:
		p.add(e, e.Requests, e.Total())
		return true
	case e.Kind == sharedlog.Use && e.At < p.horizon:
		if e.Ref == 0 {
			p.add(e, e.Requests, e.Total())
		}
		return true
	case e.Kind == sharedlog.Move && charge != nil, e.Kind == sharedlog.Release && charge != nil:
		return true
	case e.Kind == sharedlog.Amend && charge != nil:
		p.add(charge, 0, e.Total()-charge.Total())
		return true
	case e.Kind == sharedlog.Cancel && charge != nil:
		p.add(charge, -charge.Requests, -charge.Total())
		return true
	case e.Kind == sharedlog.Wait:
		return p.waits[e.N]
	case e.Kind == sharedlog.Leave:
		return p.waits[e.Ref]
	}
	return false
}

// add adds to the day, unless it is over.
func (p *packing) add(e *sharedlog.Event, requests, used int) {
	s := p.ledger
	if f := s.asOf(p.instant); f.dayIsOver(f.window(e.Model), e.At) {
		return
	}
	day := p.days[e.Model]
	if day == nil {
		day = &sharedlog.Event{Kind: sharedlog.Tally, Model: e.Model, At: p.instant}
		p.days[e.Model] = day
	}
	day.Requests = max(day.Requests+requests, 0)
	if used > 0 {
		day.Input = tokens.AddSaturated(day.Input, used)
	} else {
		day.Input = max(day.Input+used, 0)
	}
}

// tallies returns what was put together so far.
func (p *packing) tallies() (events []*sharedlog.Event) {
	s := p.ledger
	for _, model := range slices.Sorted(maps.Keys(p.days)) {
		e := p.days[model]
		s.lastN++
		s.stampLocked(e, s.lastN, p.machine)
		events = append(events, e)
	}
	clear(p.days)
	return events
}
