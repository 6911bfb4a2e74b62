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

// poolReportsLocked returns what a report on a model tells of its pools, and what it tells of the
// model itself. It is true of the pool of a provider's profile, which is the bucket that the
// provider reports. A pool of the program has a limit that the report may mean where the model has
// none of the kind, and no other pool. One whose limit is larger than the reported one is not the
// reported bucket, but holds several of them.
func (rl *RateLimiter) poolReportsLocked(model string, limits *ProviderLimits) (reports []poolReport, own *ProviderLimits) {
	var q ModelQuota
	name, _ := rl.findRLocked(model, &q)
	in := rl.poolsLocked(name, model, unused)
	rest := *limits
	for _, p := range in {
		r := poolReport{p, *limits}
		r.limits.Counted = ModelStats{} // that is of the model alone
		tells := p.isProvided()
		for of := range state.InFlight {
			report := r.limits.reportOf(of)
			switch {
			case p.isProvided() || *report == ProviderLimit{}:
			case *q.limit(of) != 0 || onlyLimitedBy(in, of) != p || report.isBelow(*p.quota.limit(of)):
				*report = ProviderLimit{}
			default:
				tells = true
				*rest.reportOf(of) = ProviderLimit{} // else the model would learn the limit that all share
			}
		}
		if tells {
			reports = append(reports, r)
		}
	}
	return reports, &rest
}

// isBelow reports whether a limit is reported that is less than another one.
func (l *ProviderLimit) isBelow(limit int) bool { return l.Limit > 0 && l.Limit < limit }

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
