package ratelimit

import (
	"strings"

	"dappco.re/go/core/go-ratelimit/internal/modelname"
	"dappco.re/go/core/go-ratelimit/internal/provenance"
	"dappco.re/go/core/go-ratelimit/internal/sharedlog/combine"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// lessonRLocked returns the quota of a model as corrected by the report of its provider, and
// whether that differs. q is its present quota; the zero quota for none.
func (rl *RateLimiter) lessonRLocked(name string, q ModelQuota, limits *ProviderLimits) (next ModelQuota, differs bool) {
	if !modelname.IsName(name) {
		return q, false // nor has a provider such a model
	}
	source := rl.quotaNameRLocked(name)
	reports := limits.reports()
	if !reports.Differ((*state.Quota)(&q)) {
		return q, false
	}
	is, _ := rl.quotaRLocked(source)
	bounds := rl.provenance.Bounds(source, state.Quota(is))
	next = ModelQuota(reports.Correct((*state.Quota)(&q), &bounds))
	if _, bad := q.invalid(); bad || next == q || source != name && len(rl.Quotas) >= rl.mostModels() {
		return q, false
	}
	return next, true
}

// learnLocked takes over a quota that lessonRLocked returned for a model that has the quota q, or
// none.
func (rl *RateLimiter) learnLocked(name, by string, next, q ModelQuota, known bool) {
	var cover string
	var bounds state.Quota
	if _, own := rl.quotaRLocked(name); !own {
		name = strings.Clone(name) // see stateLocked
		if known {
			cover = rl.sharedCoverRLocked(name)
			bounds = rl.provenance.Bounds(cover, state.Quota(q))
		}
	}
	rl.sayLocked(name, by, func(p *provenance.Quotas) {
		p.Learn(name, state.Quota(next), cover, state.Quota(q), bounds)
	})
	rl.saidLocked()
}

// ForgetLearned forgets what Observe has learned of a model's limits (Config.LearnQuotas), also in
// the file from the next Persist on; ForgetLearned("") does so for all models. The quota before the
// corrections applies again, and a model that had none has none. Aliases and MatchVersions apply.
//
// Waiters are served or refused at once. ForgetLearned is safe for concurrent use.
func (rl *RateLimiter) ForgetLearned(model string) {
	defer rl.teller.begun().flush()
	forget := func() {
		names := rl.provenance.Learned()
		if model != "" {
			names = []string{rl.nameRLocked(model)}
		}
		for _, name := range names {
			rl.sayLocked(name, byProgram, func(p *provenance.Quotas) { p.Forget(name) })
		}
		if model == "" {
			rl.found.forgetTold(everyModel)
		}
		rl.saidLocked()
	}
	if !rl.ledger.update(combine.AppendedApart, func(p *plan) { p.then(forget) }) {
		rl.mu.Lock()
		defer rl.mu.Unlock()
		forget()
	}
}
