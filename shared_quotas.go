package ratelimit

import (
	"maps"

	"dappco.re/go/core/go-ratelimit/internal/modelname"
	"dappco.re/go/core/go-ratelimit/internal/provenance"
	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// setQuota plans a quota of the program. One that is out of range stays with this limiter: the
// others could not read it.
func (p *plan) setQuota(model string, q ModelQuota) {
	if q.validate(model) != nil {
		p.then(func() { p.rl.setQuotaLocked(model, q) })
		return
	}
	p.say(model, &sharedlog.Saying{Origin: state.Program, Is: state.Quota(q)})
}

// removeQuota plans to take back what the program said of a quota; remove does so in memory.
func (p *plan) removeQuota(model string, remove func()) {
	if said := p.s.quotas[model]; said.Has(state.Program) {
		p.say(model, &sharedlog.Saying{Origin: state.Program, Gone: true})
		return
	}
	p.then(remove) // it may be invalid, and so of this limiter alone
}

// setAccount plans what the account says.
func (p *plan) setAccount(account map[string]state.Quota) {
	for _, model := range p.rl.provenance.Changes(account) {
		q, named := account[model]
		p.say(model, &sharedlog.Saying{Origin: state.Account, Is: q, Gone: !named})
	}
}

// say plans what the program or the account says of a quota.
func (p *plan) say(name string, saying *sharedlog.Saying) {
	said := saying.After(p.s.quotas[name])
	after := p.quotasAfter(name, said, saying.Origin)
	if saying.Holds = provenance.Of(said); said.IsEmpty() {
		saying.Holds = state.Quota(after(name))
	}
	p.addNow(&sharedlog.Event{Kind: sharedlog.Quota, Model: name, Text: saying.Text()})
	if saying.Gone && state.IsPool(name) {
		return // it goes with its usage, or its day stays that of the profile's
	}
	for model, stats := range p.rl.allStatsRLocked {
		if stats == nil || model != name && (state.IsPool(name) || p.rl.isListedRLocked(model) || !modelname.Covers(name, model)) {
			continue
		}
		// The model's day may end elsewhere now. A process that reads the log later could not tell.
		day := p.day(model, p.instant)
		p.rl.rezoneLocked(&day.stats, after(model).DayZone, p.instant)
		p.addNow(&sharedlog.Event{Kind: sharedlog.Day, Model: model})
		p.setDay(day)
	}
}

// quotasAfter returns the quotas of models, as they will be when the processes say something of the
// quota of a name, after one of the origins has.
func (p *plan) quotasAfter(name string, said state.Said, by state.Origin) func(model string) ModelQuota {
	after := maps.Clone(p.rl.Quotas)
	if q, ok := p.rl.provenance.After(name, said, by); ok {
		after[name] = ModelQuota(q)
	} else {
		delete(after, name)
	}
	index := modelname.NewIndex(maps.Keys(after))
	return func(model string) ModelQuota {
		if q, own := after[model]; own {
			return q
		}
		if pattern, ok := index.Longest(model); ok {
			return after[pattern]
		}
		return after[everyModel]
	}
}
