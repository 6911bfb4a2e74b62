package ratelimit

import (
	"maps"
	"slices"

	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// findByRefusal plans that the search for the limits of a model goes on after a refusal, in all
// processes.
func (p *plan) findByRefusal(name string, r foundRefusal) {
	f := p.rl.found[name]
	if f == nil {
		return
	}
	next := *f
	anew, _ := next.refuse(r, p.instant)
	p.find(name, &next, anew)
}

// find plans that all processes take over what was found.
func (p *plan) find(name string, next *found, anew int64) {
	known := next.present(p.instant, p.rl.clock.UnixNano(p.instant))
	known.Anew = anew
	p.addNow(&sharedlog.Event{Kind: sharedlog.Found, Model: name, Text: state.FoundText(known)})
}

// findBeside plans that the search goes on before a request of a model is charged.
func (p *plan) findBeside(name string, f *found) {
	if wall := p.rl.clock.UnixNano(p.instant); f != nil && f.isDue(p.instant, wall) {
		next := *f
		anew := next.goOn(p.instant, wall)
		p.find(name, &next, anew)
	}
}

// find takes over what another process, or this one, has found.
func (f effect) find(e *sharedlog.Event) {
	known, err := state.ParseFound(e.Text)
	if err != nil {
		return // another version's, or a log that somebody else wrote: it is found again
	}
	rl, wall := f.rl, f.rl.clock.UnixNano(e.At)
	var q ModelQuota
	rl.coverRLocked(e.Model, &q)
	x := rl.foundLocked(e.Model, &q, f.instant, true)
	if x == nil {
		rl.keepFoundLocked(e.Model, &found{stored: known, used: wall})
		return
	}
	x.adopt(&known, e.At)
	x.spreadAt, x.used = f.instant, max(x.used, wall)
	rl.changedNowLocked()
	f.s.lines.reviews++
}

// adopt takes over the searches whose windows begin anew at an instant.
func (f *found) adopt(known *state.Found, instant int64) {
	part := state.Found{}
	if known.Anew&state.RateAnew != 0 {
		part.Rate = known.Rate
	}
	if known.Anew&state.SlotsAnew != 0 {
		part.Slots = known.Slots
	}
	f.resume(&part, instant, 0)
}

// countFound counts a charge to what is searched for.
func (f effect) countFound(e *sharedlog.Event, w *window) {
	if x := f.rl.found[e.Model]; x != nil {
		x.count(e.At, f.rl.clock.UnixNano(e.At), e.Requests, w.slots.calls(), f.s.sharersLocked())
	}
}

// loadFound makes what was found that of the log. What the log does not have stays.
func (b *rebuild) loadFound() {
	rl, before := b.rl, b.rl.found
	rl.found = nil
	for _, model := range slices.Sorted(maps.Keys(b.img.Found)) {
		known := b.img.Found[model]
		x := &found{stored: known, used: known.At}
		if was := before[model]; was != nil {
			x.told, x.used = was.told, max(x.used, was.used)
		}
		b.keepFound(model, x)
	}
	wall := rl.clock.UnixNano(b.instant)
	for _, model := range slices.Sorted(maps.Keys(before)) {
		if _, has := b.img.Found[model]; !has {
			was := before[model]
			b.keepFound(model, &found{stored: was.present(b.instant, wall), used: was.used, told: was.told})
		}
	}
}

// keepFound keeps what was found of a model, bounded by its quota.
func (b *rebuild) keepFound(model string, x *found) {
	b.rl.keepFoundLocked(model, x)
	var q ModelQuota
	b.rl.coverRLocked(model, &q)
	b.rl.foundLocked(model, &q, b.instant, true)
}

// restoreFound writes what was found to a log that took the place of another.
func (b *rebuild) restoreFound() {
	wall := b.rl.clock.UnixNano(b.instant)
	for _, model := range slices.Sorted(maps.Keys(b.rl.found)) {
		if _, has := b.img.Found[model]; !has {
			known := b.rl.found[model].present(b.instant, wall)
			known.Anew = state.RateAnew | state.SlotsAnew
			b.emit(&sharedlog.Event{Kind: sharedlog.Found, Model: model, At: b.instant, Text: state.FoundText(known)})
		}
	}
}
