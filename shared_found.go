package ratelimit

import (
	"maps"
	"slices"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/found"
	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// spreadEvery is how often other processes are told of refusals that lower nothing: what they have
// to know is that the window is not clean, which lasts longer.
const spreadEvery = int64(500 * time.Millisecond)

// spreadsLocked reports whether other processes have to be told of a refusal.
func (s *ledger) spreadsLocked(name string, f *found.Limits, r found.Refusal, instant int64) bool {
	_, lowered := f.Copy().Refuse(r, instant)
	at, told := s.foundTold[name]
	return lowered || !told || instant-at >= spreadEvery
}

// findByRefusal plans that the search for the limits of a model goes on after a refusal.
func (p *plan) findByRefusal(name string, r found.Refusal) {
	if f := p.rl.found[name]; f != nil {
		next := f.Copy()
		anew, _ := next.Refuse(r, p.instant)
		p.find(name, next, anew)
	}
}

// findBeside plans that the search goes on before a request of a model is charged, and counts that
// to the search of the plan.
func (p *plan) findBeside(day *plannedDay, f *found.Limits, instant int64) {
	if f == nil {
		return
	}
	if day.found == nil {
		day.found = f.Copy()
		if day.found.IsDue(p.instant) {
			p.find(day.name, day.found, day.found.GoOn(p.instant))
		}
	}
	calls := p.rl.lines.allSlots[day.name].calls() + day.beside.cost.Requests + 1
	day.found.Count(instant, 1, calls, p.s.sharersLocked())
}

// followPlan has a view say what was found after what a plan has charged to its model. It reports
// whether that is known.
func (r *view) followPlan(q *ModelQuota, others *plannedDay) (known bool) {
	if !r.adapts || r.found == nil || others == nil || others.beside.cost.Requests == 0 {
		return true
	}
	if others.found == nil || others.found.Bounds() != r.found.Bounds() {
		return false
	}
	r.found = others.found
	q.limitSlots(r.found.MostSlots(r.slots.calls()+others.beside.cost.Requests, r.instant))
	return true
}

// find plans that all processes take over what was found.
func (p *plan) find(name string, next *found.Limits, anew int64) {
	if anew == 0 {
		return
	}
	known := next.Present(p.instant, p.rl.clock.UnixNano(p.instant))
	known.Anew = anew
	p.addNow(&sharedlog.Event{Kind: sharedlog.Found, Model: name, Text: state.FoundText(known)})
}

// find takes over what another process, or this one, has found.
func (f effect) find(e *sharedlog.Event) {
	known, err := state.ParseFound(e.Text)
	if err != nil {
		return // what nobody here wrote is found again
	}
	known.Told = false // each process learns that from its own answers
	f.s.foundTold.note(e.Model, f.instant)
	if l := f.rl.coveredFoundLocked(e.Model, f.instant); l != nil {
		l.Adopt(known, e.At)
	} else {
		f.rl.keepFoundLocked(e.Model, found.Stored(known))
	}
	f.s.lines.reviews++
}

// countFound counts a charge to what is searched for.
func (f effect) countFound(e *sharedlog.Event, w *window) {
	if !w.adapts {
		return
	}
	if l := f.rl.coveredFoundLocked(e.Model, f.instant); l != nil {
		sharers := 0
		if e.Process == f.s.id && !f.joins {
			sharers = f.s.sharersLocked()
		}
		l.Count(e.At, e.Requests, w.slots.calls(), sharers)
	}
}

// loadFound makes what was found that of the log. What the log does not have stays.
func (b *rebuild) loadFound() {
	rl := b.rl
	all := rl.foundsRLocked(b.instant)
	rl.found = nil
	for model, known := range b.img.Found {
		known.Told = all[model].Told
		known.At = max(known.At, all[model].At)
		all[model] = known
	}
	for _, model := range slices.Sorted(maps.Keys(all)) {
		rl.keepFoundLocked(model, found.Stored(all[model]))
		rl.coveredFoundLocked(model, b.instant)
	}
}

// restoreFound writes what was found to a log that took the place of another.
func (b *rebuild) restoreFound() {
	all := b.rl.foundsRLocked(b.instant)
	for _, model := range slices.Sorted(maps.Keys(all)) {
		if _, has := b.img.Found[model]; !has {
			known := all[model]
			known.Anew = state.RateAnew | state.SlotsAnew
			b.emit(&sharedlog.Event{Kind: sharedlog.Found, Model: model, At: b.instant, Text: state.FoundText(known)})
		}
	}
}

// toldModels is the instants at which all processes were last told what was found of models.
type toldModels map[string]int64

// note notes that they were told. Of many models, those that were told long ago are forgotten.
func (m *toldModels) note(model string, instant int64) {
	const many = 1024
	if *m == nil {
		*m = make(toldModels)
	}
	if (*m)[model] = instant; len(*m) > many {
		maps.DeleteFunc(*m, func(_ string, at int64) bool { return instant-at >= spreadEvery })
	}
}

// learn does what an event says that counts to no window.
func (f effect) learn(e *sharedlog.Event) {
	switch e.Kind {
	case sharedlog.Found:
		f.find(e)
	case sharedlog.Classes:
		f.setClasses(e)
	case sharedlog.Spend:
		f.spend(e)
	case sharedlog.Answers:
		if a, err := state.ParseAnswers(e.Text); err == nil && e.Process != f.s.id {
			f.rl.answers.Merge(map[string]state.Answers{e.Model: a}, f.rl.mostModels())
		}
	}
}

// reset forgets the usage of a model.
func (f effect) reset(e *sharedlog.Event) {
	f.rl.forgetUsageLocked(e.Model)
	if ended := f.rl.teller.thawedLocked(); e.Process == f.s.id {
		f.rl.teller.pendLocked(ended)
	} else {
		f.rl.teller.postRLocked(ended)
	}
}
