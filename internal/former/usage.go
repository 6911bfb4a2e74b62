package former

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// usage is that of one model or pool.
type usage struct {
	name     string
	requests []time.Time
	tokens   []state.Token
	day      state.DayUsage
	facts    []*charge // that are told as calls
	lastAt   int64
}

// takeUsage takes over the charges of the minute and the days. Open calls, and those of classes
// with a reserve, are told as facts. What these add to the day is in it already.
func (t *taking) takeUsage() {
	for _, u := range t.usages() {
		is := &account.Usage{
			Requests: u.requests, Tokens: u.tokens, DayStart: time.Unix(0, u.day.Start),
			DayCount: state.SaturatedInt(u.day.Count), DayTokens: state.SaturatedInt(u.day.Tokens),
		}
		_, q, _ := t.engine.Catalog.Cover(u.name)
		day := state.DayFrom(time.Unix(0, u.day.Start), q.DayZone)
		t.engine.Adopt(u.name, is, day, nil, t.Now)
		if len(u.facts) == 0 {
			continue
		}
		count, total := is.DayCount, is.DayTokens
		for _, c := range u.facts {
			t.tell(c)
		}
		is.DayCount, is.DayTokens = count, total
		t.engine.Adopt(u.name, is, day, nil, t.Now)
	}
}

// tell tells a call that was charged before. Of one that has ended the charge stays.
func (t *taking) tell(c *charge) {
	told := engine.Charged{
		ID:   account.ID{Process: c.process, N: c.n},
		Name: engine.Name{Asked: c.model, Counted: c.model},
		Ago:  t.Now.Instant - c.at, Tokens: c.Count, Class: c.class,
		Open: t.isOpen(c), How: account.Lost,
	}
	if c.gone { // a reset has forgotten it, and the slot is left
		told.Ago, told.Tokens = max(told.Ago, t.Span+1), state.Count{}
	}
	t.engine.Apply(t.Now, told.ID.Process, told.ID.N, told)
}

// isOpen reports whether a charge is that of an open call of a process that may live.
func (t *taking) isOpen(c *charge) bool {
	_, lives := t.Processes[c.process]
	return lives && c.slot
}

// usages returns what all models and pools have used, those that were used last at the end: the
// others are the first to give up their place.
func (t *taking) usages() []*usage {
	all := make(map[string]*usage)
	need := func(name string) *usage {
		if all[name] == nil {
			all[name] = &usage{name: name}
		}
		return all[name]
	}
	for name, day := range t.Days {
		need(name).day = day
	}
	for name, u := range t.Usage {
		is := need(name)
		is.requests, is.day = u.Requests, u.Day()
		is.tokens = append(is.tokens, u.Tokens...)
		for _, at := range u.Requests {
			is.lastAt = max(is.lastAt, at.UnixNano())
		}
	}
	for _, c := range t.minute.charges {
		t.sort(c, need)
	}
	for name, u := range all {
		_, is := t.Pools[name]
		if state.IsPool(name) && !is {
			delete(all, name) // it was taken back, and with it what was used of it
		}
		// A day from the future begins now, and one that is over ends as the account meets it.
		u.day.Start = min(max(u.day.Start, 0), t.Now.Wall)
	}
	return slices.SortedFunc(maps.Values(all), func(a, b *usage) int {
		return cmp.Or(cmp.Compare(a.lastAt, b.lastAt), cmp.Compare(a.name, b.name))
	})
}

// sort puts a charge where it belongs.
func (t *taking) sort(c *charge, need func(name string) *usage) {
	open, counts := t.isOpen(c), !c.gone && c.at >= t.Now.Instant-t.Span
	if !open && !counts {
		return
	}
	u := need(c.model)
	at := t.Now.WallAt(c.at)
	u.lastAt = max(u.lastAt, at)
	if open || t.reserves[c.class] && c.process != 0 {
		u.facts = append(u.facts, c)
		return
	}
	when := time.Unix(0, at)
	if u.tokens = append(u.tokens, state.Token{Time: when, Count: c.Total(), Input: c.Input}); c.isRequest {
		u.requests = append(u.requests, when)
	}
}
