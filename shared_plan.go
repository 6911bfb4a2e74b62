package ratelimit

import (
	"math"

	"dappco.re/go/core/go-ratelimit/internal/clock"
	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/tokens"
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
	base    int64 // the number of the last own event before it
	asked   bool  // it has the change that the caller asked for
	joins   bool  // memory was made anew from all of the log

	events  []*sharedlog.Event
	after   []func()
	days    map[string]*window // the days of models after the events
	said    map[string]state.DayUsage
	added   map[*sharedlog.Event]dayAdded
	places  map[string]bool // models without a quota of their own that get state
	settled map[int64]*Reservation

	stirs, reviews int64 // how far it has served the lines
	expired        expired
	batch          sharedlog.Batch
}

func (s *ledger) newPlanLocked() *plan {
	return &plan{
		s: s, rl: s.rl, base: s.lastN, machine: s.log.Clock(), instant: s.rl.clock.Sync(),
		stirs: s.lines.servedStirs, reviews: s.lines.servedReviews,
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
	p.events = append(p.events, e)
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
	if e.Kind != sharedlog.Cooldown {
		e.Wall = s.rl.clock.UnixNano(e.At + e.Age)
	}
	e.Mono = machine.At(e.At + e.Age)
}

// dayAdded is what an event added to the day when it was planned.
type dayAdded struct {
	requests, tokens int
	end              int64 // of that day, in UnixNano
}

// in returns the same for the day of a window.
func (a dayAdded) in(w *window, wall int64) dayChange {
	if (a.requests < 0 || a.tokens < 0) && wall >= a.end {
		return dayChange{window: w} // it came off a day that is over
	}
	return dayChange{w, a.requests, a.tokens}
}

// setDay says in an event how the day of its model is after it.
func (p *plan) setDay(e *sharedlog.Event, day *window) {
	was, is := p.said[e.Model], dayOf(day)
	if was.Start != is.Start {
		was = state.DayUsage{}
	}
	if e.Kind != sharedlog.Day {
		p.added[e] = dayAdded{int(is.Count - was.Count), int(is.Tokens - was.Tokens), day.dayEnd}
	}
	p.said[e.Model] = is
	e.Day, e.HasDay = is, true
}

// day returns the day of a model after what was planned so far: a window of which only the
// day is used, and may be changed.
func (p *plan) day(name string, instant int64) *window {
	d := p.days[name]
	if d != nil {
		return d
	}
	if stats := p.rl.State[name]; stats != nil {
		d = p.rl.windowLocked(name, stats, instant).copyDay()
	} else {
		now := p.rl.clock.At(instant)
		d = p.rl.newWindow(&UsageStats{DayStart: now.Round(0)}, zoneOf(name, p.rl.Quotas), instant, now)
	}
	if p.days == nil {
		p.days, p.said = make(map[string]*window), make(map[string]state.DayUsage)
		p.added = make(map[*sharedlog.Event]dayAdded)
	}
	p.days[name], p.said[name] = d, dayOf(d)
	return d
}

// copyDay returns a window without charges that has the same day.
func (w *window) copyDay() *window {
	stats := &UsageStats{DayStart: w.stats.DayStart, DayCount: w.stats.DayCount, DayTokens: w.stats.DayTokens}
	d := &window{
		home: w.home, stats: stats, zone: w.zone, location: w.location, badZone: w.badZone,
		days: w.days, dayWas: w.dayWas, dayStart: w.dayStart, dayBegin: w.dayBegin, dayEnd: w.dayEnd,
	}
	stats.window = d
	return d
}

// dayTokensWithout is window.dayTokensWithout for the day after what was planned. w has the
// charges of the minute.
func (p *plan) dayTokensWithout(day, w *window, r *Reservation, now tokens.Count) int {
	used := day.dayTokens()
	rest := max(used-r.estimate.Total(), 0)
	if used == math.MaxInt {
		rest = max(rest, w.sums.Total().Total()-now.Total())
	}
	return rest
}

// hasPlace reports whether there is a place for the state of a model, beside those that the
// plan has given away.
func (p *plan) hasPlace(name string, beside []modelCost, instant int64) (has bool) {
	if p.rl.State[name] != nil || p.places[name] {
		return true
	}
	if _, own := p.rl.Quotas[name]; own {
		return true
	}
	if more := len(p.places) + 1; more == 1 {
		full, _ := p.rl.fullLocked(name, instant)
		has = !full
	} else {
		has = p.rl.roomLocked(more, beside, instant)
	}
	if has {
		if p.places == nil {
			p.places = make(map[string]bool)
		}
		p.places[name] = true
	}
	return has
}
