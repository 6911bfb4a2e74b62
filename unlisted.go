package ratelimit

import (
	"container/heap"
	"math"
	"reflect"
	"time"
)

// unlistedModels is the models that hold state without a quota of their own: those that only the
// quota "*" covers, and those without any. Config.MaxModels bounds their number: where it is
// reached, a new one takes the place of the idle one that was used least recently.
//
// To look at all of them takes long, so they are kept in order: idle ones by their last use, the
// others by a bound before which they are not idle. A charge moves that instant on and leaves the
// bound, which is looked at again when it is reached; whatever lets a model be idle earlier calls
// easeLocked. So no call looks at more models than have changed since.
//
// The index is made when the bound on the models is first reached, and anew where a program has
// put other entries into State or Quotas. The zero value knows nothing.
type unlistedModels struct {
	state  map[string]*UsageStats // that was indexed; nil for none
	quotas map[string]ModelQuota  // by which it was
	states int                    // the length of state
	listed int                    // the length of quotas
	every  ModelQuota             // the quota "*"

	busy  modelHeap // by the instant before which they are not idle; never where only an event ends that
	daily modelHeap // the same in UnixNano, where it is the end of the day
	idle  modelHeap // by the instant of the last use
}

// unlistedModel is one of them.
type unlistedModel struct {
	name string
	key  int64      // what the heap is ordered by
	heap *modelHeap // that it is in; nil for none
	at   int        // where in that
}

// modelHeap is the models in the order of their keys, as container/heap keeps it.
type modelHeap []*unlistedModel

func (h modelHeap) Len() int { return len(h) }

func (h modelHeap) Less(i, j int) bool {
	if h[i].key != h[j].key {
		return h[i].key < h[j].key
	}
	return h[i].name < h[j].name
}

func (h modelHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}

// Push and Pop are for container/heap.
func (h *modelHeap) Push(x any) {
	m := x.(*unlistedModel)
	m.heap, m.at = h, len(*h)
	*h = append(*h, m)
}

func (h *modelHeap) Pop() any {
	last := len(*h) - 1
	m := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	m.heap = nil
	return m
}

// first returns the key in front; never for none.
func (h modelHeap) first() int64 {
	if len(h) == 0 {
		return never
	}
	return h[0].key
}

// move puts a model into a heap, or to its place in the one that it is in.
func (m *unlistedModel) move(to *modelHeap, key int64) {
	m.key = key
	if m.heap == to {
		heap.Fix(to, m.at)
		return
	}
	m.leave()
	heap.Push(to, m)
}

// leave takes a model out of the heap that it is in.
func (m *unlistedModel) leave() {
	if m.heap != nil {
		heap.Remove(m.heap, m.at)
	}
}

// count is how many there are.
func (u *unlistedModels) count() int { return len(u.busy) + len(u.daily) + len(u.idle) }

// isListedRLocked reports whether a model has a quota of its own.
func (rl *RateLimiter) isListedRLocked(name string) bool {
	_, own := rl.Quotas[name]
	return own
}

func sameMap[K comparable, V any](a, b map[K]V) bool {
	return reflect.ValueOf(a).UnsafePointer() == reflect.ValueOf(b).UnsafePointer()
}

// unlistedLocked returns the index, made where there is none that is still right.
func (rl *RateLimiter) unlistedLocked(instant int64) *unlistedModels {
	u := &rl.unlisted
	if u.state == nil || u.states != len(rl.State) || u.listed != len(rl.Quotas) || u.every != rl.Quotas[everyModel] ||
		!sameMap(u.state, rl.State) || !sameMap(u.quotas, rl.Quotas) {
		rl.indexUnlistedLocked(instant)
	}
	return u
}

// indexUnlistedLocked looks at all models.
func (rl *RateLimiter) indexUnlistedLocked(instant int64) {
	u := &rl.unlisted
	*u = unlistedModels{}
	var models []*unlistedModel
	for name, stats := range rl.State {
		switch listed := rl.isListedRLocked(name); {
		case stats == nil && !listed:
			delete(rl.State, name)
		case stats == nil:
		case listed && stats.window != nil:
			stats.window.unlisted = nil
		case !listed:
			m := &unlistedModel{name: name}
			rl.windowLocked(name, stats, instant).unlisted = m
			models = append(models, m)
		}
	}
	*u = unlistedModels{
		state: rl.State, quotas: rl.Quotas,
		states: len(rl.State), listed: len(rl.Quotas), every: rl.Quotas[everyModel],
	}
	for _, m := range models {
		to, key := rl.orderOfLocked(rl.State[m.name].window, instant)
		m.key = key
		to.Push(m)
	}
	for _, h := range []*modelHeap{&u.busy, &u.daily, &u.idle} {
		heap.Init(h)
	}
}

// addUnlistedLocked notes a model that is new in State.
func (rl *RateLimiter) addUnlistedLocked(name string, w *window) {
	u := &rl.unlisted
	if u.state == nil {
		return
	}
	u.states++
	if !rl.isListedRLocked(name) {
		w.unlisted = &unlistedModel{name: name}
		w.unlisted.move(&u.idle, w.usedAt)
	}
}

