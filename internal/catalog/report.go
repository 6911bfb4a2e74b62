package catalog

import "dappco.re/go/core/go-ratelimit/internal/state"

// PoolReport is what a report on a model tells of one of its pools.
type PoolReport struct {
	Pool   string
	Limits state.ReportedLimits
}

// Reports returns what a report on a model tells of the model itself, and of its pools. It is true
// of the pool of a profile, which is the bucket that the provider reports. A pool of the program
// has a limit that the report may mean where the model has none of the kind, and no other pool. One
// whose limit is larger than the reported one is not the reported bucket, but holds several of
// them.
func (c *Catalog) Reports(counted, asked string, report state.ReportedLimits) (own state.ReportedLimits, pools []PoolReport) {
	own = report
	if len(c.pools) == 0 {
		return own, nil
	}
	_, q, _ := c.Cover(counted)
	in := c.list(counted, asked).pools
	for _, p := range in {
		if p.isProvided() {
			pools = append(pools, PoolReport{p.name, report})
			continue
		}
		var limits state.ReportedLimits
		for of := range state.InFlight {
			limit := *c.limit(p, of)
			below := 0 < report[of].Limit && report[of].Limit < limit
			if *q.Limit(of) == 0 && !below && c.onlyLimitedBy(in, of) == p {
				limits[of] = report[of]
				own[of] = state.ReportedLimit{} // else the model would learn the limit that all share
			}
		}
		if limits != (state.ReportedLimits{}) {
			pools = append(pools, PoolReport{p.name, limits})
		}
	}
	return own, pools
}

func (c *Catalog) limit(p *pool, of state.Dimension) *int {
	q := c.quotas[p.name]
	return q.Limit(of)
}

// onlyLimitedBy returns the pool of the program that limits a dimension; nil where several or none
// do.
func (c *Catalog) onlyLimitedBy(in []*pool, of state.Dimension) (only *pool) {
	for _, p := range in {
		switch {
		case p.isProvided() || *c.limit(p, of) == 0:
		case only != nil:
			return nil
		default:
			only = p
		}
	}
	return only
}
