package ratelimit

import (
	"strings"

	"dappco.re/go/core/go-ratelimit/internal/modelname"
	"dappco.re/go/core/go-ratelimit/internal/provenance"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// saidRLocked returns the quota of a name in Quotas as the program set it; false where it has
// none, or a profile or a file supplied it. Quotas in a shared store were set by the program of
// some process.
func (rl *RateLimiter) saidRLocked(name string) (said ModelQuota, byHand bool) {
	q, exists := rl.Quotas[name]
	if !exists {
		return ModelQuota{}, false
	}
	if c, corrected := rl.provenance.Correction(name, q); corrected {
		return c.Said, c.ByHand
	}
	if rl.provenance.IsSupplied(name, q) && !rl.ledger.hasQuota(name, q) {
		return ModelQuota{}, false
	}
	return q, true
}

// lessonRLocked returns the quota of a model as corrected by the report of its provider, and
// whether that differs. q is its present quota; the zero quota for none.
func (rl *RateLimiter) lessonRLocked(name string, q ModelQuota, limits *ProviderLimits) (next ModelQuota, is bool) {
	if !modelname.IsName(name) {
		return q, false // nor has a provider such a model
	}
	source := name
	if _, own := rl.Quotas[name]; !own {
		source = rl.sharedCoverRLocked(name)
	}
	reports := limits.reports()
	if !reports.Differ((*state.Quota)(&q)) {
		return q, false
	}
	said, _ := rl.saidRLocked(source)
	next = ModelQuota(reports.Correct((*state.Quota)(&q), (*state.Quota)(&said)))
	if _, bad := q.invalid(); bad || next == q || source != name && len(rl.Quotas) >= rl.mostModels() {
		return q, false
	}
	return next, true
}

// learnLocked takes over a quota that lessonRLocked returned.
func (rl *RateLimiter) learnLocked(name string, q ModelQuota, known bool) {
	_, own := rl.Quotas[name]
	said, byHand := rl.saidRLocked(name)
	copied := rl.provenance.IsCopy(name)
	if !own {
		name = strings.Clone(name) // see stateLocked
		said, byHand = rl.saidRLocked(rl.sharedCoverRLocked(name))
		copied = known
	}
	rl.supplyLocked(nil) // makes the map
	rl.Quotas[name] = q
	rl.unlistedLocked().relistLocked(name)
	rl.provenance.Learn(name, provenance.Correction[ModelQuota]{Is: q, Said: said, ByHand: byHand, Copied: copied})
	rl.changedNowLocked()
	rl.requoteLocked()
}

// unlearnLocked forgets the corrections of a quota that was set anew. Models that had a corrected
// copy of "*" have "*" again.
func (rl *RateLimiter) unlearnLocked(name string) {
	rl.provenance.Unlearn(name)
	if name != everyModel {
		return
	}
	for _, model := range rl.provenance.UnlearnCopies(rl.Quotas) {
		rl.unlistedLocked().relistLocked(model)
	}
}
