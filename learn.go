package ratelimit

import (
	"maps"
	"strings"

	"dappco.re/go/core/go-ratelimit/internal/modelname"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// mostLearned is the largest limit of a provider that is believed.
const mostLearned = 1 << 40

// learned is a quota that a provider has corrected.
type learned struct {
	is     ModelQuota // the quota in Quotas; if that differs, this is void
	said   ModelQuota // the quota before, if byHand: its limits are never exceeded
	byHand bool
	copy   bool // the model had the quota of "*"
}

// provenance tells where the quotas of the limiter come from. It goes by their values, because a
// program may change the map Quotas by hand.
type provenance struct {
	supplied map[string]ModelQuota // by profiles and files, not by the program
	learned  map[string]learned    // corrected by reports of providers
}

// saidRLocked returns the quota of a name in Quotas as the program set it; false where it has
// none, or a profile or a file supplied it. Quotas in a shared store were set by the program of
// some process.
func (rl *RateLimiter) saidRLocked(name string) (said ModelQuota, byHand bool) {
	q, exists := rl.Quotas[name]
	if !exists {
		return ModelQuota{}, false
	}
	if l, ok := rl.provenance.learned[name]; ok && l.is == q {
		return l.said, l.byHand
	}
	if rl.provenance.isSupplied(name, q) && !rl.ledger.hasQuota(name, q) {
		return ModelQuota{}, false
	}
	return q, true
}

// supply notes that a quota was supplied.
func (p *provenance) supply(name string, q ModelQuota) {
	if p.supplied == nil {
		p.supplied = make(map[string]ModelQuota)
	}
	p.supplied[name] = q
}

// isSupplied reports whether a quota is the one that was supplied.
func (p *provenance) isSupplied(name string, q ModelQuota) bool {
	s, ok := p.supplied[name]
	return ok && s == q
}

// stored copies the quotas that belong into a file. Corrected copies of the quota "*" do not:
// read back, nothing would keep them below "*".
func (p *provenance) stored(quotas map[string]ModelQuota) map[string]ModelQuota {
	quotas = maps.Clone(quotas)
	for model, l := range p.learned {
		if l.copy && quotas[model] == l.is {
			delete(quotas, model)
		}
	}
	return quotas
}

// lessonRLocked returns the quota of a model as corrected by the report of its provider, and
// whether that differs. q is its present quota; the zero quota for none.
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
	copied := rl.provenance.learned[name].copy
	if !own {
		name = strings.Clone(name) // see stateLocked
		said, byHand = rl.saidRLocked(everyModel)
		copied = known
	}
	rl.supplyLocked(nil) // makes the map
	rl.Quotas[name] = q
	rl.unlistedLocked().relistLocked(name)
	if byHand && !copied {
		delete(rl.provenance.supplied, name)
	} else {
		rl.provenance.supply(name, q)
	}
	if rl.provenance.learned == nil {
		rl.provenance.learned = make(map[string]learned)
	}
	if copied || byHand && q != said {
		rl.provenance.learned[name] = learned{q, said, byHand, copied}
	} else {
		delete(rl.provenance.learned, name)
	}
	rl.changedNowLocked()
	rl.requoteLocked()
}

// unlearnLocked forgets the corrections of a quota that was set anew. Models that had a corrected
// copy of "*" have "*" again.
func (rl *RateLimiter) unlearnLocked(name string) {
	delete(rl.provenance.learned, name)
	if name != everyModel {
		return
	}
	for model, l := range rl.provenance.learned {
		if !l.copy {
			continue
		}
		delete(rl.provenance.learned, model)
		if rl.Quotas[model] == l.is {
			delete(rl.Quotas, model)
			delete(rl.provenance.supplied, model)
			rl.unlistedLocked().relistLocked(model)
		}
	}
}
