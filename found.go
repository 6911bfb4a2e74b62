package ratelimit

import (
	"maps"
	"slices"
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/found"
	"dappco.re/go/core/go-ratelimit/internal/modelname"
	"dappco.re/go/core/go-ratelimit/internal/sharedlog/combine"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// foundModels is the limits that are searched for, by the names under which their models are
// counted. There are at most twice as many as models that may have state.
type foundModels map[string]*found.Limits

// adapts reports whether the quota searches for a limit. One that is invalid does, too.
func (q *ModelQuota) adapts() bool {
	return (*state.Quota)(q).AdaptsRate() || (*state.Quota)(q).AdaptsSlots()
}

// limitsSlots reports whether the quota limits the calls in flight, by a number or by one to be
// found.
func (q *ModelQuota) limitsSlots() bool {
	return q.MaxInFlight != 0 || (*state.Quota)(q).AdaptsSlots()
}

// limitSlots lowers MaxInFlight to a limit that was found; 0 is none.
func (q *ModelQuota) limitSlots(most int) {
	if most > 0 && (q.MaxInFlight == 0 || most < q.MaxInFlight) {
		q.MaxInFlight = most
	}
}

// of returns what was found for a quota; nil where it searches for nothing, or the search has to be
// begun or bounded anew first.
func (m foundModels) of(name string, q *ModelQuota) *found.Limits {
	if f := m[name]; f != nil {
		if b := found.BoundsOf((*state.Quota)(q)); b == f.Bounds() && b != (found.Bounds{}) {
			return f
		}
	}
	return nil
}

// foundLocked is foundModels.of, and begins a search or bounds it anew. keeps says whether it keeps
// one that it begins: names that are only asked for take no memory.
func (rl *RateLimiter) foundLocked(name string, q *ModelQuota, instant int64, keeps bool) *found.Limits {
	b, f := found.BoundsOf((*state.Quota)(q)), rl.found[name]
	switch {
	case b == found.Bounds{}:
		return nil
	case f == nil:
		f = found.New(b, instant)
		if keeps {
			rl.keepFoundLocked(name, f)
		}
	case f.Bounds() != b:
		f.Bind(b, instant, rl.clock.UnixNano(instant))
	}
	return f
}

// coveredFoundLocked is foundLocked for the quota that covers a counted name.
func (rl *RateLimiter) coveredFoundLocked(name string, instant int64) *found.Limits {
	var q ModelQuota
	rl.coverRLocked(name, &q)
	return rl.foundLocked(name, &q, instant, true)
}

// keepFoundLocked keeps what was found of a model. Where there are too many, one is forgotten that
// has no state and no quota of its own: nearly half of them are such.
func (rl *RateLimiter) keepFoundLocked(name string, f *found.Limits) {
	if rl.found == nil {
		rl.found = make(foundModels)
	}
	if most := 2 * (rl.mostModels() + len(rl.Quotas)); len(rl.found) >= most && rl.found[name] == nil {
		for other := range rl.found {
			if _, own := rl.Quotas[other]; !own && !state.IsPool(other) && rl.State[other] == nil {
				delete(rl.found, other)
				break
			}
		}
	}
	rl.found[strings.Clone(name)] = f // see stateLocked
}

// findOnLocked has the search for the limits of a model go on with a request that was charged. Nil
// limits are those of an invalid quota.
func (rl *RateLimiter) findOnLocked(f *found.Limits, w *window, instant int64) {
	if f == nil {
		return
	}
	if f.IsDue(instant) && f.GoOn(instant) != 0 {
		rl.changedNowLocked()
		if w.slots.waiting() > 0 {
			rl.linesLocked().reviewLaterLocked(w.slots) // there may be more slots
		}
	}
	f.Count(instant, 1, w.slots.calls(), rl.ledger.sharersLocked())
}

// endFoundLocked notes that a call that was sent has ended.
func (r *Reservation) endFoundLocked() {
	if f := r.home.found[r.slots().name]; f != nil {
		f.Ended(r.home.clock.Now())
	}
}

// uncountFoundLocked takes back the request of a call that was not sent.
func (r *Reservation) uncountFoundLocked() {
	if f := r.home.found[r.slots().name]; f != nil {
		f.Uncount(r.instant)
	}
}

// foundsRLocked returns what was found of all models until an instant, as stores see it.
func (rl *RateLimiter) foundsRLocked(instant int64) map[string]state.Found {
	wall := rl.clock.UnixNano(instant)
	all := make(map[string]state.Found, len(rl.found))
	for model, f := range rl.found {
		all[model] = f.Present(instant, wall)
	}
	return all
}

// takeFoundsLocked takes over what a file has found, unless this limiter has found something later.
// It ages with the first call of the model.
func (rl *RateLimiter) takeFoundsLocked(founds map[string]state.Found) {
	instant := rl.clock.Sync()
	wall := rl.clock.UnixNano(instant)
	for _, model := range slices.Sorted(maps.Keys(founds)) {
		known := founds[model]
		known.Told = known.Told && rl.learns
		f := rl.found[model]
		if (f == nil || f.Present(instant, wall).At < known.At) && modelname.IsName(model) {
			rl.keepFoundLocked(model, found.Stored(known))
		}
	}
}

// isToldNewsRLocked reports whether a provider's report ends the search for the rate of a model.
func (rl *RateLimiter) isToldNewsRLocked(name string, q *ModelQuota, limits *ProviderLimits) bool {
	if !rl.learns || !q.adapts() || found.BoundsOf((*state.Quota)(q)).FloorRPM == 0 {
		return false
	}
	if reports := limits.reports(); !reports.SaysMinute() {
		return false
	}
	f := rl.found[name]
	return f == nil || !f.IsTold()
}

// forgetTold has the rate of a model be searched for again, whatever its provider says; of all
// models that a pattern or "*" may cover.
func (m foundModels) forgetTold(name string) {
	if f := m[name]; f != nil {
		f.Tell(false)
	}
	if strings.Contains(name, everyModel) && !state.IsPool(name) {
		for _, f := range m {
			f.Tell(false)
		}
	}
}

// forgetUsage lets the next request of a model, or of all models, start now. What was found stays.
func (m foundModels) forgetUsage(name string) {
	if f := m[name]; f != nil {
		f.Forget()
	}
	if name == "" {
		for _, f := range m {
			f.Forget()
		}
	}
}

// timeoutProblem is ProviderRefusal.Problem of a call without an answer.
const timeoutProblem = "timeout"

// toFind returns what a refusal tells of limits that are searched for, and whether it tells
// anything.
func (r *ProviderRefusal) toFind() (f found.Refusal, tells bool) {
	switch r.Problem {
	case string(CauseRateLimited):
		return found.Refusal{Wait: int64(r.RetryAfter)}, true
	case string(CauseOverloaded), timeoutProblem:
		f.Overload = true
		return f, true
	}
	return f, false
}

// findByRefusal has the search for the limits of a model go on after a refusal, in all processes
// that share it.
func (rl *RateLimiter) findByRefusal(r *ProviderRefusal) {
	refusal, tells := r.toFind()
	if !tells {
		return
	}
	name, adapts, pools := rl.searchersOf(r.Model)
	if adapts {
		rl.findCountedByRefusal(name, r, refusal)
	}
	for _, name := range pools {
		rl.findCountedByRefusal(name, r, refusal)
	}
}

// findCountedByRefusal is findByRefusal for what is counted under a name.
func (rl *RateLimiter) findCountedByRefusal(name string, r *ProviderRefusal, refusal found.Refusal) {
	if rl.findByRefusalHere(name, r, &refusal) {
		of, spread := name, refusal // apart, because the function puts them on the heap
		rl.ledger.update(combine.Apart, func(p *plan) { p.findByRefusal(of, spread) })
	}
}

// searchersOf returns the counted name of a model, whether its quota searches for limits, and the
// pools of the model whose quotas do.
func (rl *RateLimiter) searchersOf(model string) (name string, adapts bool, pools []string) {
	var q ModelQuota
	rl.mu.Lock()
	defer rl.mu.Unlock()
	name, _ = rl.findRLocked(model, &q)
	if rl.pools.count > 0 {
		for _, p := range rl.poolsLocked(name, model, unused) {
			if p.quota.adapts() {
				pools = append(pools, p.counted)
			}
		}
	}
	return name, q.adapts(), pools
}

// findByRefusalHere is findByRefusal for what is counted under a name, and for this limiter, unless
// others have to be told: then it changes nothing.
func (rl *RateLimiter) findByRefusalHere(name string, r *ProviderRefusal, refusal *found.Refusal) (spreads bool) {
	rl.mu.Lock()
	defer rl.mu.Unlock()
	var q ModelQuota
	rl.coverRLocked(name, &q)
	instant := rl.clock.Sync()
	if took := rl.clock.At(instant).Sub(rl.clock.Own(r.SentAt)); !r.SentAt.IsZero() && took >= 0 {
		refusal.Took = max(int64(took), 1)
	}
	if !found.BoundsOf((*state.Quota)(&q)).Concerns(*refusal) {
		return false
	}
	f := rl.foundLocked(name, &q, instant, true)
	if rl.ledger != nil && rl.ledger.spreadsLocked(name, f, *refusal, instant) {
		return true
	}
	if _, lowered := f.Refuse(*refusal, instant); lowered {
		rl.changedNowLocked()
		if l := rl.linesLocked(); l.waiting > 0 {
			l.reviewAllLaterLocked(l.allSlots[name])
			l.settleLocked()
		}
	}
	return false
}

// foundLimits returns what was found for the quota of a view; nil where it searches for nothing.
func (r *view) foundLimits() *FoundLimits {
	if r.found == nil {
		return nil
	}
	known, b := r.found.Present(r.instant, r.wall), r.found.Bounds()
	l := &FoundLimits{
		FloorRPM: b.FloorRPM, CeilingRPM: b.CeilingRPM, RefusedRPM: found.Scaled(known.Rate.Knee, 60, 1e9),
		FloorInFlight: b.FloorSlots, CeilingInFlight: b.CeilingSlots, OverloadedInFlight: found.Scaled(known.Slots.Knee, 1, 1000),
		Told: known.Told,
	}
	l.RPM, l.InFlight = r.found.Found(r.instant)
	l.RateLoweredAt, l.InFlightLoweredAt = r.loweredAt(&known.Rate), r.loweredAt(&known.Slots)
	return l
}

// loweredAt returns when a limit was last lowered; the zero time for never.
func (r *view) loweredAt(s *state.Search) time.Time {
	if s.Lowered == 0 {
		return time.Time{}
	}
	return time.Unix(0, r.wall).Add(-time.Duration(s.Lowered))
}
