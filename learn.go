package ratelimit

import (
	"maps"
	"strings"

	"dappco.re/go/core/go-ratelimit/internal/modelname"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// mostLearned is the largest limit that is believed.
const mostLearned = 1 << 40

// learned is a quota that a provider has corrected, where something else is to be
// remembered of it.
type learned struct {
	is     ModelQuota // what is in Quotas for it; where that is another, this says nothing
	said   ModelQuota // what it was, if by hand: no limit of that is exceeded
	byHand bool
	copy   bool // the model had the quota of "*"
}

// saidRLocked returns the quota of a name in Quotas as the program said it; false where
// it has none, or a profile or a file supplied it. Those in a shared database were said
// by the program of some process.
func (rl *RateLimiter) saidRLocked(name string) (said ModelQuota, byHand bool) {
	q, exists := rl.Quotas[name]
	if !exists {
		return ModelQuota{}, false
	}
	if l, ok := rl.learned[name]; ok && l.is == q {
		return l.said, l.byHand
	}
	if s, ok := rl.supplied[name]; ok && s == q && !rl.ledger.hasQuota(name, q) {
		return ModelQuota{}, false
	}
	return q, true
}

// lessonRLocked returns the quota of a model as corrected by what its provider says, and
// whether that is another. q is the one that it has; the zero quota if it has none.
func (rl *RateLimiter) lessonRLocked(name string, q ModelQuota, limits *ProviderLimits) (next ModelQuota, is bool) {
	next = q
	if !modelname.IsName(name) {
		return q, false // nor has a provider such a model
	}
	source := name
	if _, own := rl.Quotas[name]; !own {
		source = everyModel
	}
	var said ModelQuota
	asked := false
	for of := range state.InFlight {
		limit := limits.of(of).Limit
		if limit <= 0 || int64(limit) > mostLearned || limit == *q.limit(of) {
			continue
		}
		if !asked {
			said, _ = rl.saidRLocked(source)
			asked = true
		}
		if most := *said.limit(of); most > 0 {
			limit = min(limit, most)
		}
		*next.limit(of) = limit
	}
	if _, bad := q.invalid(); bad || next == q || source != name && len(rl.Quotas) >= rl.mostModels() {
		return q, false
	}
	return next, true
}

// learnLocked takes over a quota that lessonRLocked returned.
func (rl *RateLimiter) learnLocked(name string, q ModelQuota, known bool) {
	_, own := rl.Quotas[name]
	said, byHand := rl.saidRLocked(name)
	copied := rl.learned[name].copy
	if !own {
		name = strings.Clone(name) // see stateLocked
		said, byHand = rl.saidRLocked(everyModel)
		copied = known
	}
	rl.supplyLocked(nil) // makes the maps
	rl.Quotas[name] = q
	if byHand && !copied {
		delete(rl.supplied, name)
	} else {
		rl.supplied[name] = q
	}
	if rl.learned == nil {
		rl.learned = make(map[string]learned)
	}
	if copied || byHand && q != said {
		rl.learned[name] = learned{q, said, byHand, copied}
	} else {
		delete(rl.learned, name)
	}
	rl.changedNowLocked()
	rl.requoteLocked()
}

// unlearnLocked forgets what a provider has said of a quota, because somebody else set
// it. Models that had the quota of "*" with corrections have that of "*" again.
func (rl *RateLimiter) unlearnLocked(name string) {
	delete(rl.learned, name)
	if name != everyModel {
		return
	}
	for model, l := range rl.learned {
		if !l.copy {
			continue
		}
		delete(rl.learned, model)
		if rl.Quotas[model] == l.is {
			delete(rl.Quotas, model)
			delete(rl.supplied, model)
			rl.guests = guests{} // which it is among again
		}
	}
}

// storedQuotasRLocked copies the quotas that belong into a file. Corrected copies of that
// of "*" do not: read back, nothing would keep them below what was said of "*".
func (rl *RateLimiter) storedQuotasRLocked() map[string]ModelQuota {
	quotas := maps.Clone(rl.Quotas)
	for model, l := range rl.learned {
		if l.copy && quotas[model] == l.is {
			delete(quotas, model)
		}
	}
	return quotas
}