// removeUnlistedLocked notes that a model is to leave State.
func (rl *RateLimiter) removeUnlistedLocked(name string) {
	u := &rl.unlisted
	stats, exists := rl.State[name]
	if u.state == nil || !exists {
		return
	}
	u.states--
	if stats != nil && stats.window != nil && stats.window.unlisted != nil {
		stats.window.unlisted.leave()
		stats.window.unlisted = nil
	} else if !rl.isListedRLocked(name) {
		u.state = nil // a program has put another entry there
	}
}

// relistLocked follows the quota of one model, which was set or is none any more.
func (rl *RateLimiter) relistLocked(name string) {
	u := &rl.unlisted
	if u.state == nil || !sameMap(u.quotas, rl.Quotas) {
		return
	}
	u.listed = len(rl.Quotas)
	stats := rl.State[name]
	if stats == nil {
		return
	}
	instant := rl.clock.Sync()
	w := rl.windowLocked(name, stats, instant)
	switch listed := rl.isListedRLocked(name); {
	case u.state == nil:
	case listed && w.unlisted != nil:
		w.unlisted.leave()
		w.unlisted = nil
	case !listed && w.unlisted == nil:
		w.unlisted = &unlistedModel{name: name}
		w.unlisted.move(&u.busy, instant) // to be looked at: its day may end elsewhere now
	}
}

// chargedUnlistedLocked notes that a model was charged now.
func (rl *RateLimiter) chargedUnlistedLocked(w *window, instant int64) {
	const slack = int64(time.Second) // lest a busy model is moved at each call
	m, u := w.unlisted, &rl.unlisted
	if m == nil || m.heap == nil || m.heap == &u.daily {
		return
	}
	if bound := instant + rl.span() + 1; m.heap == &u.idle || m.key < bound-slack {
		m.move(&u.busy, bound)
	}
}

// easeLocked notes that a model may be idle earlier than it would have been.
func (rl *RateLimiter) easeLocked(name string) {
	u := &rl.unlisted
	if u.state == nil {
		return
	}
	stats := rl.State[name]
	if stats == nil || stats.window == nil || stats.window.unlisted == nil {
		return
	}
	w, m := stats.window, stats.window.unlisted
	at, dayEnd := rl.idleAtLocked(w)
	switch {
	case m.heap == &u.idle:
	case dayEnd != 0:
		m.move(&u.daily, dayEnd)
	case at == math.MinInt64:
		m.move(&u.idle, w.usedAt)
	case m.heap != &u.busy || at < m.key:
		m.move(&u.busy, at)
	}
}

// idleAtLocked returns the instant from which on nothing of a model's minute counts, and that no
// call of it is under way nor waits, which is never where only an event ends that; and when its
// day ends, in UnixNano, where that is limited and was used, else 0.
func (rl *RateLimiter) idleAtLocked(w *window) (at, dayEnd int64) {
	every := &rl.unlisted.every
	if rl.isAttendedLocked(w) {
		return never, 0
	}
	at = math.MinInt64
	if w.owes != 0 {
		at = w.owes
	}
	if n := w.requests.Len(); n > 0 {
		at = max(at, w.requests.When(n-1)+rl.span()+1)
	}
	if n := w.tokens.Len(); n > 0 {
		at = max(at, w.tokens.When(n-1)+rl.span()+1)
	}
	if every.MaxRPD != 0 && w.dayCount() > 0 || every.MaxTPD != 0 && w.dayTokens() > 0 {
		dayEnd = w.period.End
	}
	return at, dayEnd
}

// isAttendedLocked reports whether an unlisted model keeps its place, whatever it has used: it has
// waiters, or calls in flight that are limited.
func (rl *RateLimiter) isAttendedLocked(w *window) bool {
	g := w.gate
	return g != nil && (g.inFlight > 0 && rl.unlisted.every.MaxInFlight != 0 || g.line.Len() > 0)
}

// orderOfLocked returns where the model of a window in order belongs.
func (rl *RateLimiter) orderOfLocked(w *window, instant int64) (to *modelHeap, key int64) {
	u := &rl.unlisted
	switch at, dayEnd := rl.idleAtLocked(w); {
	case dayEnd > rl.clock.UnixNano(instant) && rl.clock.Instant(dayEnd) >= at:
		return &u.daily, dayEnd
	case at > instant:
		return &u.busy, at
	}
	return &u.idle, w.usedAt
}

// reorderLocked looks at a model again.
func (rl *RateLimiter) reorderLocked(m *unlistedModel, instant int64) {
	stats := rl.State[m.name]
	if stats == nil {
		m.leave() // a program has taken the entry away
		return
	}
	w := stats.window
	if !w.mirrors(stats, rl) {
		w = rl.makeWindowLocked(m.name, stats, instant)
	}
	w.unlisted = m
	rl.windowLocked(m.name, stats, instant)
	m.move(rl.orderOfLocked(w, instant))
}
