package ratelimit

import (
	"cmp"
	"slices"
)

// mostModels is the bound on models without a quota of their own that hold state.
func (rl *RateLimiter) mostModels() int { return cmp.Or(rl.maxModels, defaultMaxModels) }

// idlestLocked returns the least recently used idle model; nil where none is idle.
func (rl *RateLimiter) idlestLocked(instant int64) *unlistedModel {
	u := &rl.unlisted
	for {
		// A model whose bound is reached may be idle, too. It was used no earlier than a minute
		// before the bound, so those of a later bound need not be looked at.
		switch due := u.busy.first(); {
		case due <= instant && (len(u.idle) == 0 || u.idle[0].key > due-rl.span()-1):
			rl.reorderLocked(u.busy[0], instant)
			continue
		case u.daily.first() <= rl.clock.UnixNano(instant):
			rl.reorderLocked(u.daily[0], instant)
			continue
		case len(u.idle) == 0:
			return nil
		}
		m := u.idle[0]
		key := m.key
		if rl.reorderLocked(m, instant); m.heap == &u.idle && m.key == key {
			return m
		}
	}
}

// placesLocked returns how many of n more models would find a place, beside those of a batch,
// which keep theirs.
func (rl *RateLimiter) placesLocked(n int, beside []modelCost, instant int64) (places int) {
	if len(rl.State)+n <= rl.mostModels() {
		return n
	}
	u := rl.unlistedLocked(instant)
	if places = max(rl.mostModels()-u.count(), 0); places >= n {
		return n
	}
	var aside []*unlistedModel
	for places < n {
		m := rl.idlestLocked(instant)
		if m == nil {
			break
		}
		if !isBeside(m, beside) {
			if places++; places == n {
				break
			}
		}
		m.leave()
		aside = append(aside, m)
	}
	for _, m := range aside {
		m.move(&u.idle, m.key)
	}
	return places
}

func isBeside(m *unlistedModel, beside []modelCost) bool {
	return slices.ContainsFunc(beside, func(c modelCost) bool { return c.name == m.name })
}

// placeAtLocked returns the instant at which time alone makes the n-th place; never where it does
// not. There is none at present.
func (rl *RateLimiter) placeAtLocked(n int, beside []modelCost, instant int64) (at int64) {
	u := rl.unlistedLocked(instant)
	type bounded struct {
		model *unlistedModel
		heap  *modelHeap
	}
	var aside []bounded
	next := func() *unlistedModel {
		if end := u.daily.first(); end != never && rl.clock.Instant(end) < u.busy.first() {
			return u.daily[0]
		}
		if u.busy.first() == never {
			return nil
		}
		return u.busy[0]
	}
	for at = never; n > 0; {
		m := next()
		if m == nil {
			at = never
			break
		}
		// It is the next one if it still is when its bound was looked at again.
		if rl.reorderLocked(m, instant); m.heap == &u.idle || m != next() {
			continue
		}
		if !isBeside(m, beside) {
			n--
		}
		if at = m.key; m.heap == &u.daily {
			at = rl.clock.Instant(at)
		}
		aside = append(aside, bounded{m, m.heap})
		m.leave()
	}
	for _, b := range aside {
		b.model.move(b.heap, b.model.key)
	}
	return at
}

// fullLocked reports whether there is no place for the state of a model that has none, and the
// instant at which time alone makes one.
func (rl *RateLimiter) fullLocked(name string, instant int64) (full bool, freeAt int64) {
	if rl.isListedRLocked(name) || rl.placesLocked(1, nil, instant) > 0 {
		return false, 0
	}
	return true, rl.placeAtLocked(1, nil, instant)
}

// makePlaceLocked makes a place for the state of a model that has none, if need be by forgetting
// an idle one.
func (rl *RateLimiter) makePlaceLocked(name string, instant int64) (ok bool) {
	if rl.isListedRLocked(name) || len(rl.State) < rl.mostModels() {
		return true
	}
	if u := rl.unlistedLocked(instant); u.count() < rl.mostModels() {
		return true
	}
	m := rl.idlestLocked(instant)
	if m == nil {
		return false
	}
	rl.forgetLocked(m.name)
	// Calls in flight that nobody limits do not keep the gate, for some are never
	// settled.
	delete(rl.gates, m.name)
	return true
}
