// Package unsaved knows which part of a limiter's memory its database lacks, so that a save writes
// only that. The SQLite backend of a limiter that keeps a copy of its own uses it.
package unsaved

import (
	"maps"
	"slices"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/ring"
	"dappco.re/go/core/go-ratelimit/internal/sqlitestate"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// Window is the usage of a model in memory. Another window of the same model is other usage. T is
// the type of its token entries.
type Window[T any] interface {
	comparable
	// Entries returns the charges of the minute.
	Entries() (requests *ring.Queue[time.Time], tokens *ring.Queue[T])
	// Day returns the day, and the zone at whose midnight it ends; nil for a day of 24 hours.
	Day() (day state.DayUsage, zone *time.Location)
	// Lapsed reports whether nothing counts any more at an instant, which is wall in UnixNano,
	// neither in memory nor of what the database has of the window.
	Lapsed(instant, wall int64) bool
	// Saved tells the window that the database has it as it is.
	Saved()
}

// Models compares the windows of models with what the database is known to have of them. Make one
// with NewModels.
//
// The lock that guards a save guards a Models. Compare, Loaded, AddGone and End use the windows,
// which may have a lock of their own.
type Models[T any, W Window[T]] struct {
	token   func(T) state.Token
	known   map[string]*known[W]
	changed map[string]*change[T, W] // by the comparison under way
	round   int                      // counts the comparisons
}

// known is the content of the database for a model.
type known[W comparable] struct {
	window W              // whose entries it has, as far as their logs say; zero for none
	day    state.DayUsage // the day of the window, whose counts are in there
	round  int            // the last comparison that met the model in memory
}

// change is the work of one save for one model.
type change[T any, W comparable] struct {
	sqlitestate.Change
	window   W // zero if it is not in memory any more
	requests ring.Changes[time.Time]
	tokens   ring.Changes[T]
}

// NewModels returns the Models of an empty database. token converts an entry.
func NewModels[T any, W Window[T]](token func(T) state.Token) *Models[T, W] {
	return &Models[T, W]{token: token, known: make(map[string]*known[W])}
}

// Loaded notes that the database has a day of a model, and the entries of a window as they are; the
// zero window for none.
func (m *Models[T, W]) Loaded(model string, w W, day state.DayUsage) {
	var none W
	if w != none {
		requests, tokens := w.Entries()
		requests.StartStoredLog()
		tokens.StartStoredLog()
	}
	m.known[model] = &known[W]{window: w, day: day}
}

// Begin begins a comparison of all models in memory. The last one must have ended.
func (m *Models[T, W]) Begin() {
	m.round++
	m.changed = make(map[string]*change[T, W])
}

// Compare compares a model in memory, at an instant that is wall in UnixNano. If it differs,
// Compare returns true, what the database lacks counts as being written until End, and the entries
// must stay where and as they are as long as the changes are read. A model that is met twice
// counts as it was then.
func (m *Models[T, W]) Compare(model string, w W, instant, wall int64) (differs bool) {
	k := m.known[model]
	if k != nil {
		k.round = m.round
	}
	differs, forget := m.compare(k, w, instant, wall)
	if differs {
		c := m.begin(model, w)
		c.Continues, c.Forget = k != nil && k.window == w, forget
		m.changed[model] = c
	}
	return differs
}

// compare reports whether a window differs from what is known to be stored, and whether that
// is to be forgotten. A window other than the one that was written is all new. What was
// written of the old one is then no longer true, because the program reset the model or
// replaced its entry, unless the old one went because nothing in it was counted any more.
func (m *Models[T, W]) compare(k *known[W], w W, instant, wall int64) (differs, forget bool) {
	switch {
	case k == nil:
		return true, false
	case k.window != w:
		return true, !m.lapsed(k, instant, wall)
	}
	day, _ := w.Day()
	return !m.upToDate(w) || !k.day.Same(day), false
}

// lapsed reports whether nothing that is known to be stored counts any more. Where the window is
// not known, something might.
func (m *Models[T, W]) lapsed(k *known[W], instant, wall int64) bool {
	var none W
	return k.window != none && k.window.Lapsed(instant, wall)
}

// upToDate reports whether the database has the entries of a window as they are.
func (m *Models[T, W]) upToDate(w W) bool {
	requests, tokens := w.Entries()
	return requests.Log().UpToDate() && tokens.Log().UpToDate()
}

// begin takes the entries to write from a window, which counts them as being written until End.
func (m *Models[T, W]) begin(model string, w W) *change[T, W] {
	requests, tokens := w.Entries()
	c := &change[T, W]{window: w, requests: requests.StartLog().Begin(), tokens: tokens.StartLog().Begin()}
	c.Model = model
	c.Requests = c.requests.Added
	c.Tokens = state.TokenView[T]{Entries: c.tokens.Added, Token: m.token}
	for _, fix := range c.requests.Corrected {
		c.RequestFixes = append(c.RequestFixes, sqlitestate.Fix[time.Time]{Value: fix.Value, Added: fix.Added})
	}
	for _, fix := range c.tokens.Corrected {
		c.TokenFixes = append(c.TokenFixes, sqlitestate.Fix[state.Token]{Value: m.token(fix.Value), Added: fix.Added})
	}
	c.Day, c.Zone = w.Day()
	return c
}

// AddGone ends the comparison, at an instant that is wall in UnixNano, with the models that the
// database has and memory has no longer.
func (m *Models[T, W]) AddGone(instant, wall int64) {
	for model, k := range m.known {
		if k.round == m.round {
			continue
		}
		c := &change[T, W]{Change: sqlitestate.Change{Model: model, Gone: true}}
		if m.lapsed(k, instant, wall) {
			c.Continues, c.Day = true, k.day
			_, c.Zone = k.window.Day()
		} else {
			c.Forget = true
		}
		m.changed[model] = c
	}
}

// Changes returns the changes to be written, in the order of the models.
func (m *Models[T, W]) Changes() []*sqlitestate.Change {
	changes := make([]*sqlitestate.Change, 0, len(m.changed))
	for _, model := range slices.Sorted(maps.Keys(m.changed)) {
		changes = append(changes, &m.changed[model].Change)
	}
	return changes
}

// End notes whether the database has the changes of the comparison. It calls yield now and then,
// which may let others use the windows. Without a comparison it does nothing.
func (m *Models[T, W]) End(ok bool, yield func()) {
	for model, c := range m.changed {
		m.end(c, ok)
		switch {
		case !ok:
		case c.Gone:
			delete(m.known, model)
		default:
			m.known[model] = &known[W]{window: c.window, day: c.Day, round: m.round}
		}
		yield()
	}
	m.changed = nil
}

// end tells the window of a change whether the database has that.
func (m *Models[T, W]) end(c *change[T, W], ok bool) {
	var none W
	w := c.window
	if w == none {
		return
	}
	requests, tokens := w.Entries()
	requests.Log().End(ok, c.requests)
	tokens.Log().End(ok, c.tokens)
	if day, _ := w.Day(); ok && m.upToDate(w) && day.Same(c.Day) {
		w.Saved()
	}
}
