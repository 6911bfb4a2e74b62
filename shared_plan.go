package ratelimit

import (
	"dappco.re/go/core/go-ratelimit/internal/clock"
	"dappco.re/go/core/go-ratelimit/internal/found"
	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// plan is what one step is to change: events, and functions that are called when those were
// applied. To plan changes nothing that others see, so that a plan can be dropped.
//
// The methods that add to a plan are called with RateLimiter.mu held. A plan holds one
// decision, or several of which none depends on another: what it plans is not in memory yet.
type plan struct {
	s       *ledger
	rl      *RateLimiter
	instant int64
	machine clock.Machine
	base    int64  // the number of the last own event before it
	asked   bool   // it has the caller's change, not a due one
	jobs    []*job // whose changes it has, if it is to be written to a remote log
	later   bool   // what was to be decided needs a plan of its own
	passed  bool   // it charges a class in a line for a call that did not stand in it
	joins   bool   // memory was rebuilt from an Image of the log

	events  []*sharedlog.Event
	after   []func()
	added   []sharedlog.DayAdded // what each of the events adds to the day of its model
	days    []*plannedDay        // the days of models after the events
	byName  map[string]int       // the indexes of the days, once they are many
	places  map[string]bool      // models without a quota of their own that get state
	settled []*Reservation
	ends    []ending       // of the settled
	made    []*Reservation // that hold a charge
	serial  int64          // tells plans apart

	stirs, reviews int64 // how far it has served the lines: see lines
	reviewed       int   // how many of waitLines.reviews it has looked at
	expired        sharedlog.Expired
	batch          sharedlog.Batch
}

func (s *ledger) newPlanLocked() *plan {
	s.plans++
	p := s.spare // which saves a tenth of the time of a step beside the store
	if p == nil {
		p = new(plan)
	}
	s.spare = nil
	*p = plan{
		s: s, rl: s.rl, base: s.lastN, serial: s.plans, machine: s.log.Clock(), instant: s.rl.clock.Sync(),
		days: p.days, added: p.added, settled: p.settled, ends: p.ends,
		stirs: s.lines.servedStirs, reviews: s.lines.servedReviews,
	}
	return p
}

// reuseLocked lets the next step have the memory of a plan. All else of it goes, so that it keeps
// no reservation alive: one that the program lost would keep its slot.
func (s *ledger) reuseLocked(p *plan) {
	const most = 16 // days and reservations
	if len(p.days) <= most && len(p.settled) <= most {
		clear(p.settled)
		*p = plan{days: p.days[:0], added: p.added[:0], settled: p.settled[:0], ends: p.ends[:0]}
		s.spare = p
	}
}

// empty reports whether nothing was planned.
func (p *plan) empty() bool { return len(p.events)+len(p.after) == 0 }

// isNothing reports whether there is nothing to write.
func (p *plan) isNothing() bool { return len(p.batch.Events) == 0 && !p.batch.Renew }

// then has f called, with RateLimiter.mu held, when the events were applied.
func (p *plan) then(f func()) { p.after = append(p.after, f) }

// add adds an event whose At, and Age, are set.
func (p *plan) add(e *sharedlog.Event) *sharedlog.Event {
	p.s.lastN++
	p.s.stampLocked(e, p.s.lastN, p.machine)
	p.events, p.added = append(p.events, e), append(p.added, sharedlog.DayAdded{})
	return e
}

// addNow adds an event of this moment.
func (p *plan) addNow(e *sharedlog.Event) *sharedlog.Event {
	e.At = p.instant
	return p.add(e)
}

// stampLocked makes an event one of this limiter.
func (s *ledger) stampLocked(e *sharedlog.Event, n int64, machine clock.Machine) {
	e.Process, e.N = s.id, n
	e.Stamp(&s.rl.clock, machine)
}

// setDay says in the last event how the day of its model is after it.
func (p *plan) setDay(day *plannedDay) {
	e, was, is := p.events[len(p.events)-1], day.said, dayOf(&day.window)
	if was.Start != is.Start {
		was = state.DayUsage{}
	}
	if e.Kind != sharedlog.Day {
		p.added[len(p.added)-1] = sharedlog.DayAdded{
			Requests: int(is.Count - was.Count), Tokens: int(is.Tokens - was.Tokens), End: day.period.End,
		}
	}
	e.Day, e.HasDay, day.said = is, true, is
}

// plannedDay is the day of a model after what was planned so far: a window of which only the
// day is used, and may be changed.
type plannedDay struct {
	window
	stats  UsageStats     // of the window
	name   string         // under which the model is counted
	said   state.DayUsage // the day as the last event says it
	beside planned        // for the model

	found *found.Limits // what is searched for, after that; nil where nothing was planned of it
}

// day returns the day of a model after what was planned so far.
func (p *plan) day(name string, instant int64) *plannedDay {
	if d := p.plannedDay(name); d != nil {
		return d
	}
	var d *plannedDay
	if n := len(p.days); n < cap(p.days) {
		d = p.days[:n+1][n]
	}
	if d == nil {
		d = new(plannedDay)
	}
	p.days = append(p.days, d)
	if w, stats := &d.window, p.rl.statsRLocked(name); stats != nil {
		of := p.rl.windowLocked(name, stats, instant)
		d.stats = UsageStats{DayStart: of.stats.DayStart, DayCount: of.stats.DayCount, DayTokens: of.stats.DayTokens}
		*w = window{
			home: of.home, period: of.period, days: of.days, dayWas: of.dayWas,
		}
	} else {
		now := p.rl.clock.At(instant)
		d.stats = UsageStats{DayStart: now.Round(0)}
		*w = *p.rl.newWindow(&d.stats, p.rl.zoneRLocked(name), instant, now)
	}
	d.window.stats, d.stats.window = &d.stats, &d.window
	d.name, d.said, d.beside, d.found = name, dayOf(&d.window), planned{}, nil
	return d
}

// plannedDay returns the day of a model, if it was asked for already.
func (p *plan) plannedDay(name string) *plannedDay {
	const few = 8
	if len(p.days) <= few {
		for _, d := range p.days {
			if d.name == name {
				return d
			}
		}
		return nil
	}
	if p.byName == nil {
		p.byName = make(map[string]int)
	}
	for i := len(p.byName); i < len(p.days); i++ {
		p.byName[p.days[i].name] = i
	}
	if i, planned := p.byName[name]; planned {
		return p.days[i]
	}
	return nil
}

// hasPlace reports whether there is a place for the state of a model, beside those that the
// plan has given away.
func (p *plan) hasPlace(name string, beside []modelCost, instant int64) (has bool) {
	if p.rl.State[name] != nil || p.places[name] || state.IsPool(name) {
		return true
	}
	if _, own := p.rl.Quotas[name]; own {
		return true
	}
	if more := len(p.places) + 1; more == 1 {
		full, _ := p.rl.unlistedLocked().fullLocked(name, instant)
		has = !full
	} else {
		has = p.rl.unlistedLocked().placesLocked(more, beside, instant) >= more
	}
	if has {
		if p.places == nil {
			p.places = make(map[string]bool)
		}
		p.places[name] = true
	}
	return has
}
