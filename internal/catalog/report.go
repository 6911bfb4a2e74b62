package catalog

import "dappco.re/go/core/go-ratelimit/internal/state"

// PoolReport is what a report on a model tells of one of its pools.
type PoolReport struct {
	Pool   string
	Limits state.ReportedLimits
}

// Reports splits a report between a model and its pools. The pool of a profile gets the whole
// report, because that pool is the bucket that the provider reports. A pool of the program gets a
// reported limit if the model has no limit of that kind, and no other pool of the program has
// one. It gets none below its own limit: then the reported bucket is only a part of the pool.
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
