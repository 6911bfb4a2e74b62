package ratelimit

import (
	"maps"
	"slices"
	"strings"

	"dappco.re/go/core/go-ratelimit/internal/modelname"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// foundsRLocked returns what was found of the models' limits, as stores see it.
func (rl *RateLimiter) foundsRLocked() map[string]state.Found {
	if len(rl.found) == 0 {
		return nil
	}
	instant := rl.clock.Now()
	wall := rl.clock.UnixNano(instant)
	all := make(map[string]state.Found, len(rl.found))
	for model, f := range rl.found {
		all[model] = f.present(instant, wall)
	}
	return all
}

// takeFoundsLocked takes over what a file has found, unless this limiter has found something later.
// It ages with the first call of the model.
func (rl *RateLimiter) takeFoundsLocked(founds map[string]state.Found) {
	for _, model := range slices.Sorted(maps.Keys(founds)) {
		known := founds[model]
		if f := rl.found[model]; f != nil && f.used >= known.At || !modelname.IsName(model) {
			continue
		}
		rl.keepFoundLocked(model, newStored(known))
	}
}

// newStored returns what a file or another process has found, for a quota that is to search on.
func newStored(known state.Found) *found {
	return &found{stored: known, used: known.At, told: known.Told}
}

// isToldNewsRLocked reports whether a provider's report ends the search for the rate of a model.
func (rl *RateLimiter) isToldNewsRLocked(name string, q *ModelQuota, limits *ProviderLimits) bool {
	if !rl.learns || q.foundBounds().floorRPM == 0 {
		return false
	}
	if reports := limits.reports(); !reports.SaysMinute() {
		return false
	}
	f := rl.found[name]
	return f == nil || !f.told
}

// tellFoundLocked ends the search for the rate of a model whose provider says its limits.
func (rl *RateLimiter) tellFoundLocked(name string, q *ModelQuota) {
	if f := rl.foundLocked(name, q, rl.clock.Sync(), true); f != nil {
		f.told = true
		rl.changedNowLocked()
		l := rl.linesLocked()
		l.reviewAllLaterLocked(l.allSlots[name])
	}
}

// forgetToldLocked has the rate of a model be searched for again, whatever its provider says; of all
// models that a pattern or "*" may cover.
func (rl *RateLimiter) forgetToldLocked(name string) {
	if f := rl.found[name]; f != nil {
		f.told, f.stored.Told = false, false
	}
	if strings.Contains(name, everyModel) {
		for _, f := range rl.found {
			f.told, f.stored.Told = false, false
		}
	}
}
