package ratelimit

import (
	"maps"
	"slices"

	"dappco.re/go/core/go-ratelimit/internal/tokens"
)

// packFrom is how many events the outbox holds before it is packed for the first time.
const packFrom = 10_000

// packLocked makes the outbox shorter, which would grow for as long as the file is down:
// of charges that count no more, only what they add to the day is kept. An event that
// may be in the file already stays as it is, because there it would be known by its
// number.
func (s *ledger) packLocked() {
	p := newPacking(s)
	kept := make([]*event, 0, len(s.outbox))
	for _, e := range s.outbox {
		switch {
		case e.kind == eventReset:
			// What was before it must not be added after it.
			kept = append(append(kept, p.tallies()...), e)
		case !p.takes(e):
			kept = append(kept, e)
		}
	}
	s.outbox = append(kept, p.tallies()...)
	s.packAt = max(packFrom, 2*len(s.outbox))
}

// packing is what is put together.
type packing struct {
	ledger  *ledger
	instant int64
	charges map[int64]*event // reservations that are packed, by number
	waits   map[int64]bool   // places in line that are left already
	days    map[string]*event
}

func newPacking(s *ledger) *packing {
	p := &packing{
		ledger: s, instant: s.rl.clock.Sync(),
		charges: make(map[int64]*event), waits: make(map[int64]bool), days: make(map[string]*event),
	}
	latest := make(map[int64]int64) // when the charge of a reservation counts
	for _, e := range s.outbox {
		switch e.kind {
		case eventMove:
			latest[e.ref] = e.at
		case eventReserve:
			latest[e.n] = max(latest[e.n], e.at)
		}
	}
	for _, e := range s.outbox {
		switch {
		case e.n <= s.triedN || e.process != s.id:
		case e.kind == eventReserve && s.countsNoMore(latest[e.n], p.instant) && s.heldLocked(s.id, e.n) == nil:
			p.charges[e.n] = e
		case e.kind == eventWait && s.peerLocked(s.id).waits[e.n] == nil:
			p.waits[e.n] = true
		}
	}
	return p
}

// takes puts an event to the others, if it can.
func (p *packing) takes(e *event) bool {
	charge := p.charges[e.ref]
	switch {
	case e.n <= p.ledger.triedN || e.process != p.ledger.id:
		return false
	case e.kind == eventTally:
		p.add(e, e.requests, e.Total())
		return true
	case e.kind == eventReserve && p.charges[e.n] != nil:
		p.add(e, e.requests, e.Total())
		return true
	case e.kind == eventUse && p.ledger.countsNoMore(e.at, p.instant):
		if e.ref == 0 {
			p.add(e, e.requests, e.Total())
		}
		return true
	case e.kind == eventMove && charge != nil, e.kind == eventRelease && charge != nil:
		return true
	case e.kind == eventAmend && charge != nil:
		p.add(charge, 0, e.Total()-charge.Total())
		return true
	case e.kind == eventCancel && charge != nil:
		p.add(charge, -charge.requests, -charge.Total())
		return true
	case e.kind == eventWait:
		return p.waits[e.n]
	case e.kind == eventLeave:
		return p.waits[e.ref]
	}
	return false
}

// add adds to the day, unless it is over.
func (p *packing) add(e *event, requests, used int) {
	s := p.ledger
	if s.dayIsOver(s.windowLocked(e.model, p.instant), e.at, p.instant) {
		return
	}
	day := p.days[e.model]
	if day == nil {
		day = &event{kind: eventTally, model: e.model, at: p.instant}
		p.days[e.model] = day
	}
	day.requests = max(day.requests+requests, 0)
	if used > 0 {
		day.Input = tokens.AddSaturated(day.Input, used)
	} else {
		day.Input = max(day.Input+used, 0)
	}
}

// tallies returns what was put together so far.
func (p *packing) tallies() (events []*event) {
	s := p.ledger
	for _, model := range slices.Sorted(maps.Keys(p.days)) {
		e := p.days[model]
		s.lastN++
		e.n, e.process = s.lastN, s.id
		e.wall, e.mono = s.rl.clock.UnixNano(e.at), s.machine.At(e.at)
		events = append(events, e)
	}
	clear(p.days)
	return events
}
