package ratelimit

import (
	"cmp"
	"math"
	"reflect"
	"slices"

	"dappco.re/go/core/go-ratelimit/internal/eviction"
	"dappco.re/go/core/go-ratelimit/internal/modelname"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// unlistedModels is the models that hold state without a quota of their own: those that only the
// quota "*" covers, and those without any. Config.MaxModels bounds their number: where it is
// reached, a new one takes the place of the idle one that was used least recently.
//
// The index of them is made when the bound is first reached, and anew where a program has put
// other entries into State or Quotas. The zero value knows nothing.
type unlistedModels struct {
	rl *RateLimiter

	state  map[string]*UsageStats // that was indexed; nil for none
	quotas map[string]ModelQuota  // by which it was
	states int                    // the length of state
	listed int                    // the length of quotas
	every  ModelQuota             // the quota "*"

	index eviction.Index
}

// unlistedLocked returns the unlisted models. They learn here which limiter theirs is, because a
// zero RateLimiter has no constructor.
func (rl *RateLimiter) unlistedLocked() *unlistedModels {
	rl.unlisted.rl = rl
	return &rl.unlisted
}

// isListedRLocked reports whether a model has a quota of its own. A pattern is the name of a quota
// and not of a model.
func (rl *RateLimiter) isListedRLocked(name string) bool {
	_, own := rl.Quotas[name]
	return own && !modelname.IsPattern(name) || state.IsPool(name)
}

// mostModels is the bound on models without a quota of their own that hold state.
func (rl *RateLimiter) mostModels() int { return cmp.Or(rl.maxModels, defaultMaxModels) }

func sameMap[K comparable, V any](a, b map[K]V) bool {
	return reflect.ValueOf(a).UnsafePointer() == reflect.ValueOf(b).UnsafePointer()
}

// indexLocked returns the index, made where there is none that is still right.
func (u *unlistedModels) indexLocked(instant int64) *eviction.Index {
	rl := u.rl
	if u.state == nil || u.states != len(rl.State) || u.listed != len(rl.Quotas) || u.every != rl.Quotas[everyModel] ||
		!sameMap(u.state, rl.State) || !sameMap(u.quotas, rl.Quotas) {
		u.makeIndexLocked(instant)
	}
	return &u.index
}

// makeIndexLocked looks at all models.
func (u *unlistedModels) makeIndexLocked(instant int64) {
	rl := u.rl
	*u = unlistedModels{rl: rl}
	var models []*eviction.Model
	for name, stats := range rl.State {
		switch listed := rl.isListedRLocked(name); {
		case stats == nil && !listed:
			delete(rl.State, name)
		case stats == nil:
		case listed && stats.window != nil:
			stats.window.unlisted = nil
		case !listed:
			m := &eviction.Model{Name: name}
			rl.windowLocked(name, stats, instant).unlisted = m
			models = append(models, m)
		}
	}
	u.state, u.quotas = rl.State, rl.Quotas
	u.states, u.listed, u.every = len(rl.State), len(rl.Quotas), rl.Quotas[everyModel]
	for _, m := range models {
		u.orderLocked(m, rl.State[m.Name].window, instant)
	}
}

// addLocked notes a model that is new in State.
func (u *unlistedModels) addLocked(name string, w *window) {
	if u.state == nil || state.IsPool(name) {
		return
	}
	u.states++
	if !u.rl.isListedRLocked(name) {
		w.unlisted = &eviction.Model{Name: name}
		u.index.AddIdle(w.unlisted, w.usedAt)
	}
}

// removeLocked notes that a model is to leave State.
func (u *unlistedModels) removeLocked(name string) {
	stats, exists := u.rl.State[name]
	if u.state == nil || !exists {
		return
	}
	u.states--
	if stats != nil && stats.window != nil && stats.window.unlisted != nil {
		stats.window.unlisted.Leave()
		stats.window.unlisted = nil
	} else if !u.rl.isListedRLocked(name) {
		u.state = nil // a program has put another entry there
	}
}

// relistLocked follows the quota of one model, which was set or is none any more.
func (u *unlistedModels) relistLocked(name string) {
	rl := u.rl
	if u.state == nil || !sameMap(u.quotas, rl.Quotas) {
		return
	}
	u.listed = len(rl.Quotas)
	if modelname.IsPattern(name) {
		u.state = nil // it covers any of the models
		return
	}
	stats := rl.State[name]
	if stats == nil {
		return
	}
	instant := rl.clock.Sync()
	w := rl.windowLocked(name, stats, instant)
	switch listed := rl.isListedRLocked(name); {
	case u.state == nil:
	case listed && w.unlisted != nil:
		w.unlisted.Leave()
		w.unlisted = nil
	case !listed && w.unlisted == nil:
		w.unlisted = &eviction.Model{Name: name}
		u.index.AddBusy(w.unlisted, instant) // its day may end at another time now
	}
}

// chargedLocked notes that a model was charged at an instant.
func (u *unlistedModels) chargedLocked(w *window, instant int64) {
	if w.unlisted != nil {
		u.index.Used(w.unlisted, instant+u.rl.span()+1)
	}
}

// easeLocked notes that a model may be idle earlier than it would have been.
func (u *unlistedModels) easeLocked(name string) {
	if u.state == nil {
		return
	}
	stats := u.rl.State[name]
	if stats == nil || stats.window == nil || stats.window.unlisted == nil {
		return
	}
	u.index.Ease(stats.window.unlisted, u.useLocked(stats.window))
}

// useLocked returns the use of a model. It is idle only when no call of it is under way nor waits,
// and its day counts where that is limited.
func (u *unlistedModels) useLocked(w *window) eviction.Use {
	use := eviction.Use{LastAt: w.usedAt, IdleAt: math.MinInt64}
	if u.isAttendedLocked(w) {
		use.IdleAt = never
		return use
	}
	if w.owes != 0 {
		use.IdleAt = w.owes
	}
	if n := w.requests.Len(); n > 0 {
		use.IdleAt = max(use.IdleAt, w.requests.When(n-1)+u.rl.span()+1)
	}
	if n := w.tokens.Len(); n > 0 {
		use.IdleAt = max(use.IdleAt, w.tokens.When(n-1)+u.rl.span()+1)
	}
	if q := u.quotaLocked(w); q.MaxRPD != 0 && w.dayCount() > 0 || q.MaxTPD != 0 && w.dayTokens() > 0 {
		use.DayEnd = w.period.End
	}
	return use
}

// isAttendedLocked reports whether an unlisted model keeps its place, whatever it has used: it has
// waiters, or calls in flight that are limited.
func (u *unlistedModels) isAttendedLocked(w *window) bool {
	g := w.slots
	return g != nil && (g.inFlight > 0 && u.quotaLocked(w).limitsSlots() || g.line.Len() > 0)
}

// quotaLocked returns the quota of an unlisted model: that of a pattern, or "*".
func (u *unlistedModels) quotaLocked(w *window) *ModelQuota {
	if pattern, ok := u.rl.patterns.indexRLocked(u.rl).Longest(w.unlisted.Name); ok {
		q := u.rl.Quotas[pattern]
		return &q
	}
	return &u.every
}

// orderLocked moves a model, whose window is in order, to where it belongs.
func (u *unlistedModels) orderLocked(m *eviction.Model, w *window, instant int64) {
	u.index.Order(m, u.useLocked(w), instant, u.rl.clock.UnixNano(instant))
}

// reorderLocked looks at a model again.
func (u *unlistedModels) reorderLocked(m *eviction.Model, instant int64) {
	rl := u.rl
	stats := rl.State[m.Name]
	if stats == nil {
		m.Leave() // a program has taken the entry away
		return
	}
	w := stats.window
	if !w.mirrors(stats, rl) {
		w = rl.makeWindowLocked(m.Name, stats, instant)
	}
	w.unlisted = m
	rl.windowLocked(m.Name, stats, instant)
	u.orderLocked(m, w, instant)
}

// lookLocked returns a look at the models, of which those of a batch keep their places.
func (u *unlistedModels) lookLocked(instant int64, beside []modelCost) eviction.Look {
	return eviction.Look{
		Instant: instant, UnixNano: u.rl.clock.UnixNano(instant), Span: u.rl.span(),
		Reorder: u.reorderLocked,
		Beside: func(name string) bool {
			return slices.ContainsFunc(beside, func(c modelCost) bool { return c.name == name })
		},
	}
}

// placesLocked returns how many of n more models would find a place, beside those of a batch,
// which keep theirs.
func (u *unlistedModels) placesLocked(n int, beside []modelCost, instant int64) (places int) {
	most := u.rl.mostModels()
	if len(u.rl.State)+n <= most {
		return n
	}
	index := u.indexLocked(instant)
	if places = max(most-index.Len(), 0); places >= n {
		return n
	}
	look := u.lookLocked(instant, beside)
	return places + index.Places(n-places, &look)
}

// placeAtLocked returns the instant at which time alone makes the n-th place; never where it does
// not. There is none at present.
func (u *unlistedModels) placeAtLocked(n int, beside []modelCost, instant int64) int64 {
	index := u.indexLocked(instant)
	look := u.lookLocked(instant, beside)
	return index.PlaceAt(n, &look)
}

// fullLocked reports whether there is no place for the state of a model that has none, and the
// instant at which time alone makes one.
func (u *unlistedModels) fullLocked(name string, instant int64) (full bool, freeAt int64) {
	if u.rl.isListedRLocked(name) || u.placesLocked(1, nil, instant) > 0 {
		return false, 0
	}
	return true, u.placeAtLocked(1, nil, instant)
}

// makePlaceLocked makes a place for the state of a model that has none, if need be by forgetting
// an idle one.
func (u *unlistedModels) makePlaceLocked(name string, instant int64) (ok bool) {
	rl := u.rl
	if rl.isListedRLocked(name) || len(rl.State) < rl.mostModels() {
		return true
	}
	index := u.indexLocked(instant)
	if index.Len() < rl.mostModels() {
		return true
	}
	look := u.lookLocked(instant, nil)
	m := index.Idlest(&look)
	if m == nil {
		return false
	}
	rl.forgetLocked(m.Name)
	rl.teller.evictedLocked(m.Name)
	// Calls in flight that nobody limits do not keep the slots, for some are never
	// settled.
	delete(rl.lines.allSlots, m.Name)
	return true
}
