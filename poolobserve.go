package ratelimit

import "dappco.re/go/core/go-ratelimit/internal/state"

// reportOf returns where the report of a dimension is.
func (l *ProviderLimits) reportOf(of state.Dimension) *ProviderLimit {
	switch of {
	case state.RPM:
		return &l.RPM
	case state.TPM:
		return &l.TPM
	case state.ITPM:
		return &l.ITPM
	case state.OTPM:
		return &l.OTPM
	case state.RPD:
		return &l.RPD
	default:
		return &l.TPD
	}
}

// poolReport is what a report on a model tells of one of its pools.
type poolReport struct {
	pool   *pool
	limits ProviderLimits
}

// poolReportsLocked returns what a report on a model tells of its pools. It is true of the pool of
// a provider's profile, which is the bucket that the provider reports. A pool of the program has a
// limit that the report may mean where the model has none of the kind, and no other pool.
func (rl *RateLimiter) poolReportsLocked(model string, limits *ProviderLimits) (reports []poolReport) {
	var q ModelQuota
	name, _ := rl.findRLocked(model, &q)
	in := rl.poolsLocked(name, model, unused)
	for _, p := range in {
		r := poolReport{p, *limits}
		r.limits.Counted = ModelStats{} // that is of the model alone
		tells := p.isProvided()
		for of := range state.InFlight {
			report := r.limits.reportOf(of)
			switch {
			case p.isProvided():
			case *q.limit(of) != 0 || onlyLimitedBy(in, of) != p:
				*report = ProviderLimit{}
			default:
				tells = tells || *report != ProviderLimit{}
			}
		}
		if tells {
			reports = append(reports, r)
		}
	}
	return reports
}

// onlyLimitedBy returns the pool of the program that limits a dimension; nil where several or none
// do.
func onlyLimitedBy(in []*pool, of state.Dimension) (only *pool) {
	for _, p := range in {
		switch {
		case p.isProvided() || *p.quota.limit(of) == 0:
		case only != nil:
			return nil
		default:
			only = p
		}
	}
	return only
}

// observePoolsLocked is observeLocked for the pools of a model.
func (rl *RateLimiter) observePoolsLocked(model string, limits *ProviderLimits) {
	for _, r := range rl.poolReportsLocked(model, limits) {
		rl.observeCountedLocked(r.pool.counted, r.pool.quota, r.pool.hasQuota, &r.limits)
	}
}

// poolObservationServesLocked is observationServesRLocked for the pools of a model.
func (rl *RateLimiter) poolObservationServesLocked(model string, limits *ProviderLimits) bool {
	for _, r := range rl.poolReportsLocked(model, limits) {
		if rl.observationServesCountedRLocked(r.pool.counted, r.pool.quota, &r.limits) {
			return true
		}
	}
	return false
}
