package ratelimit

import (
	"cmp"
	"math"
	"slices"
)

// guests is what is known of the models that hold state without a quota of
// their own. To look at all of them takes long, so what was found is kept: who
// is idle, or until when nobody will be. The zero value knows nothing.
type guests struct {
	spare     int     // so many more may come before they have to be counted
	idle      []guest // the one used least recently last
	fullUntil int64   // until this instant none becomes idle, unless something is given back
}

type guest struct {
	name   string
	window *window
	usedAt int64
}

// keepIdle is how many idle guests are remembered.
const keepIdle = 256

// mostModels is how many models without a quota of their own may hold state.
func (rl *RateLimiter) mostModels() int { return cmp.Or(rl.maxModels, defaultMaxModels) }

// crowdedLocked reports whether somebody may wait for a place.
func (rl *RateLimiter) crowdedLocked() bool {
	return rl.waiting > 0 && len(rl.State) >= rl.mostModels()
}

// fullLocked reports whether there is no place for the state of a model that has
// none, and at which instant there will be, as far as time alone makes it.
func (rl *RateLimiter) fullLocked(name string, instant int64) (full bool, freeAt int64) {
	if _, own := rl.Quotas[name]; own || len(rl.State) < rl.mostModels() || rl.guests.spare > 0 {
		return false, 0
	}
	if rl.idlestLocked(instant) >= 0 {
		return false, 0
	}
	if instant >= rl.guests.fullUntil {
		rl.countGuestsLocked(instant)
	}
	return rl.guests.spare == 0 && len(rl.guests.idle) == 0, rl.guests.fullUntil
}

// makePlaceLocked makes place for the state of a model that has none, if need be
// by forgetting an idle one.
func (rl *RateLimiter) makePlaceLocked(name string, instant int64) (ok bool) {
	if full, _ := rl.fullLocked(name, instant); full {
		return false
	}
	if _, own := rl.Quotas[name]; own {
		return true
	}
	rl.guests.fullUntil = 0
	if len(rl.State) < rl.mostModels() || rl.guests.spare > 0 {
		rl.guests.spare = max(rl.guests.spare-1, 0)
		return true
	}
	i := rl.idlestLocked(instant)
	idle := rl.guests.idle[i].name
	rl.guests.idle = rl.guests.idle[:i]
	rl.forgetLocked(idle)
	// Calls in flight that nobody limits do not keep the gate, for some are never
	// settled.
	delete(rl.gates, idle)
	return true
}

// roomLocked reports whether there is place for the state of as many models more,
// beside those of the given names.
func (rl *RateLimiter) roomLocked(more int, beside []modelCost, instant int64) bool {
	if len(rl.State)+more <= rl.mostModels() {
		return true
	}
	busy := 0
	for name, stats := range rl.State {
		if _, own := rl.Quotas[name]; own || stats == nil {
			continue
		}
		if slices.ContainsFunc(beside, func(m modelCost) bool { return m.name == name }) || rl.idleAtLocked(name, stats, instant) > instant {
			busy++
		}
	}
	return busy+more <= rl.mostModels()
}

// idlestLocked returns which of the idle guests has not been used for longest,
// after dropping those that are not idle any more; -1 when there is none.
func (rl *RateLimiter) idlestLocked(instant int64) int {
	idle := rl.guests.idle
	for len(idle) > 0 {
		g := idle[len(idle)-1]
		if stats := rl.State[g.name]; stats != nil && stats.window == g.window && g.window.usedAt == g.usedAt {
			if at := rl.idleAtLocked(g.name, stats, instant); at <= instant {
				break
			}
		}
		idle = idle[:len(idle)-1]
	}
	rl.guests.idle = idle
	return len(idle) - 1
}

// countGuestsLocked looks at all guests.
func (rl *RateLimiter) countGuestsLocked(instant int64) {
	count, next := 0, never
	var idle []guest
	for name, stats := range rl.State {
		if _, own := rl.Quotas[name]; own {
			continue
		}
		if stats == nil {
			delete(rl.State, name)
			continue
		}
		count++
		if at := rl.idleAtLocked(name, stats, instant); at > instant {
			next = min(next, at)
			continue
		}
		idle = append(idle, guest{name, stats.window, stats.window.usedAt})
	}
	slices.SortFunc(idle, func(a, b guest) int {
		return cmp.Or(cmp.Compare(b.usedAt, a.usedAt), cmp.Compare(b.name, a.name))
	})
	rl.guests = guests{
		spare:     max(rl.mostModels()-count, 0),
		idle:      slices.Clone(idle[max(len(idle)-keepIdle, 0):]),
		fullUntil: next,
	}
}

// idleAtLocked returns the instant from which on nothing of a guest counts: its
// minute, its day where that is limited, and who is at it. That is never as long
// as only an event can end it.
func (rl *RateLimiter) idleAtLocked(name string, stats *UsageStats, instant int64) (at int64) {
	q := rl.Quotas[everyModel]
	w := rl.windowLocked(name, stats, instant)
	if g := rl.gates[name]; g != nil && (g.inFlight > 0 && q.MaxInFlight != 0 || g.line.Len() > 0) {
		return never
	}
	at = math.MinInt64
	if instant < w.owes {
		at = w.owes
	}
	if n := w.requests.Len(); n > 0 {
		at = max(at, w.requests.When(n-1)+rl.span()+1)
	}
	if n := w.tokens.Len(); n > 0 {
		at = max(at, w.tokens.When(n-1)+rl.span()+1)
	}
	if q.MaxRPD != 0 && w.dayCount() > 0 || q.MaxTPD != 0 && w.dayTokens() > 0 {
		at = max(at, rl.clock.Instant(w.dayEnd))
	}
	return at
}
